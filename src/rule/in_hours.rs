//! Limits that count always but are asked only in their hours.

use super::{AnyRule, AnyState, Ask};
use crate::time::{Hours, Time, Wall};

/// Hours of the week, on the time line of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InHours {
    hours: Hours,
    wall: Wall,
}

impl InHours {
    /// The hours `during` which a limit is asked, if not always, as `wall` shows them.
    pub fn of(during: Option<&Hours>, wall: Wall) -> Option<Self> {
        during.map(|hours| InHours { hours: hours.clone(), wall })
    }

    /// True if the limit is asked at `at`.
    pub fn contain(&self, at: Time) -> bool {
        self.hours.contain(self.wall.nanos(at))
    }

    /// The first instant from `at` on that is inside the hours, or outside them, as `inside` says.
    pub fn first(&self, at: Time, inside: bool) -> Time {
        let first = self.hours.first(self.wall.nanos(at), inside).and_then(|first| self.wall.when(first));
        first.map_or(Time::NEVER, |first| first.max(at))
    }

    /// The first instant from `at` on at which a release is outside the hours even if it is `late` and the wall clock
    /// is set by as much, either way.
    fn first_free(&self, at: Time, late: u64) -> Time {
        let late = i128::from(late);
        let mut from = self.wall.nanos(at) - late;
        loop {
            let Some(free) = self.hours.first(from, false) else { return Time::NEVER };
            match self.hours.first(free, true) {
                Some(next) if next <= free + 3 * late => from = next,
                _ => return self.wall.when(free + late).unwrap_or(Time::NEVER),
            }
        }
    }
}

/// A rule that may be asked only in some hours.
#[derive(Clone, Debug)]
pub struct RuleInHours {
    /// The rule in those hours, and for all that does not depend on them.
    pub rule: AnyRule,
    /// The hours, if it is not always asked.
    pub hours: Option<InHours>,
    /// The most that a release may cost while the limit is asked; one that costs more waits until the hours end.
    pub max_cost: u64,
    /// As [`Terms::late`](super::Terms::late): a release outside the hours must be outside them even if it is late.
    pub late: u64,
}

impl RuleInHours {
    /// The first instant, at or after `ask.since`, at which a release is allowed.
    pub fn earliest(&self, state: &AnyState, ask: Ask) -> Time {
        let free = self.hours.as_ref().map(|hours| hours.first_free(ask.since, self.late));
        match free {
            Some(free) if free <= ask.since || ask.cost > self.max_cost => free,
            Some(free) => self.rule.earliest(state, ask).min(free),
            None => self.rule.earliest(state, ask),
        }
    }

    /// As [`AnyRule::commit`]. Outside the hours, nothing is owed.
    pub fn commit(&self, state: &mut AnyState, now: Time, ask: Ask) {
        self.rule.commit(state, now, ask);
        self.waive_debt(state, now);
    }

    /// As [`AnyRule::overrun`]. Outside the hours, nothing is owed.
    pub fn overrun(&self, state: &mut AnyState, at: Time, ask: Ask) {
        self.rule.overrun(state, at, ask);
        self.waive_debt(state, at);
    }

    fn waive_debt(&self, state: &mut AnyState, at: Time) {
        if self.hours.as_ref().is_some_and(|hours| !hours.contain(at)) {
            self.rule.waive_debt(state);
        }
    }
}
