//! The limits, and how items wait for them.

use std::num::NonZeroU64;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{FOR_ITEMS, choice};
use crate::cli::help;
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
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_limit_count)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) count: Option<u64>,

    /// Period: 500ms, 2s, 1m30s [default: 1s]
    #[arg(short, long, value_name = "DUR", value_parser = parse_limit_period)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) period: Option<Rate>,

    /// A limit: 10/s, 100/2m, 5000/h; or a file, @FILE
    ///
    /// N/DUR, or LOW..HIGH/DUR (finds the rate that a server bears), then options after commas: algo=NAME, burst=N,
    /// margin=DUR, cost=SEL and key=SEL (as -A, -b, --margin, -c and -K), only=VALUE (limits only items with this key),
    /// start=full|empty (empty: as if just used up), from=start|exit (exit: a command counts while it runs and for one
    /// period after that), during=HOURS (delays items only then, as in Mon-Fri@09:00-17:00), tz=ZONE (of these hours,
    /// or of the calendar) and local (of this run alone, also with -s). N/running limits how many commands run at once.
    /// If there are several limits, all of them apply. @FILE is read again whenever it changes; 0/s pauses.
    #[arg(short, long, value_name = "RATE")]
    pub(crate) rate: Vec<LimitSource>,

    #[arg(help = help::on_algorithm(), long_help = help::on_algorithm() + "\n\nSee throttle help algorithms.")]
    #[arg(short = 'A', long, value_name = "NAME")]
    #[arg(value_parser = PossibleValuesParser::new(Algorithm::names()).try_map(|name| name.parse::<Algorithm>()))]
    pub(crate) algorithm: Option<Algorithm>,

    /// Most that a bucket releases at once [default: N]
    #[arg(short, long, value_name = "N", value_parser = parse_count, hide_short_help = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) burst: Option<u64>,

    /// Cost of an item: 5, bytes, col:2, .a [default: 1]
    ///
    /// SEL selects a whole number in the item: col:N (field N), bytes (its length with its delimiter), .path.to.value
    /// (in JSON) or re:REGEX (the first group, or the whole match).
    #[arg(short, long, value_name = "SEL", allow_negative_numbers = true, group = FOR_ITEMS)]
    pub(crate) cost: Option<Selector>,

    /// A limit for each value of SEL: col:1, host, .a
    ///
    /// SEL is as for --cost, or host (of a URL). Items with different keys do not hold each other up.
    #[arg(short = 'K', long, value_name = "SEL", value_parser = Selector::parse_part, group = FOR_ITEMS)]
    pub(crate) key: Option<Selector>,

    /// Item that comes too early: wait, drop, latest, fail
    ///
    /// drop: discard it. latest: keep only the newest of the waiting items with the same keys. fail: end the run with
    /// status 75.
    #[arg(long, value_name = "WHAT")]
    #[arg(value_parser = choice(ON_LIMIT), group = FOR_ITEMS)]
    pub(crate) on_limit: Option<OnLimit>,

    /// Keep the order of the input, even across keys
    #[arg(long, hide_short_help = true, group = FOR_ITEMS)]
    pub(crate) in_order: bool,

    /// Let at most N items wait in lanes [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_lookahead, hide_short_help = true, group = FOR_ITEMS)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) lookahead: Option<NonZeroU64>,

    /// Make every period longer by DUR, against jitter
    ///
    /// Windows on commands have one by default: 2 % of the period, at most 50ms, but none with from=exit or if shared.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) margin: Option<u64>,

    /// Delay each release at random by up to DUR
    ///
    /// With DUR,seed=N, delays are the same each time; -v prints the seed.
    #[arg(long, value_name = "DUR", hide_short_help = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) jitter: Option<Jitter>,
}

impl LimitArgs {
    /// Where the limits come from; nowhere if none was given.
    pub(crate) fn sources(&self) -> Result<Vec<LimitSource>> {
        self.check_count()?;
        let mut sources = Vec::new();
        if self.count.is_some() || self.period.is_some() {
            let rate = RateText::new(self.count.unwrap_or(1), self.period.clone())?;
            sources.push(LimitSource::Rate(Box::new(rate)));
        }
        sources.extend(self.rate.iter().cloned());
        Ok(sources)
    }

    /// These limits, with the options for those that leave them out.
    pub(crate) fn limits(
        &self,
        sources: Vec<LimitSource>,
        are_for_commands: bool,
        are_shared: bool,
    ) -> Result<LimitOptions> {
        let defaults = Defaults {
            algorithm: self.algorithm,
            burst: self.burst,
            margin: self.margin,
            are_for_commands,
            are_shared,
            cost: self.cost.clone(),
            key: self.key.clone(),
        };
        let limits = LimitOptions { sources, defaults };
        // What is in a file may have a burst, too.
        let takes_burst = limits.given()?.iter().any(|rate| rate.burst.is_some());
        ensure!(
            self.burst.is_none() || takes_burst || limits.files().next().is_some(),
            "--burst is for the token bucket: {}, or leave it out",
            if self.algorithm.is_none() { "add -A bucket" } else { "give a limit algo=bucket" }
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
