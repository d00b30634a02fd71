//! The limits, and how items wait for them.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::choice;
use crate::cli::{help, misplaced};
use crate::config::{
    Defaults, Jitter, LimitOptions, LimitSource, OnLimit, Rate, RateText, Selector, format_duration,
    parse_count, parse_duration, parse_limit_count, parse_limit_period,
};
use crate::rule::Algorithm;

const ON_LIMIT: &[(&str, OnLimit)] =
    &[("wait", OnLimit::Wait), ("drop", OnLimit::Drop), ("latest", OnLimit::Latest), ("fail", OnLimit::Fail)];

/// Limits, and what happens to items that have to wait for them.
#[derive(Args, Debug)]
pub(crate) struct LimitArgs {
    /// Release at most N items per period [default: 1]
    ///
    /// N may carry a unit, as in 1k, 2M or 4Ki.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_limit_count)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) count: Option<u64>,

    /// Length of the period: 500ms, 2s, 1m30s [default: 1s]
    ///
    /// Units are ns, us, ms, s, m, h, d and w; a bare number is seconds. Decimals are allowed.
    #[arg(short, long, value_name = "DUR", value_parser = parse_limit_period)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) period: Option<Rate>,

    /// A limit: 10/s, 100/2m, 5000/h; or @FILE, one per line
    ///
    /// N/DUR, where 10/s is short for 10/1s, then options, as in 5000/h,algo=bucket,burst=50. The options are
    /// algo=NAME, burst=N, margin=DUR, cost=SEL, key=SEL (as -A, -b, --margin, -c and -K, for this limit), only=VALUE
    /// (with a key: the limit is for items with this key only), start=full|empty (empty: as if just used up),
    /// from=start|exit (exit: a command counts from its start until the period after its end), during=HOURS (it delays
    /// items only then, as in Mon-Fri@09:00-17:00) and tz=ZONE (of these hours, or of the calendar; by default the
    /// system's zone).
    ///
    /// 0/s,during=HOURS releases nothing during these hours. N/running admits a command while fewer than N are running,
    /// and with key=SEL while fewer than N with its key are.
    ///
    /// May be given several times, and together with -n and -p: an item is released when all limits admit it.
    ///
    /// @FILE reads limits from a file, one RATE per line, and reads it again whenever it changes. In a file, 0/s
    /// pauses.
    #[arg(short, long, value_name = "RATE")]
    pub(crate) rate: Vec<LimitSource>,

    #[arg(help = help::on_algorithm(), long_help = help::on_algorithms())]
    #[arg(short = 'A', long, value_name = "NAME", hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(Algorithm::names()).try_map(|name| name.parse::<Algorithm>()))]
    pub(crate) algorithm: Option<Algorithm>,

    /// The most that a bucket releases at once [default: N]
    ///
    /// With -A bucket only. Applies to buckets without burst=.
    #[arg(short, long, value_name = "N", value_parser = parse_count, hide_short_help = true)]
    pub(crate) burst: Option<u64>,

    /// What an item costs: 5, bytes, col:2, .a.b [default: 1]
    ///
    /// SEL selects a whole number in the item: col:N (field N), bytes (its length with its delimiter), .path.to.value
    /// (in JSON) or re:REGEX (the first group, or all of the match). Or it is a number, the same for all items. An item
    /// that has no cost, or costs more than a limit ever admits, is an error: see --on-bad. Applies to limits without
    /// cost=.
    #[arg(short, long, value_name = "SEL", allow_negative_numbers = true)]
    pub(crate) cost: Option<Selector>,

    /// One limit for each value of SEL: col:1, host, .user.id
    ///
    /// Items with different keys do not hold each other up. SEL is as for --cost, or host (of a URL). An item without
    /// such a part has the empty key. Applies to limits without key=.
    #[arg(short = 'K', long, value_name = "SEL", value_parser = Selector::parse_part)]
    pub(crate) key: Option<Selector>,

    /// If an item cannot go at once: wait, drop, latest, fail
    ///
    /// wait (default): it waits.
    ///
    /// drop: it is discarded.
    ///
    /// latest: it waits until a newer one with the same keys takes its place; then it is discarded.
    ///
    /// fail: it ends the run with status 75.
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    #[arg(value_parser = choice(ON_LIMIT))]
    pub(crate) on_limit: Option<OnLimit>,

