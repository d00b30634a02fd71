//! Slots of limits that are shared: how many to book, and when.

use std::collections::HashMap;

use anyhow::{Result, ensure};

use super::Pump;
use crate::charge::Key;
use crate::limiter::{All, Claim, Slot};
use crate::source::Parcel;
use crate::store::{Answer, Order, Policy, StoreError};
use crate::time::{SECOND, Time};
use crate::ui::stats::items;

/// So many nanoseconds before the last slot is due, the next ones are asked for; earlier if answers take longer.
const LEAD: u64 = SECOND / 20;

/// An answer that is of no use is not asked for again at once.
const PAUSE: u64 = SECOND / 100;

/// What has been asked of the store.
pub(super) struct Bookings {
    policy: Policy,
    desks: HashMap<Key, Desk>,
    /// How long the last answer took, in nanoseconds.
    took: u64,
}

/// How it stands with a key.
enum Desk {
    /// An order for so many is on its way, since then.
    Asked(Time, u64),
    /// It makes no sense to ask before.
    NotBefore(Time),
}

/// What to do about a lane.
enum Plan {
    Nothing,
    /// Look again at this instant.
    Later(Time),
    Ask(Order),
}

impl Bookings {
    pub(super) fn new(policy: Policy) -> Self {
        Bookings { policy, desks: HashMap::new(), took: 0 }
    }

    /// How long before it is due the next slot is asked for, in nanoseconds.
    fn lead(&self) -> u64 {
        LEAD.saturating_add(self.took)
    }

    /// How many slots are on their way.
    fn coming(&self) -> u64 {
        let coming = |desk: &Desk| if let Desk::Asked(_, count) = desk { *count } else { 0 };
        self.desks.values().map(coming).sum()
    }

    /// What to do for `wanted` releases that claim this, when some slots are held already, and only `vacancies` more can
    /// be used.
    fn plan(
        &mut self,
        now: Time,
        claim: &Claim,
        wanted: u64,
        vacancies: u64,
        slots: impl DoubleEndedIterator<Item = Slot>,
    ) -> Plan {
        let mut slots = slots.rev();
        let last = slots.next();
        let held = (last.iter().count() + slots.count()) as u64;
        let lacking = wanted.saturating_sub(held).min(vacancies).min(self.policy.span);
        if lacking == 0 {
            return Plan::Nothing;
        }
        // What backs off is not ready for a slot yet.
        let when =
            last.map_or(claim.since, |last| claim.since.max(Time(last.at.0.saturating_sub(self.lead()))));
        let key = claim.keys.first().cloned().unwrap_or_default();
        let when = match self.desks.get(&key) {
            Some(Desk::Asked(..)) => return Plan::Nothing,
            Some(Desk::NotBefore(not_before)) => when.max(*not_before),
            None => when,
        };
        if when > now {
            return Plan::Later(when);
        }
        self.desks.insert(key.clone(), Desk::Asked(now, lacking));
        Plan::Ask(Order { key, costs: claim.costs.into(), count: lacking })
    }

    /// An order has been answered.
    fn note(&mut self, now: Time, order: &Order, answer: &Answer) {
        if let Some(Desk::Asked(since, _)) = self.desks.remove(&order.key) {
            self.took = now.since(since);
        }
        let pause = if answer.slots.is_empty() { now.checked_add(PAUSE.into()) } else { None };
        if let Some(not_before) = answer.ask_again.or(pause) {
            self.desks.insert(order.key.clone(), Desk::NotBefore(not_before));
        }
    }

    /// How many items to look at in a lane: more would not be booked.
    fn most(&self) -> u64 {
        2 * self.policy.span
    }
}

impl Pump<'_> {
    /// Has releases wait for slots that the world books, by `policy`, instead of for limits of their own.
    pub fn with_bookings(mut self, policy: Policy) -> Self {
        self.rules.limits = All::booked();
        self.bookings = Some(Bookings::new(policy));
        self
    }

    /// Has slots booked for what waits. Returns when to look again.
    pub(super) fn book(&mut self) -> Result<Option<Time>> {
        let Some(bookings) = &mut self.bookings else { return Ok(None) };
        let now = self.world.now();
        let soon = Time(now.0.saturating_add(bookings.lead()));
        let taken = self.rules.limits.slots_until(soon).saturating_add(bookings.coming());
        let mut vacancies = self.sink.vacancies().saturating_sub(taken);
        let mut again: Option<Time> = None;
        for lane in self.lanes.iter() {
            let Some((front, next)) = lane.front().zip(self.rules.next(lane)) else { continue };
            let claim = Claim { since: next.since, costs: &next.costs, keys: &front.class().keys };
            if claim.is_free() {
                continue;
            }
            admits(&bookings.policy, front, &claim)?;
            let batch = self.rules.batch.items.get();
            let wanted = lane.alike(bookings.most().saturating_mul(batch)).div_ceil(batch);
            match bookings.plan(now, &claim, wanted, vacancies, self.rules.limits.slots(&claim)) {
                Plan::Nothing => {}
                Plan::Later(at) => again = Some(again.map_or(at, |other| other.min(at))),
                Plan::Ask(order) => {
                    vacancies -= order.count;
                    self.world.book(order);
                }
            }
        }
        Ok(again)
    }

    /// Gives up slots that are over, as of the instant that this returns: `now`, or later if there may be any.
    ///
    /// A limit minds only if it is asked too early. A slot minds if it is used too late, so this looks at the clock again.
    pub(super) fn expire(&mut self, now: Time) -> Time {
        if self.bookings.is_none() {
            return now;
        }
        let now = self.world.now();
        self.rules.limits.expire(now);
        now
    }

    /// The store has answered.
    pub(super) fn booked(&mut self, order: &Order, answer: Result<Answer, StoreError>) {
        let now = self.world.now();
        match answer {
            Ok(answer) => {
                self.bookings.iter_mut().for_each(|bookings| bookings.note(now, order, &answer));
                answer.warning.iter().for_each(|warning| self.reporter.notice(warning));
                self.rules.limits.put(&order.key, &order.costs, &answer.slots);
                self.lanes.call_back(&self.rules);
            }
            Err(StoreError { exit, error }) => {
                let released = items(self.stats.released);
                self.give_up(exit, &error.context(format!("cannot go on after {released}")));
            }
        }
    }
}

