//! The claims of one key, and what the store has said about it.

use std::rc::Rc;

use smallvec::SmallVec;

use super::lease::{Held, Lease, Needed};
use super::order::{Answer, Order, Ordered, Slot};
use crate::time::{SECOND, Time};

/// The slots held, ordered and expected for one key, by the costs of a release.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyClaims {
    /// Inline for one, as a key rarely has more than one set of costs.
    claims: SmallVec<[CostsClaim; 1]>,
    /// The costs of overruns under each limit, by the last answer.
    overrun: Box<[u64]>,
    /// The instant of the last answer.
    heard: Option<Time>,
    /// The number of unanswered reports; no slot is used while there are any.
    reports: usize,
    /// The end of a hold, as far as is known here; the origin if there is none.
    held_until: Time,
}

#[derive(Clone, Debug, Default)]
struct CostsClaim {
    costs: Rc<[u64]>,
    lease: Lease,
    ordered: Option<Ordered>,
    /// The instant of the next free slot, if the store has named it.
    next: Option<Time>,
}

impl CostsClaim {
    fn is_of_use(&self) -> bool {
        !self.lease.is_empty() || self.ordered.is_some() || self.next.is_some()
    }

    /// Forgets instants a second after they have passed: a lane that waits for one asks then or soon after, and an item
    /// that arrived earlier is judged soon.
    fn forget_past(&mut self, now: Time) {
        let soon = Time(now.0.saturating_sub(SECOND));
        self.ordered.take_if(|ordered| matches!(ordered, Ordered::NotBefore(at, _) if *at <= soon));
        self.next.take_if(|at| *at <= soon);
    }
}

impl KeyClaims {
    /// Drops all slots and what the store has said about later ones.
    pub(super) fn forget_booked(&mut self) {
        for claim in &mut self.claims {
            claim.lease = Lease::default();
            claim.ordered.take_if(|ordered| matches!(ordered, Ordered::NotBefore(..)));
            claim.next = None;
        }
    }

    fn claim(&self, costs: &[u64]) -> Option<&CostsClaim> {
        self.claims.iter().find(|claim| *claim.costs == *costs)
    }

    fn claim_mut(&mut self, costs: &[u64]) -> Option<&mut CostsClaim> {
        self.claims.iter_mut().find(|claim| *claim.costs == *costs)
    }

    fn get_or_open(&mut self, costs: &[u64]) -> &mut CostsClaim {
        let known = self.claims.iter().position(|claim| *claim.costs == *costs);
        let at = known.unwrap_or_else(|| {
            self.claims.push(CostsClaim { costs: costs.into(), ..CostsClaim::default() });
            self.claims.len() - 1
        });
        &mut self.claims[at]
    }

    /// True if anything is left to remember. Without claims, overruns need not be.
    pub(super) fn is_of_use(&mut self) -> bool {
        self.claims.retain(|claim| claim.is_of_use());
        self.reports > 0 || self.held_until > Time::ZERO || !self.claims.is_empty()
    }

    pub(super) fn forget_past(&mut self, now: Time) {
        self.claims.iter_mut().for_each(|claim| claim.forget_past(now));
        if self.held_until <= now {
            self.held_until = Time::ZERO;
        }
    }

    pub(super) fn ordered(&mut self, costs: &[u64]) -> &mut Option<Ordered> {
        &mut self.get_or_open(costs).ordered
    }

    /// Takes the answer of a store, at `now`, except its slots.
    pub(super) fn hear(&mut self, now: Time, order: &Order, answer: &Answer) {
        self.reports -= usize::from(!order.is_for_slots()).min(self.reports);
        let is_first = self.heard.replace(now).is_none();
        let before = std::mem::replace(&mut self.overrun, answer.overruns.costs.clone());
        if !is_first {
            self.give_up_for(answer.overruns.since(&before, order), answer.overruns.until);
        }
        match answer.held {
            Some(until) => self.hold(until),
            // Otherwise it lifts no hold: an answer to an order from before our report may not know of it, and the
            // report of an overrun is answered whether or not there is a hold.
            None if order.overrun.is_none() && self.reports == 0 => self.held_until = Time::ZERO,
            None => {}
        }
        // An item that does not wait may still be judged by the earlier answer.
        if order.is_for_slots() && (answer.next.is_some() || order.within > 0) {
            self.get_or_open(&order.costs).next = answer.next;
        }
    }

