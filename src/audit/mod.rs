//! Judges releases that have happened: which were too early, by how much, and how close to the limits the rest came.
//!
//! It reads no clock: the caller passes instants, which must not decrease.

mod distinct;
mod judge;
mod limit;
mod ranked;
mod tally;
mod trace;

pub(crate) use self::limit::AuditedLimit;
pub(crate) use self::tally::Findings;
pub(crate) use self::trace::Trace;

use crate::charge::Key;
use crate::config::{CountFrom, Rate, key_indices};
use crate::time::{Time, Wall};

/// Limits, with what was found about the releases under them.
pub struct Audit {
    pub(crate) limits: Vec<AuditedLimit>,
    pub(crate) releases: u64,
    /// The number of releases that some limit would not have allowed.
    pub(crate) too_early: u64,
}

/// A release that a limit would not have allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation<'a> {
    /// The number of the release in the input.
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) rate: &'a Rate,
    /// Its key, if the limit applies to each key separately.
    pub(crate) key: Option<&'a [u8]>,
    /// The cost in the period that ends with this release.
    pub count: u64,
    /// Nanoseconds by which it was too early; `None` if it is never allowed.
    pub early: Option<u64>,
}

impl Audit {
    /// An audit of these limits, except those on the number of running commands, which have no windows.
    pub fn new(rates: &[Rate]) -> Self {
        Self::by(rates, Wall::EPOCH)
    }

    /// The same, of instants that this wall clock shows.
    pub(crate) fn by(rates: &[Rate], wall: Wall) -> Self {
        let limits = rates.iter().zip(key_indices(rates)).enumerate();
        let windowed = limits.filter(|(_, (rate, _))| rate.from != CountFrom::Running);
        let limits = windowed.map(|(index, (rate, key))| AuditedLimit::new(rate, wall, index, key)).collect();
        Audit { limits, releases: 0, too_early: 0 }
    }

    /// Keeps what is needed to draw the histories.
    pub(crate) fn traced(mut self) -> Self {
        self.limits.iter_mut().for_each(AuditedLimit::trace);
        self
    }

    /// Judges a release. `costs` are its costs under each limit, 0 where that does not apply; `keys` are the keys that
    /// keyed limits group it by. Calls `tell` for each limit that would not have allowed it.
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

    /// Like [`Audit::judge`], for a release that is charged for several keys.
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
