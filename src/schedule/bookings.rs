//! Slots of limits that are shared: booked for what waits, and given back when they are not needed.

use std::collections::HashSet;

use anyhow::{Error, Result};
use foldhash::fast::RandomState;

use super::demands::{Demand, Demands};
use super::lane::Lane;
use super::orders::{Orders, Plan};
use super::{Action, Notice, Schedule};
use crate::charge::Key;
use crate::exit::Exit;
use crate::limiter::{Answer, Limits, Needed, Order, Verdict};
use crate::source::Capacity;
use crate::time::Time;

/// What a store gives out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookingTerms {
    /// How many slots one order may ask for at most.
    pub span: u64,
    /// How many it may ask for if answers take long.
    pub longest_span: u64,
    /// The most that a release may cost under each limit.
    pub most: Vec<u64>,
    /// How long the end of a run waits for an answer, in nanoseconds.
    pub patience: u64,
}

/// How it stands with the store.
pub(super) struct Bookings {
    demands: Demands,
    orders: Orders,
    patience: u64,
    /// The keys for which something has come, and the first instant that it is about.
    answered: Option<(Time, HashSet<Key, RandomState>)>,
    /// Until when an answer is waited for at the end of the run.
    ends: Option<Time>,
}

impl Bookings {
    fn new(terms: BookingTerms, by_key: bool, waits: bool) -> Self {
        let BookingTerms { span, longest_span, most, patience } = terms;
        let (demands, orders) = (Demands::new(by_key, most), Orders::new(span, longest_span, waits));
        Bookings { demands, orders, patience, answered: None, ends: None }
    }

    /// Whether an answer is on its way.
    pub(super) fn is_asking(&self) -> bool {
        self.orders.coming() > 0
    }

    /// At the end of the run: until when an answer is waited for, if any is to come.
    fn last_answer(&mut self, now: Time) -> Option<Time> {
        if self.orders.coming() == 0 {
            return None;
        }
        let ends = *self.ends.get_or_insert_with(|| Time(now.0.saturating_add(self.patience)));
        Some(ends).filter(|ends| *ends > now)
    }
}

impl Schedule {
    /// Has releases wait for slots that a store books, on these terms, instead of for limits of their own.
    pub fn with_bookings(mut self, terms: BookingTerms) -> Self {
        let by_key = self.rates.iter().any(|rate| rate.key.is_some() && rate.only.is_none());
        // No slot is before one that is booked already. Where limits are for some items only, one of these that has to wait
        // for long would hold up the others; so each takes what is free when it asks.
        let is_mixed = !by_key && self.rates.iter().any(|rate| rate.only.is_some());
        let waits = !is_mixed && !self.rules.on_limit.never_waits();
        self.rules.limits = Limits::booked(by_key);
        self.rules.batcher.book(&terms.most);
        self.bookings = Some(Bookings::new(terms, by_key, waits));
        self
    }

    /// Has slots booked for what waits, and those given back that are not needed. Returns when to look again.
    pub(super) fn book(&mut self, now: Time, capacity: Capacity, gathers: bool) -> Option<Time> {
        if self.stopping || self.has_released_all() {
            return self.give_back_all(now);
        }
        self.plan_bookings(now, capacity, gathers).unwrap_or_else(|error| {
            self.give_up(Exit::Error, error);
            None
        })
    }

    fn plan_bookings(&mut self, now: Time, capacity: Capacity, gathers: bool) -> Result<Option<Time>> {
        let Some(Bookings { demands, orders, ends, .. }) = &mut self.bookings else { return Ok(None) };
        *ends = None;
        if gathers {
            // What arrives at this instant may be in the same batch, or take the place of what waits.
            return Ok(Some(now).filter(|_| !self.queue.is_empty()));
        }
        // More would not be booked.
        let most = 2 * orders.span();
        let before = self.rules.batcher.before();
        let is_taken = |lane: &&Lane| lane.front().is_some_and(|front| front.segment.first() < before);
        demands.gather(self.queue.occupied().filter(is_taken), &self.rules.batcher, most)?;
        let surplus = self.rules.limits.take_surplus(now, |key, costs| demands.needed(key, costs));
        self.actions.extend(surplus.into_iter().map(|(order, slots)| Action::GiveBack(order, slots)));
        Ok(self.order_slots(now, capacity))
    }