    /// Notes that a report is sent. No slot is used until it is answered.
    pub(super) fn report(&mut self) {
        self.reports += 1;
    }

    /// Holds the key until an instant, and drops its slots before that.
    pub(super) fn hold(&mut self, until: Time) {
        self.held_until = until;
        self.claims.iter_mut().for_each(|claim| claim.lease.drop_before(until));
    }

    pub(super) fn held_until(&self) -> Time {
        self.held_until
    }

    /// Drops the first slots before `until`, to make up for overruns, as long as costs are `left`.
    fn give_up_for(&mut self, mut left: Box<[u64]>, until: Time) {
        let is_charged =
            |left: &[u64], costs: &[u64]| left.iter().zip(costs).any(|(left, cost)| left.min(cost) > &0);
        loop {
            let such = self.claims.iter_mut().filter(|claim| is_charged(&left, &claim.costs));
            let firsts = such.filter_map(|claim| Some((claim.lease.first()?.at, claim)));
            let first = firsts.min_by_key(|(at, _)| *at).filter(|(at, _)| *at < until);
            let Some((_, CostsClaim { costs, lease, .. })) = first else { return };
            lease.drop_first();
            left.iter_mut().zip(costs.iter()).for_each(|(left, cost)| *left = left.saturating_sub(*cost));
        }
    }

    /// Adds slots. Returns the end of the first slot and the costs, if there is a slot.
    pub(super) fn put(
        &mut self,
        costs: &[u64],
        slots: impl IntoIterator<Item = Slot>,
    ) -> Option<(Time, Rc<[u64]>)> {
        let claim = self.get_or_open(costs);
        claim.lease.put(slots);
        claim.lease.first().map(|first| (first.until, Rc::clone(&claim.costs)))
    }

    /// The slots that can be used, earliest first.
    pub(super) fn slots(&self, costs: &[u64]) -> impl DoubleEndedIterator<Item = Slot> {
        // Until a report is answered, it is not known which are too close to a release that was late.
        let claim = self.claim(costs).filter(|_| self.reports == 0);
        claim.into_iter().flat_map(|claim| claim.lease.iter())
    }

    pub(super) fn held(&self, costs: &[u64]) -> Held {
        let claim = self.claim(costs);
        let held = claim.map_or_else(Held::default, |claim| claim.lease.held());
        Held { heard: self.heard, ordered: claim.and_then(|claim| claim.ordered), ..held }
    }

    /// The instant of the next free slot, if known.
    pub(super) fn next(&self, costs: &[u64]) -> Option<Time> {
        self.claim(costs)?.next
    }

    /// The number of slots up to and including `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        self.claims.iter().map(|claim| claim.lease.until(at)).sum()
    }

    /// Takes up to `most` slots that can be used at `now`.
    pub(super) fn take(&mut self, now: Time, costs: &[u64], most: u64) -> Vec<Slot> {
        let may_be_used = self.reports == 0;
        let claim = self.claim_mut(costs).filter(|_| may_be_used);
        claim.map_or_else(Vec::new, |claim| claim.lease.take(now, most))
    }

    /// Drops the slots that were not used in time. Returns true if there were any.
    pub(super) fn expire(&mut self, now: Time, costs: &[u64]) -> bool {
        let Some(CostsClaim { lease, .. }) = self.claim_mut(costs) else { return false };
        let is_any = lease.is_over(now);
        lease.expire(now);
        is_any
    }

    /// Takes out the slots after `now` that are not needed, with their costs; keeps the earliest.
    pub(super) fn take_surplus(
        &mut self,
        now: Time,
        needed: impl Fn(&Rc<[u64]>) -> Needed,
    ) -> impl Iterator<Item = (&Rc<[u64]>, Vec<Slot>)> {
        // Until a report is answered, some may be too close to a release that was late.
        let may_be_used = self.reports == 0;
        let claims = self.claims.iter_mut().filter(move |claim| may_be_used && !claim.lease.is_empty());
        let surplus = claims.map(move |CostsClaim { costs, lease, .. }| {
            let slots = lease.take_surplus(now, needed(costs));
            (&*costs, slots)
        });
        surplus.filter(|(_, slots)| !slots.is_empty())
    }
}
