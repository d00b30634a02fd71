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
    /// The hours `during` which a limit is asked, if not always, as `wall` shows them.
    pub fn of(during: Option<&Hours>, wall: Wall) -> Option<Self> {
        during.map(|hours| InHours { hours: hours.clone(), wall })
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

/// The slots of a limit that may be asked only in some hours.
#[derive(Debug)]
pub struct SlotsInHours {
    /// The rule in those hours, and for all that does not depend on them.
    pub rule: Box<dyn SlotRule>,
    /// The hours, if it is not always asked.
    pub hours: Option<InHours>,
    /// The most that a release may cost while the limit is asked; one that costs more waits until the hours end.
    pub most: u64,
}

impl SlotsInHours {
    /// As [`SlotRule::deciding_unit`].
    pub fn deciding_unit(&self, account: &SlotAccount, cost: u64) -> Option<u128> {
        if cost > self.most { None } else { self.rule.deciding_unit(account, cost) }
    }

    /// As [`SlotRule::first_slot`]. A release in a slot outside the hours must be outside them even if it is `late`.
    pub fn first_slot(&self, account: &SlotAccount, ask: Ask, late: u64, decided: Option<Time>) -> Time {
        let free = self.hours.as_ref().map(|hours| hours.first_free(ask.since, late));
        if let Some(free) = free.filter(|free| *free <= ask.since || ask.cost > self.most) {
            return free;
        }
        let first = self.rule.first_slot(account, ask, late, decided);
        free.map_or(first, |free| free.min(first))
    }

    /// As [`SlotRule::book`].
    pub fn book(&self, account: &mut SlotAccount, ask: Ask) {
        self.rule.book(account, ask);
        self.waive_debt(account, ask.since);
    }

    /// As [`SlotRule::overrun`].
    pub fn overrun(&self, account: &mut SlotAccount, ask: Ask) {
        self.rule.overrun(account, ask);
        self.waive_debt(account, ask.since);
    }

    fn waive_debt(&self, account: &mut SlotAccount, at: Time) {
        if self.hours.as_ref().is_some_and(|hours| !hours.contain(at)) {
            self.rule.waive_debt(account);
        }
    }
}