    /// Has slots booked for what is needed. Returns when to look again.
    fn order_slots(&mut self, now: Time, capacity: Capacity) -> Option<Time> {
        let Bookings { demands, orders, .. } = self.bookings.as_mut()?;
        let soon = Time(now.0.saturating_add(orders.lead()));
        let taken = self.rules.limits.slots_until(soon).saturating_add(orders.coming());
        let mut vacancies = capacity.vacancies.saturating_sub(taken);
        let mut again = None;
        for demand in demands.iter() {
            let Demand { key, costs, needed } = demand;
            let held = self.rules.limits.held(key, costs);
            let plan = orders.plan(now, demand, held, vacancies);
            let has_slot = held.count > 0 && needed.since <= now;
            // From here on, a batch costs what its slot is booked for.
            if self.rules.batcher.sums_costs() && (has_slot || matches!(plan, Plan::Ask(_))) {
                let is_meant = |lane: &Lane| demands.key(lane) == key.as_slice();
                if self.queue.fix(costs, is_meant, &self.rules) && has_slot {
                    again = Some(now);
                }
            }
            match plan {
                Plan::Nothing => {}
                Plan::Later(at) => again = again.into_iter().chain([at]).min(),
                Plan::Ask(order) => {
                    vacancies -= order.count;
                    self.actions.push_back(Action::Book(order));
                }
            }
        }
        again
    }

    /// Nothing more is released, so that all slots go back, those on their way as well. Returns until when these are
    /// waited for.
    fn give_back_all(&mut self, now: Time) -> Option<Time> {
        let bookings = self.bookings.as_mut()?;
        let surplus = self.rules.limits.take_surplus(now, |_, _| Needed::default());
        self.actions.extend(surplus.into_iter().map(|(order, slots)| Action::GiveBack(order, slots)));
        bookings.last_answer(now)
    }

    /// The store has answered.
    pub fn booked(&mut self, now: Time, order: &Order, answer: Answer) {
        if order.overrun.is_none() {
            self.bookings.iter_mut().for_each(|bookings| bookings.orders.answered(now, order, &answer));
        }
        self.rules.limits.put(now, order, &answer);
        if order.overrun.is_some() {
            self.reconsider_after(now, &order.key);
        }
        if let Some(at) = answer.ask_again.filter(|_| !order.waits) {
            self.rules.limits.refuse_until(now, &order.key, &order.costs, at);
            self.reconsider_after(Time(u64::MAX), &order.key);
        }
        // They may be earlier than those held: slots that others gave back.
        if let Some(first) = answer.slots.first() {
            self.reconsider_after(first.at, &order.key);
        }
        if let Some(what) = answer.warning {
            let silent = answer.silent_until.map(|until| until.since(now));
            self.tell(Notice::StateLost { what, silent });
        }
    }

    /// Has the lanes of a key re-evaluated that were waiting for later than `at`.
    fn reconsider_after(&mut self, at: Time, key: &Key) {
        let Some(Bookings { answered, .. }) = &mut self.bookings else { return };
        let (first, keys) = answered.get_or_insert((at, HashSet::default()));
        *first = at.min(*first);
        keys.insert(key.clone());
    }

    /// Re-evaluates the lanes for which something has come, all at once: there are many, and as many answers.
    pub(super) fn reconsider_answered(&mut self) {
        let Some(Bookings { answered, demands, .. }) = &mut self.bookings else { return };
        let Some((first, keys)) = answered.take() else { return };
        let is_meant = |lane: &Lane| keys.contains(demands.key(lane));
        self.queue.reconsider_after(Verdict::At(first), is_meant, &self.rules);
    }

    /// The store cannot be asked any more.
    pub fn booking_failed(&mut self, exit: Exit, error: Error) {
        self.bookings.iter_mut().for_each(|bookings| bookings.orders.give_up());
        self.give_up(exit, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;
    use crate::limiter::Held;

    /// An answer that is on its way at the end is waited for, but not for ever.
    #[test]
    fn the_end_waits_for_an_answer_for_a_while() {
        let terms = BookingTerms { span: 20, longest_span: 30, most: vec![400], patience: 7 };
        let mut bookings = Bookings::new(terms, false, true);
        assert_eq!(bookings.last_answer(Time(0)), None);
        let needed = Needed { count: 3, since: Time(1) };
        let demand = Demand { key: Key::new(), costs: [1].into(), needed };
        assert!(matches!(bookings.orders.plan(Time(1), &demand, Held::default(), 9), Plan::Ask(_)));
        assert_eq!([1, 7].map(|now| bookings.last_answer(Time(now))), [Some(Time(8)), Some(Time(8))]);
        assert_eq!(bookings.last_answer(Time(8)), None);
    }
}
