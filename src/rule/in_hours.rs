//! Limits that are asked only at some hours, though they count always.

use super::slots::instant;
use super::{Ask, SlotAccount, SlotRule, Verdict};
use crate::time::{Hours, Time, Wall};

/// Hours on the time line of a run.
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

    /// The limit is asked at this instant.
    pub fn contain(&self, at: Time) -> bool {
        self.hours.contain(self.wall.nanos(at))
    }

    /// The first instant from `at` on at which the limit is asked; or is not.
    pub fn first(&self, at: Time, inside: bool) -> Verdict {
        let first = self.hours.first(self.wall.nanos(at), inside).and_then(|first| self.wall.when(first));
        first.map_or(Verdict::Never, |first| Verdict::At(first.max(at)))
    }

    /// The first instant from `at` on from which the limit is not asked for `nanos` nanoseconds.
    fn first_free(&self, at: Time, nanos: u64) -> Time {
        let mut at = at;
        loop {
            let free = instant(self.first(at, false));
            let next = instant(self.first(free, true));
            if free.saturating_add(nanos) < next || next == Time(u64::MAX) {
                return free;
            }
            at = next;
        }
    }
}

/// Slots of a limit that is asked only at some hours.
#[derive(Debug)]
pub struct SlotsInHours {
    /// The rule in these hours.
    pub rule: Box<dyn SlotRule>,
    /// The hours at which it is asked.
    pub hours: InHours,
    /// The most that a release in the hours may cost. One that costs more waits until they are over.
    pub most: u64,
}

impl SlotRule for SlotsInHours {
    fn deciding_unit(&self, account: &SlotAccount, cost: u64) -> Option<u128> {
        if cost > self.most { None } else { self.rule.deciding_unit(account, cost) }
    }

    /// A release that is as late as it may be must not be in the hours.
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