/// Whether a claim is ever granted.
fn admits(policy: &Policy, front: &Parcel, claim: &Claim) -> Result<()> {
    for (quota, &cost) in policy.quotas.iter().zip(claim.costs) {
        let most = quota.most();
        ensure!(
            cost <= most,
            "item {}: its cost of {cost} is more than the shared limit ever admits, {most}",
            front.first()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, RateText};
    use crate::store::Reserve;

    const SECONDS: [Time; 4] = [Time(0), Time(SECOND), Time(2 * SECOND), Time(3 * SECOND)];

    /// 400 per second, of which at most 20 are booked at once.
    fn bookings() -> Bookings {
        let rate = "400/s".parse::<RateText>().unwrap().resolve(&Defaults::default()).unwrap();
        Bookings::new(Policy::new(&[rate], Reserve::LOCAL))
    }

    fn claim(since: Time) -> Claim<'static> {
        Claim { since, costs: &[1], keys: &[] }
    }

    fn slots(instants: &[Time]) -> impl DoubleEndedIterator<Item = Slot> {
        instants.iter().map(|&at| Slot { at, until: at })
    }

    /// How many are asked for at an instant, or when to look again.
    fn plan(
        bookings: &mut Bookings,
        now: Time,
        wanted: u64,
        vacancies: u64,
        held: &[Time],
    ) -> Result<u64, Option<Time>> {
        match bookings.plan(now, &claim(SECONDS[1]), wanted, vacancies, slots(held)) {
            Plan::Ask(order) => Ok(order.count),
            Plan::Later(at) => Err(Some(at)),
            Plan::Nothing => Err(None),
        }
    }

    #[test]
    fn no_more_is_booked_than_can_be_used() {
        let [zero, one, two, _] = SECONDS;
        let table: [(Time, u64, u64, &[Time], Result<u64, Option<Time>>); 8] = [
            (one, 3, 9, &[], Ok(3)),
            (one, 99, 99, &[], Ok(20)),
            // Commands run, and more cannot be started.
            (one, 3, 0, &[], Err(None)),
            (one, 3, 2, &[], Ok(2)),
            (one, 1, 9, &[one], Err(None)),
            // The last slot is a while off; the next is asked for shortly before.
            (one, 3, 9, &[two], Err(Some(Time(two.0 - LEAD)))),
            (two, 3, 9, &[two], Ok(2)),
            // It backs off.
            (zero, 3, 9, &[], Err(Some(one))),
        ];
        for (now, wanted, vacancies, held, expected) in table {
            let found = plan(&mut bookings(), now, wanted, vacancies, held);
            assert_eq!(found, expected, "{wanted} of {vacancies}, {held:?}");
        }
    }

    #[test]
    fn one_order_at_a_time_and_none_before_it_makes_sense() {
        let [_, one, two, three] = SECONDS;
        let mut bookings = bookings();
        let order = Order { key: Key::new(), costs: [1].into(), count: 3 };
        assert_eq!(plan(&mut bookings, one, 3, 9, &[]), Ok(3));
        assert_eq!((plan(&mut bookings, one, 9, 9, &[]), bookings.coming()), (Err(None), 3));
        bookings.note(two, &order, &Answer { ask_again: Some(three), ..Answer::default() });
        assert_eq!(plan(&mut bookings, two, 3, 9, &[]), Err(Some(three)));
        assert_eq!(plan(&mut bookings, three, 3, 9, &[]), Ok(3));
        // An answer that is of no use is not asked for again at once.
        bookings.note(three, &order, &Answer::default());
        assert_eq!(plan(&mut bookings, three, 3, 9, &[]), Err(Some(Time(three.0 + PAUSE))));
        // That the first answer took a second is no longer of concern.
        assert_eq!((bookings.took, bookings.lead()), (0, LEAD));
    }
}
