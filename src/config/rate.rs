//! A limit with all options filled in, and the options themselves.

use std::fmt;
use std::num::NonZeroU64;

use anyhow::{Result, ensure};

use super::duration::format_duration;
use super::remark::Remark;
use super::selector::Selector;
use crate::rule::{Algorithm, Terms};
use crate::time::{Hours, Zone};

/// Written instead of a period: the count is of running commands, not of starts.
pub(super) const RUNNING: &str = "running";

/// The option of a limit that is not shared.
pub(super) const LOCAL: &str = "local";

/// The part of a release that a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CountFrom {
    /// The start of a release.
    #[default]
    Start,
    /// The running command, and then its end, from which the period runs.
    Exit,
    /// The running command, and nothing after it.
    Running,
}

/// The options for limits whose RATE leaves them out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Defaults {
    /// `-A`, for limits that take it.
    pub algorithm: Option<Algorithm>,
    /// `-b`; without it, the count.
    pub burst: Option<u64>,
    /// `--margin`, in nanoseconds. Without it, there is none, or that for commands.
    pub margin: Option<u64>,
    /// Releases start commands.
    pub are_for_commands: bool,
    /// The limits that are not local are shared, so they must be the same for all who share them.
    pub are_shared: bool,
    /// `-c`
    pub cost: Option<Selector>,
    /// `-K`
    pub key: Option<Selector>,
}

/// A limit with all options filled in. Prints as a RATE that means the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rate {
    /// N: the cost per period. 0 pauses: only in a file, or with `during=`.
    pub count: u64,
    /// If the rate is to be found: the lowest one, a cost per period. N is the highest.
    pub least: Option<NonZeroU64>,
    /// P in nanoseconds, without the margin. 0 with [`CountFrom::Running`].
    pub period: u64,
    /// The rule.
    pub algorithm: Algorithm,
    /// B, if the rule has a burst.
    pub burst: Option<u64>,
    /// Nanoseconds added to the period.
    pub margin: u64,
    /// The hours in which it is asked, if not always.
    pub during: Option<Box<Hours>>,
    /// The zone of its hours or its calendar, if it goes by the wall clock.
    pub zone: Option<Zone>,
    /// True if it was fully used at the start of the run; otherwise all of it is available.
    pub starts_empty: bool,
    /// The part of a release that it counts.
    pub from: CountFrom,
    /// The cost of an item; 1 without it.
    pub cost: Option<Selector>,
    /// The part that tells items apart: each value has a limit of its own.
    pub key: Option<Selector>,
    /// With `key`: the limit applies only to items with this value.
    pub only: Option<String>,
    /// It is never shared: see [`Rate::is_local`].
    pub local: bool,
    /// What to tell of how it was read.
    pub remarks: Vec<Remark>,
}

impl Rate {
    /// The highest cost that is ever admitted, if there is such a bound.
    pub fn most(&self) -> Option<u64> {
        self.algorithm.spec().max_cost(&self.terms()).filter(|&most| most > 0 && self.during.is_none())
    }

