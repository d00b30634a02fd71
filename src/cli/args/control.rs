//! The action to take on the items, and when to stop.

use anyhow::{Result, ensure};
use clap::Args;

use crate::config::{Arrivals, Until, parse_duration, parse_instant};
use crate::time::Time;

/// A run, or something else instead, and its end.
#[derive(Args, Debug)]
pub(crate) struct ControlArgs {
    /// Wait for one release, then become COMMAND
    ///
    /// Reads no items. COMMAND replaces throttle and takes over its standard input, output and error, and the exit
    /// status; {} is not replaced. Without COMMAND, throttle exits with 0. For scripts that share a limit: throttle
    /// --once -s NAME -r 1/s -- COMMAND. -c N sets the cost of the release.
    #[arg(long, conflicts_with_all = ["reset_state", "status", "hold"])]
    pub(crate) once: bool,

    /// Wait at most DUR for a release, or end with 75
    ///
    /// The run ends as soon as the next release is known to be further away. With --on-limit=drop, an item not released
    /// within DUR of its arrival is discarded; with --on-limit=fail, it ends the run. With --once, DUR counts from the
    /// start; 0 means now or not at all. Waiting for a slow store does not count: see --store-timeout.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) max_wait: Option<u64>,

    /// Start nothing after DUR, or a TIME; end with 75
    ///
    /// DUR counts from the start of the run. TIME is the next 06:00 or 'Mon 06:00', a date as for --at, or what date
    /// prints, each perhaps with ,tz=ZONE. Running commands finish. If items are left, a message
    /// says how many, and the status is 75; with --log, --resume continues later.
    #[arg(long, value_name = "DUR|TIME", hide_short_help = true)]
    pub(crate) until: Option<Until>,

    /// Print when each item would go, without waiting
    ///
    /// Prints INSTANT, a tab and ITEM for each: the instant of its release in seconds, with 9 decimals, on the time
    /// line of --arrivals. No command is run: with COMMAND, one line per release shows its command line instead of
    /// ITEM, quoted for bash; with --pipe, the items.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Check time stamps against the limits, release nothing
    ///
    /// Reads when each item was released, and prints each that was too early: its number, its instant, how many there
    /// are in its window, and by how much it was too early; at the end, even after a signal, prints for each limit the
    /// worst window, how much of the limit was used, and the highest and the mean rate. Exits with 75 if any was too
    /// early. With --stats=json, the numbers follow as JSON.
    ///
    /// A log written by --log, or by --joblog of parallel, can be read as it is: costs and keys are those of its items.
    #[arg(long)]
    #[arg(conflicts_with_all = ["dry_run", "reset_state", "status", "hold", "on_limit", "on_bad", "batch"])]
    #[arg(conflicts_with_all = ["in_order", "lookahead", "progress", "at", "max_wait", "until", "jitter"])]
    pub(crate) audit: bool,

    /// Where time stamps are, for --dry-run and --audit
    ///
    /// SEL[,tz=ZONE][,year=YEAR]: SEL, as for --cost, selects the time stamp [default for --audit: col:1]. It is in
    /// seconds with up to 9 decimals (since 1970, or since any start), in milliseconds, microseconds or nanoseconds
    /// since 1970, in RFC 3339 or ISO 8601 with a time of day, or as syslog and the access logs of web servers write
    /// it; a syslog message may be selected whole. ZONE, such as UTC, local, +01:00 or Europe/Berlin, applies to times
    /// that name none. YEAR is that of the first time, if times name none; by default, the latest that does not put it
    /// in the future. In a dry run without --arrivals, all items arrive at 0.
    ///
    /// now, for --audit: items have no time stamps, and each counts when it arrives. It is passed on at once, and the
    /// findings are printed on standard error at the end.
    #[arg(long, value_name = "SEL")]
    pub(crate) arrivals: Option<Arrivals>,

    /// With --dry-run: what the clock shows when it starts
    ///
    /// TIME is a date, perhaps with a time, an offset or a zone: 2026-11-21, 2026-11-21T09:00, 2026-11-21T09:00+01:00,
    /// 2026-11-21T09:00[Europe/Berlin]. Without it, the clock follows --arrivals if these are since 1970, or else
    /// starts now.
    #[arg(long, value_name = "TIME", requires = "dry_run", value_parser = parse_instant, hide_short_help = true)]
    pub(crate) at: Option<Time>,

    /// Sort items that are out of order by up to DUR
    ///
    /// By the times of --arrivals. Without it, items out of order are an error, except in logs of commands, which are
    /// sorted as a whole.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) unsorted: Option<u64>,
}

impl ControlArgs {
    /// The instants of items; `None` if they have none.
    pub(crate) fn arrivals(&self) -> Result<Option<Arrivals>> {
        let has_time = self.dry_run || self.audit;
        ensure!(
            has_time || self.arrivals.is_none(),
            "--arrivals is for --dry-run or --audit: add one of them"
        );
        let has_stamps = self.audit || self.arrivals.is_some();
        ensure!(
            has_stamps || self.unsorted.is_none(),
            "--unsorted is for --arrivals or --audit: add one of them"
        );
        let is_now = self.arrivals.as_ref().is_some_and(|arrivals| arrivals.is_now);
        ensure!(!is_now || self.audit, "--arrivals now is for --audit: a dry run computes at once");
        ensure!(!is_now || self.unsorted.is_none(), "--arrivals now is in order: leave out --unsorted");
        let arrivals = self.arrivals.clone().or(self.audit.then(Arrivals::default));
        Ok(arrivals.map(|arrivals| Arrivals { unsorted: self.unsorted, ..arrivals }))
    }
}
