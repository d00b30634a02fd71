//! What was released under a limit, in numbers.

use crate::time::{SECOND, Time};

/// The numbers of a limit, all keys together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How many releases it applied to, and how many were too early.
    pub numbers: Numbers,
    /// What all together cost.
    pub cost: u128,
    /// What the dearest cost.
    pub dearest: u64,
    /// What those at the last instant cost.
    last_cost: u128,
    /// When the first and the last one were.
    pub first: Option<Time>,
    /// As `first`.
    pub last: Time,
    /// The period with the most in it, of one key.
    pub worst: Worst,
}

/// How many releases there were, and how early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    /// How many there were.
    pub releases: u64,
    /// How many were too early.
    pub violations: u64,
    /// By how much, in nanoseconds, the worst was.
    pub earliest: u64,
}

/// The period with the most in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Worst {
    /// What was released in it.
    pub count: u64,
    /// The first instant in it, and the last one.
    pub start: Time,
    /// As `start`.
    pub end: Time,
    /// The number of the last release in it.
    pub number: u64,
}

impl Numbers {
    /// Both together.
    pub(super) fn with(self, other: Numbers) -> Numbers {
        Numbers {
            releases: self.releases + other.releases,
            violations: self.violations + other.violations,
            earliest: self.earliest.max(other.earliest),
        }
    }
}

impl Tally {
    /// Adds a release.
    pub(super) fn add(&mut self, at: Time, cost: u64, numbers: Numbers, worst: Worst) {
        self.numbers = self.numbers.with(numbers);
        self.cost += u128::from(cost);
        self.dearest = self.dearest.max(cost);
        self.last_cost = u128::from(cost) + if self.last == at { self.last_cost } else { 0 };
        self.first.get_or_insert(at);
        self.last = at;
        if worst.count > self.worst.count {
            self.worst = worst;
        }
    }

    /// From the first release to the last, in nanoseconds.
    pub fn span(&self) -> u64 {
        self.first.map_or(0, |first| self.last.since(first))
    }

    /// The mean cost per second. The last instant ends the span, so what was released at it does not count.
    #[expect(clippy::cast_precision_loss)]
    pub(super) fn mean_rate(&self) -> f64 {
        let cost = self.cost - self.last_cost;
        cost as f64 * SECOND as f64 / self.span() as f64
    }
}
