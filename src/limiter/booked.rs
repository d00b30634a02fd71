//! Lets releases go in slots that were booked with a store of shared limits, see [`crate::store`].

use std::rc::Rc;

use super::by_claim::ByClaim;
use super::slots::Slots;
use super::{Charged, Held, Needed, Order, Request, Slot, Verdict};
use crate::charge::Key;
use crate::time::{SECOND, Time};

/// Whose slots they are: the key and the costs that they were booked for.
pub(super) type Claim = (Key, Rc<[u64]>);

/// Lets one release go in each slot.
///
/// It knows no rule: that was kept when the slots were given out. A slot is for what it was booked for, a key and
/// certain costs; another claim has none, and is told *never*: not before more slots have come.
#[derive(Debug, Default)]
pub struct Booked {
    /// Whether each key has slots of its own.
    by_key: bool,
    held: ByClaim<Slots>,
    /// Before when no slot is free, for orders that do not wait.
    refused: ByClaim<Time>,
}

impl Booked {
    pub(super) fn new(by_key: bool) -> Self {
        Booked { by_key, ..Booked::default() }
    }

    /// Whom a request is charged to.
    pub(super) fn claim(&self, request: &Request) -> Claim {
        (self.key(request).into(), request.costs.into())
    }

    /// The key of a request, if each key has slots of its own.
    fn key<'a>(&self, request: &Request<'a>) -> &'a [u8] {
        request.keys.first().filter(|_| self.by_key).map_or(&[], |key| key.as_slice())
    }

    /// Takes slots that were booked for a key and these costs.
    pub fn put(&mut self, key: &Key, costs: &[u64], slots: impl IntoIterator<Item = Slot>) {
        self.held.get_or_insert_with(key, &costs.into(), Slots::default).put(slots);
    }

    /// The slots for requests like this, earliest first.
    pub fn slots(&self, request: &Request) -> impl DoubleEndedIterator<Item = Slot> {
        self.slots_for(request).into_iter().flat_map(Slots::iter)
    }

    /// The slots for a key and costs.
    pub(super) fn held(&self, key: &Key, costs: &[u64]) -> Held {
        self.held.get(key, costs).map_or(Held::default(), Slots::held)
    }

    fn slots_for(&self, request: &Request) -> Option<&Slots> {
        self.held.get(self.key(request), request.costs)
    }

    /// How many slots there are, for whatever requests, that are not after `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        self.held.values().map(|slots| slots.until(at)).sum()
    }

    /// When the first of them is. What costs nothing needs none.
    pub(super) fn earliest(&self, request: &Request) -> Verdict {
        if request.is_free() {
            return Verdict::At(request.since);
        }
        self.slots(request).next().map_or(Verdict::Never, |slot| Verdict::At(slot.at.max(request.since)))
    }

    /// No slot for this claim is free before `at`, nor was one at `now`.
    pub(super) fn refuse_until(&mut self, now: Time, key: &Key, costs: &[u64], at: Time) {
        // Who arrived before that may still be judged, but not for long.
        self.refused.retain(|at| at.0.saturating_add(SECOND) > now.0);
        self.refused.insert(key, &costs.into(), at);
    }

    /// When a slot is free, if none was at `request.since`.
    pub(super) fn refused_until(&self, request: &Request) -> Option<Time> {
        let at = self.refused.get(self.key(request), request.costs).copied();
        at.filter(|at| *at > request.since && !request.is_free())
    }

    /// Whether there is a slot that is not reserved.
    pub(super) fn has_slot(&self, request: &Request) -> bool {
        self.slots_for(request).is_some_and(Slots::has_free)
    }

    /// Reserves up to `most` slots that can be used at `now`. Returns how many.
    pub(super) fn reserve(&mut self, now: Time, request: &Request, most: u64) -> u64 {
        if request.is_free() {
            return most;
        }
        let slots = self.held.get_mut(self.key(request), request.costs);
        slots.map_or(0, |slots| slots.reserve(now, most))
    }

    /// The end of the first of the slots that are reserved.
    pub(super) fn good_until(&self) -> Option<Time> {
        self.held.values().filter_map(Slots::good_until).min()
    }

    /// So many of the slots that are reserved for a claim have been used. Adds what that was to what each limit was
    /// `charged`.
    pub(super) fn commit(&mut self, (key, costs): &Claim, releases: u64, charged: &mut Vec<Charged>) {
        let Some(slots) = self.held.get_mut(key, costs) else { return };
        let used = slots.commit(releases);
        charged.resize(costs.len(), Charged::default());
        for (charged, &cost) in charged.iter_mut().zip(costs.iter()).filter(|(_, cost)| **cost > 0) {
            charged.add(used, cost.saturating_mul(used));
        }
    }

    /// None is reserved any more.
    pub(super) fn release_reserved(&mut self) {
        self.held.values_mut().for_each(Slots::release_reserved);
        self.forget_empty();
    }

    /// Gives up the slots that were not used in time. None may be reserved.
    pub(super) fn expire(&mut self, now: Time) {
        if self.held.values().any(|slots| slots.is_over(now)) {
            self.held.values_mut().for_each(|slots| slots.expire(now));
            self.forget_empty();
        }
    }

    /// Takes out the slots after `now` that are not needed, the last ones first, to be given back. None of them can be
    /// used here any more. `needed` tells how many are, of those for a key and costs. None may be reserved.
    pub(super) fn take_surplus(
        &mut self,
        now: Time,
        needed: impl Fn(&Key, &[u64]) -> Needed,
    ) -> Vec<(Order, Vec<Slot>)> {
        let mut surplus = Vec::new();
        for (key, costs, slots) in self.held.iter_mut() {
            let slots = slots.take_surplus(now, needed(key, costs));
            if !slots.is_empty() {
                let count = slots.len() as u64;
                let costs = (**costs).into();
                surplus.push((Order { key: key.clone(), costs, count, waits: true, turn: None }, slots));
            }
        }
        if !surplus.is_empty() {
            self.forget_empty();
        }
        // In an order that does not depend on chance.
        surplus.sort_by(|(a, _), (b, _)| (&a.key, &a.costs).cmp(&(&b.key, &b.costs)));
        surplus
    }

    fn forget_empty(&mut self) {
        self.held.retain(|slots| !slots.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(instants: &[(u64, u64)]) -> Vec<Slot> {
        instants.iter().map(|&(at, until)| Slot { at: Time(at), until: Time(until) }).collect()
    }

    fn request<'a>(since: u64, costs: &'a [u64], keys: &'a [Key]) -> Request<'a> {
        Request { since: Time(since), costs, keys }
    }

    fn reservable(booked: &mut Booked, now: u64, request: &Request) -> u64 {
        let count = booked.reserve(Time(now), request, 9);
        booked.release_reserved();
        count
    }

    #[test]
    fn one_release_goes_in_each_slot_and_not_after_it() {
        let (mut booked, mut charged) = (Booked::default(), Vec::new());
        let one = request(3, &[1], &[]);
        let claim = booked.claim(&one);
        assert_eq!(booked.earliest(&one), Verdict::Never);
        booked.put(&Key::new(), &[1], slots(&[(5, 7), (5, 7), (9, 11)]));
        assert_eq!(booked.earliest(&one), Verdict::At(Time(5)));
        assert_eq!([4, 5, 7, 8].map(|now| reservable(&mut booked, now, &one)), [0, 2, 2, 0]);
        assert_eq!(booked.reserve(Time(5), &one, 1), 1);
        assert_eq!(booked.good_until(), Some(Time(7)));
        booked.commit(&claim, 1, &mut charged);
        booked.release_reserved();
        booked.expire(Time(7));
        assert_eq!(booked.earliest(&request(6, &[1], &[])), Verdict::At(Time(6)));
        booked.expire(Time(8));
        assert_eq!(booked.earliest(&one), Verdict::At(Time(9)));
        assert_eq!(booked.reserve(Time(9), &one, 9), 1);
        booked.commit(&claim, 1, &mut charged);
        booked.release_reserved();
        assert_eq!((booked.earliest(&one), booked.held.values().count()), (Verdict::Never, 0));
        assert_eq!(charged, [Charged { releases: 2, cost: 2 }]);
    }

    #[test]
    fn a_slot_is_for_the_key_and_the_costs_that_it_was_booked_for() {
        let mut booked = Booked::new(true);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        booked.put(&a[0], &[1, 2], slots(&[(5, 7)]));
        assert_eq!(booked.earliest(&request(0, &[1, 2], &a)), Verdict::At(Time(5)));
        assert_eq!(booked.earliest(&request(0, &[1, 2], &b)), Verdict::Never);
        assert_eq!(booked.earliest(&request(0, &[2, 2], &a)), Verdict::Never);
        booked.put(&a[0], &[2, 2], slots(&[(8, 9)]));
        assert_eq!(booked.earliest(&request(0, &[1, 2], &a)), Verdict::At(Time(5)));
        assert_eq!(booked.earliest(&request(0, &[2, 2], &a)), Verdict::At(Time(8)));
    }

    #[test]
    fn a_slot_is_for_all_keys_if_they_share_their_limits() {
        let mut booked = Booked::new(false);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        booked.put(&Key::new(), &[1], slots(&[(5, 7)]));
        assert_eq!(booked.earliest(&request(0, &[1], &a)), Verdict::At(Time(5)));
        assert_eq!(booked.reserve(Time(5), &request(0, &[1], &b), 9), 1);
        assert_eq!(booked.reserve(Time(5), &request(0, &[1], &a), 9), 0);
    }

    #[test]
    fn what_arrived_before_a_slot_is_free_is_refused() {
        let mut booked = Booked::default();
        let early = request(6, &[1], &[]);
        assert_eq!(booked.refused_until(&early), None);
        booked.refuse_until(Time(5), &Key::new(), &[1], Time(7));
        assert_eq!(booked.refused_until(&early), Some(Time(7)));
        for other in [request(7, &[1], &[]), request(6, &[2], &[])] {
            assert_eq!(booked.refused_until(&other), None);
        }
    }

    #[test]
    fn what_costs_nothing_needs_no_slot() {
        let mut booked = Booked::default();
        let free = request(3, &[0, 0], &[]);
        assert_eq!(booked.earliest(&free), Verdict::At(Time(3)));
        assert_eq!(booked.reserve(Time(3), &free, 9), 9);
    }
}
