//! The releases under a limit, in numbers.

use crate::time::{SECOND, Time};

/// The numbers of a limit, for all keys together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) numbers: Numbers,
    pub(crate) cost: u128,
    /// The highest cost of a release.
    pub(crate) dearest: u64,
    /// The cost of the releases at the last instant.
    last_cost: u128,
    pub(crate) first: Option<Time>,
    pub(crate) last: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) releases: u64,
    pub(crate) violations: u64,
    /// The most nanoseconds by which a release was too early.
    pub(crate) earliest: u64,
    /// The period with the highest cost, of one key.
    pub(crate) worst: Worst,
}

/// The period with the highest cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Worst {
    /// The cost of all releases in it.
    pub(crate) count: u64,
    /// The instants of the first release in it and the last.
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// The number of the last release in it.
    pub(crate) number: u64,
}

impl Numbers {
    pub(super) fn with(self, other: Numbers) -> Numbers {
        Numbers {
            releases: self.releases + other.releases,
            violations: self.violations + other.violations,
            earliest: self.earliest.max(other.earliest),
            worst: if other.worst.count > self.worst.count { other.worst } else { self.worst },
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, at: Time, cost: u64, numbers: Numbers) {
        self.numbers = self.numbers.with(numbers);
        self.cost += u128::from(cost);
        self.dearest = self.dearest.max(cost);
        self.last_cost = u128::from(cost) + if self.last == at { self.last_cost } else { 0 };
        self.first.get_or_insert(at);
        self.last = at;
    }

    /// The time from the first release to the last, in nanoseconds.
    pub(crate) fn span(&self) -> u64 {
        self.first.map_or(0, |first| self.last.since(first))
    }

    /// The mean cost per second. The last instant ends the span, so the releases at it do not count.
    #[expect(clippy::cast_precision_loss)]
    pub(super) fn mean_rate(&self) -> f64 {
        let cost = self.cost - self.last_cost;
        cost as f64 * SECOND as f64 / self.span() as f64
    }
}