    /// What selects its key and its cost.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.key.iter().chain(&self.cost)
    }

    /// The cost that was given for all items alike, if there is one.
    pub(crate) fn common_cost(&self) -> Option<u64> {
        if let Some(Selector::Constant(cost)) = self.cost { Some(cost) } else { None }
    }

    /// Checks that an item can ever be admitted, if all items have the same cost.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn check_cost(&self) -> Result<()> {
        let cost = self.common_cost().unwrap_or(1);
        ensure!(
            self.most().is_none_or(|most| cost <= most),
            "a cost of {cost} is more than the limit {self} ever admits"
        );
        Ok(())
    }

    /// True if it counts commands until they exit.
    pub(crate) fn counts_exits(&self) -> bool {
        self.from != CountFrom::Start
    }

    /// True if it needs to know how commands end.
    pub fn is_for_commands(&self) -> bool {
        self.counts_exits() || self.least.is_some()
    }

    /// True if it is of each run alone, whatever limits are shared. Others cannot see how many commands run.
    pub fn is_local(&self) -> bool {
        self.local || self.from == CountFrom::Running
    }

    /// True if it bounds how many commands run in all, and one at a time never reaches the bound.
    pub(crate) fn never_holds_up_one(&self) -> bool {
        self.from == CountFrom::Running && self.count > 1 && self.cost.is_none() && self.key.is_none()
    }

    /// True if each key has a limit of its own.
    pub(crate) fn is_by_key(&self) -> bool {
        self.key.is_some() && self.only.is_none()
    }

    /// True if nothing is released until the limit is changed.
    pub fn pauses(&self) -> bool {
        self.count == 0 && self.during.is_none()
    }

    /// True if it depends on what the wall clock shows.
    pub fn goes_by_wall(&self) -> bool {
        self.zone.is_some()
    }

    /// True if the answer for this cost depends on when the item became next in line, other than not being earlier: an
    /// item that costs more than the burst goes once it has waited long enough.
    pub fn depends_on_eligibility(&self, cost: u64) -> bool {
        self.burst.is_some_and(|burst| cost > burst)
    }

    /// The terms of its rule, without the margin.
    pub fn terms(&self) -> Terms {
        let &Rate { count, period, burst, zone, .. } = self;
        Terms { zone, ..Terms::new(count, period, burst.unwrap_or(count)) }
    }

    /// The terms of its rule, with the margin.
    pub fn padded_terms(&self) -> Terms {
        self.algorithm.spec().padded_terms(&self.terms(), self.margin)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(least) = self.least {
            write!(f, "{least}..")?;
        }
        match self.from {
            CountFrom::Running => write!(f, "{}/{RUNNING}", self.count)?,
            _ => write!(f, "{}/{},algo={}", self.count, format_duration(self.period), self.algorithm)?,
        }
        option(f, "burst", self.burst)?;
        option(f, "margin", Some(self.margin).filter(|&margin| margin > 0).map(format_duration))?;
        option(f, "during", self.during.as_ref().map(|hours| &hours.week))?;
        option(f, "tz", self.zone)?;
        option(f, "start", self.starts_empty.then_some("empty"))?;
        option(f, "from", (self.from == CountFrom::Exit).then_some("exit"))?;
        option(f, "cost", self.cost.as_ref())?;
        option(f, "key", self.key.as_ref())?;
        option(f, "only", self.only.as_ref())?;
        if self.local { write!(f, ",{LOCAL}") } else { Ok(()) }
    }
}

fn option(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, ",{name}={value}"))
}

/// The distinct keys of these limits, in the order in which they first occur.
pub fn keys(limits: &[Rate]) -> Vec<&Selector> {
    let mut keys = Vec::new();
    for key in limits.iter().filter_map(|rate| rate.key.as_ref()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// For each limit, the index of its key in [`keys`], if it has one.
pub fn key_indices(limits: &[Rate]) -> Vec<Option<usize>> {
    let keys = keys(limits);
    let index = |rate: &Rate| keys.iter().position(|key| Some(*key) == rate.key.as_ref());
    limits.iter().map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_local_if_it_says_so_or_counts_what_runs() {
        let table = [
            ("1/1s,algo=sliding", false, None),
            ("1/1s,algo=sliding,local", true, None),
            ("1/1s,algo=sliding,key=col:1,only=a,local", true, Some("a")),
            // A value to compare with may contain commas.
            ("1/1s,algo=sliding,key=col:1,only=a,b", false, Some("a,b")),
            ("2/running", true, None),
        ];
        for (text, is_local, only) in table {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.is_local(), rate.only.as_deref()), (is_local, only), "{text}");
            assert_eq!(rate.to_string(), text);
        }
        assert!("1/s,local=yes".parse::<Rate>().is_err());
    }

    #[test]
    fn commands_have_a_margin_unless_the_limit_is_shared() {
        let defaults = Defaults { are_for_commands: true, are_shared: true, ..Defaults::default() };
        let margin =
            |text: &str| text.parse::<super::super::RateText>().unwrap().resolve(&defaults).unwrap().margin;
        assert_eq!([margin("1/s"), margin("1/s,local"), margin("2/running")], [0, 20_000_000, 0]);
    }

    #[test]
    fn only_what_is_dearer_than_the_burst_depends_on_how_long_it_waits() {
        for (text, depends) in [("1/10s,algo=bucket,burst=3", true), ("1/10s", false)] {
            let rate: Rate = text.parse().unwrap();
            let found = [1, 3, 4].map(|cost| rate.depends_on_eligibility(cost));
            assert_eq!(found, [false, false, depends], "{text}");
        }
    }
}
