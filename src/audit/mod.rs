//! Judging releases that have happened: which were too early, by how much, and how close to the limits the rest came.
//!
//! It is pure, and fed with instants that must not decrease.

mod distinct;
mod judge;
mod limit;
mod ranked;
mod tally;
mod trace;
mod window;

pub(crate) use self::limit::AuditedLimit;
pub(crate) use self::tally::Numbers;
pub(crate) use self::trace::Trace;

use crate::charge::Key;
use crate::config::{CountFrom, Rate, keys};
use crate::time::Time;

/// Some limits, with what is found of releases under them.
pub struct Audit {
    pub(crate) limits: Vec<AuditedLimit>,
    pub(crate) releases: u64,
    /// The number of releases that some limit would not have allowed.
    pub(crate) too_early: u64,
}

/// A release that a limit would not have allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation<'a> {
    /// Its number in the input.
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) rate: &'a Rate,
    /// Its key, if each has a limit of its own.
    pub(crate) key: Option<&'a [u8]>,
    /// The cost in the period that ends with it.
    pub count: u64,
    /// Nanoseconds by which it was too early; `None` if it is never allowed.
    pub early: Option<u64>,
}

impl Audit {
    /// Judges by these limits, except for those that count how many commands run, which have no windows.
    pub fn new(rates: &[Rate]) -> Self {
        let selectors = keys(rates);
        let limit = |(index, rate): (usize, &Rate)| {
            let place = |key| selectors.iter().position(|known| *known == key);
            AuditedLimit::new(rate, index, rate.key.as_ref().and_then(place))
        };
        let windowed = rates.iter().enumerate().filter(|(_, rate)| rate.from != CountFrom::Running);
        Audit { limits: windowed.map(limit).collect(), releases: 0, too_early: 0 }
    }

    /// Keeps what is needed to draw it.
    pub(crate) fn traced(mut self) -> Self {
        self.limits = self.limits.into_iter().map(AuditedLimit::traced).collect();
        self
    }

    /// Judges a release. `costs` are what it costs each limit, 0 where that does not apply, and `keys` those by which
    /// the limits tell releases apart. Whatever a limit would not have allowed is given to `tell`.
    pub fn judge(
        &mut self,
        number: u64,
        at: Time,
        costs: &[u64],
        keys: &[Key],
        tell: impl FnMut(&Violation),
    ) {
        self.judge_together(number, at, [(costs, keys)], tell);
    }

    /// As [`Audit::judge`], for a release that is charged for several keys.
    pub(crate) fn judge_together<'a>(
        &mut self,
        number: u64,
        at: Time,
        charges: impl IntoIterator<Item = (&'a [u64], &'a [Key])>,
        mut tell: impl FnMut(&Violation),
    ) {
        let mut is_early = false;
        for (costs, keys) in charges {
            for limit in &mut self.limits {
                if let Some(violation) = limit.judge(number, at, costs, keys) {
                    is_early = true;
                    tell(&violation);
                }
            }
        }
        self.releases += 1;
        self.too_early += u64::from(is_early);
    }
}

#[cfg(test)]
mod tests;
