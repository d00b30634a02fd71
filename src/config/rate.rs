//! A limit with nothing left open, and the choices it is made of.

use std::fmt;

use anyhow::{Result, ensure};

use super::amount::RUNNING;
use super::duration::format_duration;
use super::selector::Selector;
use crate::rule::{Algorithm, Terms};
use crate::time::Hours;

/// The part of a release's life that a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CountFrom {
    /// The start.
    #[default]
    Start,
    /// The command's life, and its end, from which the period runs.
    Exit,
    /// The command's life alone.
    Running,
}

/// The options of a limit whose RATE leaves them out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Defaults {
    /// `-A`
    pub algorithm: Algorithm,
    /// `-b`; without it, the count.
    pub burst: Option<u64>,
    /// `--margin`, in nanoseconds.
    pub margin: u64,
    /// `-c`
    pub cost: Option<Selector>,
    /// `-K`
    pub key: Option<Selector>,
}

/// A limit with nothing left open. Prints as the RATE that means the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rate {
    /// N: the cost per period. 0 pauses: only in a file, or with `during=`.
    pub count: u64,
    /// P in nanoseconds, without the margin. 0 with [`CountFrom::Running`].
    pub period: u64,
    /// The rule.
    pub algorithm: Algorithm,
    /// B, if the rule has a burst.
    pub burst: Option<u64>,
    /// Nanoseconds added to the period.
    pub margin: u64,
    /// The hours at which it is asked, if not always; or else the zone whose calendar it goes by.
    pub hours: Option<Box<Hours>>,
    /// It was fully used at the start of the run; otherwise all of it is available.
    pub starts_empty: bool,
    /// The part of a release's life that it counts.
    pub from: CountFrom,
    /// The charge of an item; 1 without it.
    pub cost: Option<Selector>,
    /// Tells items apart: each value has a limit of its own.
    pub key: Option<Selector>,
    /// With `key`: the limit is for items with this value only.
    pub only: Option<String>,
    /// The amount as written, if count and period are a little less than that.
    pub rounded_from: Option<String>,
}

impl Rate {
    /// The most that an item may ever cost, if there is such a bound.
    pub fn most(&self) -> Option<u64> {
        self.algorithm.facts().dearest(&self.terms()).filter(|&most| most > 0 && self.during().is_none())
    }

    /// The cost that is the same for all items, if it was given.
    pub(super) fn common_cost(&self) -> Option<u64> {
        if let Some(Selector::Constant(cost)) = self.cost { Some(cost) } else { None }
    }

    /// Checks that a cost that is the same for all items is ever admitted.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn check_cost(&self) -> Result<()> {
        let cost = self.common_cost().unwrap_or(1);
        ensure!(
            self.most().is_none_or(|most| cost <= most),
            "a cost of {cost} is more than the limit {self} ever admits"
        );
        Ok(())
    }

    /// The hours at which it is asked, if not always.
    pub fn during(&self) -> Option<&Hours> {
        self.hours.as_deref().filter(|hours| !hours.week.is_all())
    }

    /// It counts commands until they exit.
    pub(crate) fn counts_exits(&self) -> bool {
        self.from != CountFrom::Start
    }

    /// Nothing is released until it is changed.
    pub fn pauses(&self) -> bool {
        self.count == 0 && self.during().is_none()
    }

    /// The answer to an item of this cost depends on when it became next in line, in more than being no earlier: what
    /// is dearer than a burst is served once it has waited for long enough.
    pub fn depends_on_since(&self, cost: u64) -> bool {
        self.burst.is_some_and(|burst| cost > burst)
    }

    /// The terms of its rule, without the margin.
    pub fn terms(&self) -> Terms {
        let &Rate { count, period, burst, .. } = self;
        let zone = self.hours.as_ref().map(|hours| hours.zone);
        Terms { zone, ..Terms::new(count, period, burst.unwrap_or(count)) }
    }

    /// The terms of its rule, with the margin.
    pub fn padded_terms(&self) -> Terms {
        self.algorithm.facts().padded_terms(&self.terms(), self.margin)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            CountFrom::Running => write!(f, "{}/{RUNNING}", self.count)?,
            _ => write!(f, "{}/{},algo={}", self.count, format_duration(self.period), self.algorithm)?,
        }
        option(f, "burst", self.burst)?;
        option(f, "margin", Some(self.margin).filter(|&margin| margin > 0).map(format_duration))?;
        option(f, "during", self.during().map(|hours| &hours.week))?;
        option(f, "tz", self.hours.as_ref().map(|hours| hours.zone))?;
        option(f, "start", self.starts_empty.then_some("empty"))?;
        option(f, "from", (self.from == CountFrom::Exit).then_some("exit"))?;
        option(f, "cost", self.cost.as_ref())?;
        option(f, "key", self.key.as_ref())?;
        option(f, "only", self.only.as_ref())
    }
}

fn option(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, ",{name}={value}"))
}

/// The different keys that limits go by, in the order in which they first occur.
pub fn keys(limits: &[Rate]) -> Vec<&Selector> {
    let mut keys = Vec::new();
    for key in limits.iter().filter_map(|rate| rate.key.as_ref()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_dearer_than_the_burst_depends_on_how_long_it_waits() {
        for (text, depends) in [("1/10s,algo=bucket,burst=3", true), ("1/10s", false)] {
            let rate: Rate = text.parse().unwrap();
            let found = [1, 3, 4].map(|cost| rate.depends_on_since(cost));
            assert_eq!(found, [false, false, depends], "{text}");
        }
    }
}
