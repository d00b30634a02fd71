//! Limits that count always but are asked only in their hours.

use super::{Ask, SlotAccount, SlotRule, Verdict};
use crate::time::{Hours, Time, Wall};

/// Hours of the week, on the time line of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InHours {
    hours: Hours,
    wall: Wall,
}

impl InHours {
    /// The hours as `wall` shows them.
    pub fn new(hours: Hours, wall: Wall) -> Self {
        InHours { hours, wall }
    }

    /// True if the limit is asked at `at`.
    pub fn contain(&self, at: Time) -> bool {
        self.hours.contain(self.wall.nanos(at))
    }

    /// The first instant from `at` on that is inside the hours, or outside them, as `inside` says.
    pub fn first(&self, at: Time, inside: bool) -> Verdict {
        let first = self.hours.first(self.wall.nanos(at), inside).and_then(|first| self.wall.when(first));
        first.map_or(Verdict::Never, |first| Verdict::At(first.max(at)))
    }

    /// The first instant from `at` on at which a release is outside the hours even if it is `late` and the wall clock
    /// is set by as much, either way.
    fn first_free(&self, at: Time, late: u64) -> Time {
        let late = i128::from(late);
        let mut from = self.wall.nanos(at) - late;
        loop {
            let Some(free) = self.hours.first(from, false) else { return Time(u64::MAX) };
            match self.hours.first(free, true) {
                Some(next) if next <= free + 3 * late => from = next,
                _ => return self.wall.when(free + late).unwrap_or(Time(u64::MAX)),
            }
        }
    }
}

/// Slots of a limit that is asked only in its hours.
#[derive(Debug)]
pub struct SlotsInHours {
    /// The rule inside the hours.
    pub rule: Box<dyn SlotRule>,
    /// The hours.
    pub hours: InHours,
    /// The most that a release inside the hours may cost; one that costs more waits until they end.
    pub most: u64,
}

impl SlotRule for SlotsInHours {
    fn deciding_unit(&self, account: &SlotAccount, cost: u64) -> Option<u128> {
        if cost > self.most { None } else { self.rule.deciding_unit(account, cost) }
    }

    fn first_slot(&self, account: &SlotAccount, ask: Ask, late: u64, decided: Option<Time>) -> Time {
        let free = self.hours.first_free(ask.since, late);
        if free <= ask.since || ask.cost > self.most {
            return free;
        }
        free.min(self.rule.first_slot(account, ask, late, decided))
    }

    fn book(&self, account: &mut SlotAccount, ask: Ask) {
        self.rule.book(account, ask);
        self.waive_debt(account, ask.since);
    }

    fn overrun(&self, account: &mut SlotAccount, ask: Ask) {
        self.rule.overrun(account, ask);
        self.waive_debt(account, ask.since);
    }

    fn unbook(&self, account: &mut SlotAccount, ask: Ask) {
        self.rule.unbook(account, ask);
    }

    fn exhausted(&self, at: Time) -> SlotAccount {
        self.rule.exhausted(at)
    }

    fn silent(&self, at: Time) -> SlotAccount {
        self.rule.silent(at)
    }

    fn fresh_from(&self, account: &SlotAccount, newest: Time) -> Time {
        self.rule.fresh_from(account, newest)
    }

    fn restarted(&self, account: &SlotAccount, newest: Option<Time>) -> SlotAccount {
        self.rule.restarted(account, newest)
    }

    fn owes_nothing(&self, account: &mut SlotAccount) {
        self.rule.owes_nothing(account);
    }
}

impl SlotsInHours {
    fn waive_debt(&self, account: &mut SlotAccount, at: Time) {
        if !self.hours.contain(at) {
            self.rule.owes_nothing(account);
        }
    }
}
