//! What was released under one limit, for one key or for all.

use super::rule::{State, Terms};
use super::trace::Trace;
use super::window::Window;
use crate::limiter::Verdict;
use crate::time::{SECOND, Time};

/// The numbers of a limit, or of one key of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How many releases it applied to.
    pub releases: u64,
    /// How many were too early.
    pub violations: u64,
    /// By how much, in nanoseconds, the worst was.
    pub earliest: u64,
    /// What all together cost.
    pub cost: u128,
    /// What the dearest cost.
    pub dearest: u64,
    /// What those at the last instant cost.
    pub last_cost: u128,
    /// When the first and the last one were.
    pub first: Option<Time>,
    /// As `first`.
    pub last: Time,
    /// The period with the most in it.
    pub worst: Worst,
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

impl Tally {
    /// Both together.
    pub(super) fn with(self, other: &Tally) -> Tally {
        let (earlier, later) = if self.last > other.last { (other, &self) } else { (&self, other) };
        let shared = if earlier.last == later.last { earlier.last_cost } else { 0 };
        Tally {
            releases: self.releases + other.releases,
            violations: self.violations + other.violations,
            earliest: self.earliest.max(other.earliest),
            cost: self.cost + other.cost,
            dearest: self.dearest.max(other.dearest),
            last_cost: later.last_cost + shared,
            first: self.first.into_iter().chain(other.first).min(),
            last: later.last,
            worst: if other.worst.count > self.worst.count { other.worst } else { self.worst },
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

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    window: Window,
    state: State,
    pub(super) tally: Tally,
    /// To be drawn, if it is.
    pub(super) trace: Option<Trace>,
}

impl History {
    /// Adds a release. Returns how much is in its period, and when it would have been allowed.
    pub(super) fn judge(
        &mut self,
        terms: &Terms,
        number: u64,
        at: Time,
        cost: u64,
        is_traced: bool,
    ) -> (u64, Verdict) {
        let count = self.window.push(at, cost, terms.period, terms.count);
        let tally = &mut self.tally;
        tally.releases += 1;
        tally.cost += u128::from(cost);
        tally.dearest = tally.dearest.max(cost);
        tally.last_cost = u128::from(cost) + if tally.last == at { tally.last_cost } else { 0 };
        tally.first.get_or_insert(at);
        tally.last = at;
        if count > tally.worst.count {
            tally.worst = Worst { count, start: self.window.start(), end: at, number };
        }
        if is_traced || self.trace.is_some() {
            self.trace.get_or_insert_with(|| Trace::new(at)).push(at, tally.cost, count);
        }
        (count, self.state.judge(terms, &self.window, at, cost))
    }

    /// The last release was too early by so much, if it can be told.
    pub(super) fn note_violation(&mut self, early: Option<u64>) {
        self.tally.violations += 1;
        self.tally.earliest = self.tally.earliest.max(early.unwrap_or(0));
        self.trace.iter_mut().for_each(Trace::note_violation);
    }
}
