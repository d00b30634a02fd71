//! The action to take on the items, and when to stop.

use anyhow::{Result, ensure};
use clap::Args;

use super::{FOR_ITEMS, FOR_RUNS};
use crate::config::{Arrivals, Until, parse_duration, parse_instant};
use crate::time::Time;

/// A run, or something else instead, and its end.
#[derive(Args, Debug)]
pub(crate) struct ControlArgs {
    /// Wait for one release, then become COMMAND
    ///
    /// For scripts that share a limit: COMMAND takes over the process, {} is not replaced, and -c N is the cost.
    #[arg(long, conflicts_with_all = ["reset_state", "set_limits", "status", "hold"])]
    pub(crate) once: bool,

    /// Wait at most DUR for a release, or end with 75
    ///
    /// The run ends as soon as the next release is known to be further away. With --on-limit=drop or fail, each item
    /// waits at most DUR.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) max_wait: Option<u64>,

    /// Start nothing after DUR, or a TIME; end with 75
    ///
    /// DUR counts from the start of the run; TIME is the next 06:00 or 'Mon 06:00', a date as for --at, or what date
    /// prints, perhaps with ,tz=ZONE. Running commands finish.
    #[arg(long, value_name = "DUR|TIME", hide_short_help = true, group = FOR_RUNS)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) until: Option<Until>,

    /// Print when each item would go; run nothing
    #[arg(long, group = FOR_ITEMS)]
    pub(crate) dry_run: bool,

    /// Check time stamps against limits; release nothing
    ///
    /// Prints each item that was too early, then the worst window of each limit; the status is 75 if any item was too
    /// early. A log of --log, or of parallel --joblog, can be read as it is.
    #[arg(long, group = FOR_ITEMS)]
    #[arg(conflicts_with_all = ["dry_run", "reset_state", "set_limits", "status", "hold"])]
    #[arg(conflicts_with_all = ["on_limit", "on_bad", "batch"])]
    #[arg(conflicts_with_all = ["in_order", "lookahead", "progress", "max_wait", "until", "jitter"])]
    pub(crate) audit: bool,

    /// Where time stamps are, for --dry-run and --audit
    ///
    /// SEL[,tz=ZONE][,year=YEAR]: SEL, as for --cost, selects the time stamp [default for --audit: col:1]: seconds, ms,
    /// us or ns, RFC 3339, ISO 8601, or as in syslog and access logs. ZONE and YEAR are for times that name none. now,
    /// for --audit: each item counts when it arrives, and is passed on at once.
    #[arg(long, value_name = "SEL", group = FOR_ITEMS)]
    pub(crate) arrivals: Option<Arrivals>,

    /// Start the clock of --dry-run or --audit at TIME
    ///
    /// 2026-11-21, 2026-11-21T09:00, 2026-11-21T09:00+01:00 or 2026-11-21T09:00[Europe/Berlin]; by default, the first
    /// arrival, or now.
    #[arg(long, value_name = "TIME", value_parser = parse_instant, hide_short_help = true, group = FOR_ITEMS)]
    pub(crate) at: Option<Time>,

    /// Sort items that are out of order by up to DUR
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true, group = FOR_ITEMS)]
    #[arg(allow_negative_numbers = true)]
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
        ensure!(!is_now || self.at.is_none(), "--arrivals now is the present time: leave out --at");
        let arrivals = self.arrivals.clone().or(self.audit.then(Arrivals::default));
        Ok(arrivals.map(|arrivals| Arrivals { unsorted: self.unsorted, ..arrivals }))
    }
}
