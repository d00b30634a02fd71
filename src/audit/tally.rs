//! The releases under a limit, in numbers.

use crate::time::Time;

/// The findings of a limit, for all keys together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) findings: Findings,
    pub(crate) cost: u128,
    /// The highest cost of a release.
    pub(crate) max_cost: u64,
    /// The number of whole periods since the first release, and the cost of the releases in them.
    pub(super) whole: (u64, u128),
    pub(crate) first: Option<Time>,
    pub(crate) last: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Findings {
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

impl Findings {
    pub(super) fn with(self, other: Findings) -> Findings {
        Findings {
            releases: self.releases + other.releases,
            violations: self.violations + other.violations,
            earliest: self.earliest.max(other.earliest),
            worst: if other.worst.count > self.worst.count { other.worst } else { self.worst },
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, at: Time, cost: u64, period: u64, findings: Findings) {
        self.findings = self.findings.with(findings);
        let first = *self.first.get_or_insert(at);
        let periods = at.since(first) / period.max(1);
        if periods > self.whole.0 {
            self.whole = (periods, self.cost);
        }
        self.cost += u128::from(cost);
        self.max_cost = self.max_cost.max(cost);
        self.last = at;
    }

    /// The time from the first release to the last, in nanoseconds.
    pub(crate) fn span(&self) -> u64 {
        self.first.map_or(0, |first| self.last.since(first))
    }
}