    /// Keep the order of the input, also among different keys
    ///
    /// Then a blocked key holds up all items after it.
    #[arg(long, hide_short_help = true)]
    pub(crate) in_order: bool,

    /// Look at most N items ahead for one that may go [default: 1024]
    ///
    /// At most N wait in the lanes of their keys; then reading stops until one is released.
    #[arg(long, value_name = "N", value_parser = parse_lookahead, hide_short_help = true)]
    pub(crate) lookahead: Option<NonZeroU64>,

    /// Make every period longer by DUR, against jitter
    ///
    /// Items that leave far enough apart may arrive closer together: choose a margin somewhat larger than the jitter on
    /// the way. With -A interval, the N gaps of a period share the margin: write -n 1 -p 50ms rather than -n 20 -p 1s.
    /// Applies to limits without margin=. Without it, sliding, fixed and calendar limits on commands have 2 % of their
    /// period, at most 50ms, except with from=exit and with -s; 0 is none.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) margin: Option<u64>,

    /// Delay each release at random by up to DUR
    ///
    /// Counted from the instant at which the limits would admit it; then they are asked again. So releases are never
    /// closer together than the limits allow, and items with the same keys keep their order. With DUR,seed=N, the same
    /// items get the same delays each time, also in a dry run; -v prints the seed of a run without one.
    #[arg(long, value_name = "DUR", hide_short_help = true)]
    pub(crate) jitter: Option<Jitter>,
}

impl LimitArgs {
    /// All limits, which other runs may share. There may be none only if nothing `is_released`.
    pub(crate) fn limits(
        &self,
        is_released: bool,
        are_shared: bool,
        command: &[OsString],
        jobs: Option<NonZeroUsize>,
    ) -> Result<LimitOptions> {
        let defaults = Defaults {
            algorithm: self.algorithm.unwrap_or_default(),
            burst: self.burst,
            margin: self.margin,
            are_for_commands: !command.is_empty() && !are_shared,
            cost: self.cost.clone(),
            key: self.key.clone(),
        };
        self.check_count()?;
        let mut sources = Vec::new();
        if self.count.is_some() || self.period.is_some() {
            let rate = RateText::new(self.count.unwrap_or(1), self.period.clone())?;
            sources.push(LimitSource::Rate(Box::new(rate)));
        }
        sources.extend(self.rate.iter().cloned());
        ensure!(!is_released || !sources.is_empty(), misplaced::no_limit(command, jobs));
        let limits = LimitOptions { sources, defaults };
        // What is in a file may have a burst, too.
        let takes_burst = limits.given()?.iter().any(|rate| rate.burst.is_some());
        ensure!(
            self.burst.is_none() || takes_burst || limits.files().next().is_some(),
            "--burst is for the token bucket: add -A bucket"
        );
        Ok(limits)
    }

    /// `-n` is a limit here, but a number of arguments for xargs and parallel; `-p` may be meant as the period of `-r`.
    fn check_count(&self) -> Result<()> {
        if let (Some(count), None, false) = (self.count, &self.period, self.rate.is_empty()) {
            let items = match count {
                1 => "a command gets one item anyway, so leave it out".to_owned(),
                _ => format!("to give a command up to {count} items, use -B {count}"),
            };
            bail!(
                "-n {count} with -r is a second limit, {count} a second: if you mean that, add -p 1s; {items}"
            );
        }
        if let (Some(period), None, Some(first)) = (&self.period, self.count, self.rate.first()) {
            let period = format_duration(period.period);
            let count = match first {
                LimitSource::Rate(rate) => rate.resolve(&Defaults::default()).map_or(5, |rate| rate.count),
                LimitSource::File(_) => 5,
            };
            bail!(
                "-p {period} with -r is a second limit, 1 per {period}: if you mean that, add -n 1; for another \
                 period, write -r {count}/{period}"
            );
        }
        Ok(())
    }
}

fn parse_lookahead(text: &str) -> Result<NonZeroU64> {
    NonZeroU64::new(parse_count(text)?).context("the minimum is 1")
}
