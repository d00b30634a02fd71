//! Slots that were booked with a store of shared limits, see [`crate::store`].

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::charged_key;
use super::lease::{Held, Lease, Needed};
use super::order::{Answer, Order, Slot};
use crate::charge::Key;
use crate::gate::charges::{Claim, Taken};
use crate::gate::{Charged, Holds, Opening, Request};
use crate::time::Time;

/// Lets one release go in each slot.
///
/// It knows no rule: that was kept when the slots were given out. A slot is for the claim it was booked for, a key and
/// certain costs; a claim without one is told *never*: not before more slots have come.
#[derive(Clone, Debug, Default)]
pub(super) struct Booked {
    /// Each key has slots of its own.
    by_key: bool,
    keys: HashMap<Key, OfKey, RandomState>,
    /// The end of the first slot of each claim; also of one that has been used.
    ends: BTreeSet<(Time, Key, Rc<[u64]>)>,
    /// As far as is known here.
    holds: Holds<Key>,
}

/// The slots of a key, and its overruns as the store has told them.
#[derive(Clone, Debug, Default)]
struct OfKey {
    /// By what a release costs. A key is seldom charged in more than one way.
    leases: SmallVec<[(Rc<[u64]>, Lease); 1]>,
    /// The costs of overruns, for each limit.
    overrun: Box<[u64]>,
    /// The instant of the last answer.
    heard: Option<Time>,
    /// The number of reports that have not been answered: until then no slot is used.
    reports: usize,
}

impl OfKey {
    fn lease(&self, costs: &[u64]) -> Option<&Lease> {
        self.leases.iter().find(|(known, _)| **known == *costs).map(|(_, lease)| lease)
    }

    fn lease_mut(&mut self, costs: &[u64]) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|(known, _)| **known == *costs).map(|(_, lease)| lease)
    }

    /// Without slots, overruns are of no use.
    fn is_of_use(&self) -> bool {
        self.reports > 0 || !self.leases.is_empty()
    }
}

impl Booked {
    pub(super) fn new(by_key: bool) -> Self {
        Booked { by_key, ..Booked::default() }
    }

    pub(super) fn is_by_key(&self) -> bool {
        self.by_key
    }

    /// The claim that a request is charged to.
    pub(super) fn claim(&self, request: &Request) -> Claim {
        (self.key(request).into(), request.costs.into())
    }

    /// The key of a request, if each key has slots of its own.
    fn key<'a>(&self, request: &Request<'a>) -> &'a [u8] {
        charged_key(request.keys, self.by_key)
    }

    /// Takes the answer of a store at `now`.
    pub(super) fn put(&mut self, now: Time, order: &Order, answer: &Answer) {
        // A slot that is over is not given up in place of one that is too close to an overrun.
        self.expire(now);
        let known = self.keys.entry(order.key.clone()).or_default();
        known.reports -= usize::from(!order.is_for_slots()).min(known.reports);
        let is_reporting = known.reports > 0;
        let is_first = known.heard.replace(now).is_none();
        let before = std::mem::replace(&mut known.overrun, answer.overruns.costs.clone());
        if !is_first {
            let left = answer.overruns.since(&before, order);
            self.give_up_for(&order.key, left, answer.overruns.until);
        }
        match answer.held {
            Some(until) => self.silence_until(now, &order.key, until),
            // Not by an answer to an order from before the report of a hold; and a report of an overrun is answered
            // even while all are held.
            None if order.overrun.is_none() && !is_reporting => self.holds.lift(&order.key),
            None => {}
        }
        if !answer.slots.is_empty() {
            self.hold(order.claim(), answer.slots.iter().copied());
        }
        self.forget_key(&order.key);
    }

    fn hold(&mut self, (key, costs): Claim, slots: impl IntoIterator<Item = Slot>) {
        let OfKey { leases, .. } = self.keys.entry(key.clone()).or_default();
        let at = leases.iter().position(|(known, _)| *known == costs).unwrap_or_else(|| {
            leases.push((Rc::clone(&costs), Lease::default()));
            leases.len() - 1
        });
        leases[at].1.put(slots);
        if let Some(first) = leases[at].1.first() {
            self.ends.insert((first.until, key, costs));
        } else {
            leases.swap_remove(at);
            self.forget_key(&key);
        }
    }

    /// A server asks for a pause: nothing like this request is released before `until`. Returns the order that tells
    /// the others; until that is answered, no slot is used.
    pub(super) fn silence(&mut self, now: Time, request: &Request, until: Time) -> Order {
        let key = Key::from(self.key(request));
        self.keys.entry(key.clone()).or_default().reports += 1;
        self.silence_until(now, &key, until.max(self.held_until(request)));
        Order { hold: Some(until), ..Order::new(key, request.costs, 0) }
    }

    /// The end of the hold of requests like this, as far as is known.
    pub(super) fn held_until(&self, request: &Request) -> Time {
        self.holds.until(self.key(request))
    }

    pub(super) fn held_by_key(&self, key: &Key) -> Time {
        self.holds.until(key)
    }

    /// Holds a key until an instant, and gives up its slots before that.
    fn silence_until(&mut self, now: Time, key: &Key, until: Time) {
        self.holds.set(now, key.clone(), until);
        if let Some(of_key) = self.keys.get_mut(key) {
            of_key.leases.iter_mut().for_each(|(_, slots)| slots.drop_before(until));
        }
        self.forget_empty();
    }

    /// Gives up the first slots of a key, in place of those that were overrun: slots before `until` that cost as much
    /// as is `left`.
    fn give_up_for(&mut self, key: &Key, mut left: Box<[u64]>, until: Time) {
        let Some(OfKey { leases, .. }) = self.keys.get_mut(key) else { return };
        let is_charged =
            |left: &[u64], costs: &[u64]| left.iter().zip(costs).any(|(left, cost)| left.min(cost) > &0);
        loop {
            let such = leases.iter_mut().filter(|(costs, _)| is_charged(&left, costs));
            let firsts = such.filter_map(|(costs, slots)| Some((slots.first()?.at, costs, slots)));
            let first = firsts.min_by_key(|(at, ..)| *at).filter(|(at, ..)| *at < until);
            let Some((_, costs, slots)) = first else { return };
            slots.drop_first();
            left.iter_mut().zip(costs.iter()).for_each(|(left, cost)| *left = left.saturating_sub(*cost));
        }
    }

    /// The slots for requests like this, earliest first.
    pub(super) fn slots(&self, request: &Request) -> impl DoubleEndedIterator<Item = Slot> {
        self.slots_for(request).into_iter().flat_map(Lease::iter)
    }

    pub(super) fn held(&self, key: &Key, costs: &[u64]) -> Held {
        let Some(of_key) = self.keys.get(key) else { return Held::default() };
        Held { heard: of_key.heard, ..of_key.lease(costs).map_or(Held::default(), Lease::held) }
    }

    /// The slots for requests like this, if they may be used.
    fn slots_for(&self, request: &Request) -> Option<&Lease> {
        // Slots may be too close to a release that was late, and it is not known yet which.
        let of_key = self.keys.get(self.key(request)).filter(|of_key| of_key.reports == 0);
        of_key?.lease(request.costs)
    }

    /// The number of slots, of all claims, that are not after `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        self.keys.values().flat_map(|of_key| &of_key.leases).map(|(_, lease)| lease.until(at)).sum()
    }

    /// The first slot for requests like this. One that is free needs none.
    pub(super) fn opening(&self, request: &Request) -> Opening {
        if request.is_free() {
            return Opening::at(request.since.max(self.held_until(request)));
        }
        let opening = |slot: Slot| Opening {
            until: slot.until.checked_add(1),
            ..Opening::at(slot.at.max(request.since))
        };
        self.slots(request).next().map_or(Opening::NEVER, opening)
    }

    /// A request may use a slot at `now`.
    pub(super) fn is_open(&self, now: Time, request: &Request) -> bool {
        request.is_free() || self.slots(request).next().is_some_and(|slot| slot.is_good(now))
    }

    /// Takes out up to `most` slots that can be used at `now`.
    pub(super) fn take(&mut self, now: Time, request: &Request, most: u64) -> Taken {
        let key = self.key(request);
        let of_key = self.keys.get_mut(key).filter(|of_key| of_key.reports == 0);
        let lease = of_key.and_then(|of_key| of_key.lease_mut(request.costs));
        let slots = lease.map_or_else(Vec::new, |lease| lease.take(now, most));
        Taken { claim: self.claim(request), slots }
    }

    /// The first `releases` of these slots have been used, by releases that were over at `now`; the others are put
    /// back. Adds their costs to what each limit was `charged`. Returns a report of those that were late.
    pub(super) fn commit(
        &mut self,
        now: Time,
        taken: Taken,
        releases: u64,
        charged: &mut Vec<Charged>,
    ) -> Option<Order> {
        let Taken { claim, mut slots } = taken;
        let unused = slots.split_off(usize::try_from(releases).unwrap_or(usize::MAX).min(slots.len()));
        self.hold(claim.clone(), unused);
        let (key, costs) = claim;
        if slots.is_empty() {
            return None;
        }
        charged.resize(costs.len(), Charged::default());
        for (charged, &cost) in charged.iter_mut().zip(costs.iter()).filter(|(_, cost)| **cost > 0) {
            charged.add(releases, cost.saturating_mul(releases));
        }
        let late = slots.iter().filter(|slot| slot.until < now).count() as u64;
        (late > 0).then(|| {
            self.keys.entry(key.clone()).or_default().reports += 1;
            Order { overrun: Some(now), ..Order::new(key, &*costs, late) }
        })
    }

    /// Gives up the slots that were not used in time. Returns true if there are any.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let mut is_any = false;
        while let Some((_, key, costs)) = self.ends.first().filter(|(end, ..)| *end < now).cloned() {
            self.ends.pop_first();
            if let Some(lease) = self.keys.get_mut(&key).and_then(|of_key| of_key.lease_mut(&costs)) {
                is_any |= lease.is_over(now);
                lease.expire(now);
                self.hold((key, costs), None);
            }
        }
        is_any
    }

    /// Takes out the slots after `now` that are not needed, the last ones first, to be given back. None of them can be
    /// used here any more. `needed` is for a claim.
    pub(super) fn take_surplus(
        &mut self,
        now: Time,
        needed: impl Fn(&Claim) -> Needed,
    ) -> Vec<(Order, Vec<Slot>)> {
        let mut surplus = Vec::new();
        // Of others, some are too close to a release that was late.
        for (key, of_key) in self.keys.iter_mut().filter(|(_, of_key)| of_key.reports == 0) {
            for (costs, lease) in &mut of_key.leases {
                let slots = lease.take_surplus(now, needed(&(key.clone(), Rc::clone(costs))));
                if !slots.is_empty() {
                    surplus.push((Order::new(key.clone(), &**costs, slots.len() as u64), slots));
                }
            }
        }
        if !surplus.is_empty() {
            self.forget_empty();
        }
        // The order of a hash map is random.
        surplus.sort_by(|(a, _), (b, _)| (&a.key, &a.costs).cmp(&(&b.key, &b.costs)));
        surplus
    }

    fn forget_key(&mut self, key: &Key) {
        if self.keys.get(key).is_some_and(|of_key| !of_key.is_of_use()) {
            self.keys.remove(key);
        }
    }

    fn forget_empty(&mut self) {
        self.keys.retain(|_, of_key| {
            of_key.leases.retain(|(_, lease)| !lease.is_empty());
            of_key.is_of_use()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::Overruns;
    use super::*;
    use crate::rule::Verdict;

    fn slots(instants: &[(u64, u64)]) -> Vec<Slot> {
        instants.iter().map(|&(at, until)| Slot { at: Time(at), until: Time(until) }).collect()
    }

    fn request<'a>(since: u64, costs: &'a [u64], keys: &'a [Key]) -> Request<'a> {
        Request { since: Time(since), costs, keys }
    }

    /// As a store answers to an order at 0, at which nothing is overrun.
    fn put(booked: &mut Booked, key: &Key, costs: &[u64], instants: &[(u64, u64)]) {
        let answer = Answer { slots: slots(instants), ..Answer::default() };
        booked.put(Time(0), &Order::new(key.clone(), costs, 1), &answer);
    }

    /// The number of slots that may be used at `now`.
    fn usable(booked: &mut Booked, now: u64, request: &Request) -> usize {
        let taken = booked.take(Time(now), request, 9);
        let count = taken.slots.len();
        booked.commit(Time(now), taken, 0, &mut Vec::new());
        count
    }

    #[test]
    fn one_release_goes_in_each_slot_and_not_after_it() {
        let (mut booked, mut charged) = (Booked::default(), Vec::new());
        let one = request(3, &[1], &[]);
        assert_eq!(booked.opening(&one).from, Verdict::Never);
        put(&mut booked, &Key::new(), &[1], &[(5, 7), (5, 7), (9, 11)]);
        assert_eq!(booked.opening(&one).from, Verdict::At(Time(5)));
        assert_eq!([4, 5, 7, 8].map(|now| usable(&mut booked, now, &one)), [0, 2, 2, 0]);
        let taken = booked.take(Time(5), &one, 1);
        assert_eq!(booked.commit(Time(7), taken, 1, &mut charged), None);
        booked.expire(Time(7));
        assert_eq!(booked.opening(&request(6, &[1], &[])).from, Verdict::At(Time(6)));
        booked.expire(Time(8));
        assert_eq!(booked.opening(&one).from, Verdict::At(Time(9)));
        let taken = booked.take(Time(9), &one, 9);
        assert_eq!(booked.commit(Time(9), taken, 1, &mut charged), None);
        assert_eq!((booked.opening(&one).from, booked.keys.len()), (Verdict::Never, 0));
        assert_eq!(charged, [Charged { releases: 2, cost: 2 }]);
    }

    #[test]
    fn a_slot_is_for_the_key_and_the_costs_that_it_was_booked_for() {
        let mut booked = Booked::new(true);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        put(&mut booked, &a[0], &[1, 2], &[(5, 7)]);
        assert_eq!(booked.opening(&request(0, &[1, 2], &a)).from, Verdict::At(Time(5)));
        assert_eq!(booked.opening(&request(0, &[1, 2], &b)).from, Verdict::Never);
        assert_eq!(booked.opening(&request(0, &[2, 2], &a)).from, Verdict::Never);
        put(&mut booked, &a[0], &[2, 2], &[(8, 9)]);
        assert_eq!(booked.opening(&request(0, &[1, 2], &a)).from, Verdict::At(Time(5)));
        assert_eq!(booked.opening(&request(0, &[2, 2], &a)).from, Verdict::At(Time(8)));
    }

    #[test]
    fn a_slot_is_for_all_keys_if_they_share_their_limits() {
        let mut booked = Booked::new(false);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        put(&mut booked, &Key::new(), &[1], &[(5, 7)]);
        assert_eq!(booked.opening(&request(0, &[1], &a)).from, Verdict::At(Time(5)));
        assert_eq!(booked.take(Time(5), &request(0, &[1], &b), 9).slots.len(), 1);
        assert_eq!(booked.take(Time(5), &request(0, &[1], &a), 9).slots, []);
    }

    /// An overrun takes the place of the first slots that were booked before it was known.
    #[test]
    fn slots_are_given_up_for_what_was_overrun() {
        let overruns = |costs: [u64; 2], until| Overruns { costs: costs.into(), until: Time(until) };
        // What was overrun, until when that matters, and which slots are left: those at 5, 8 and 12 cost (1, 0), that
        // at 6 costs (1, 2).
        let table: [([u64; 2], u64, &[u64]); 7] = [
            ([0, 0], 0, &[5, 6, 8, 12]),
            ([1, 0], 99, &[6, 8, 12]),
            ([2, 0], 99, &[8, 12]),
            ([0, 1], 99, &[5, 8, 12]),
            ([2, 1], 99, &[8, 12]),
            ([9, 9], 12, &[12]),
            ([9, 0], 5, &[5, 6, 8, 12]),
        ];
        for (costs, until, left) in table {
            let mut booked = Booked::default();
            let answer =
                |at: &[(u64, u64)], overruns| Answer { slots: slots(at), overruns, ..Answer::default() };
            let (cheap, dear) = (Order::new(Key::new(), [1, 0], 9), Order::new(Key::new(), [1, 2], 9));
            booked.put(Time(0), &cheap, &answer(&[(5, 7), (8, 9), (12, 14)], overruns([3, 4], 4)));
            booked.put(Time(0), &dear, &answer(&[(6, 7)], overruns([3, 4], 4)));
            let now = answer(&[(30, 31)], overruns([3 + costs[0], 4 + costs[1]], until));
            booked.put(Time(1), &cheap, &now);
            let [mut found, dear] = [[1, 0], [1, 2]].map(|costs| {
                let request = request(0, &costs, &[]);
                booked.slots(&request).map(|slot| slot.at.0).filter(|at| *at < 30).collect::<Vec<_>>()
            });
            found.extend(dear);
            found.sort_unstable();
            assert_eq!(found, left, "{costs:?} until {until}");
        }
    }

    /// Which of the others are too close is known only then.
    #[test]
    fn no_slot_is_used_until_a_report_is_answered() {
        let (mut booked, mut charged) = (Booked::default(), Vec::new());
        let one = request(0, &[1], &[]);
        put(&mut booked, &Key::new(), &[1], &[(5, 7), (5, 7), (9, 11), (20, 22)]);
        let taken = booked.take(Time(6), &one, 2);
        let report = booked.commit(Time(8), taken, 2, &mut charged).expect("both were late");
        assert_eq!((report.overrun, report.count), (Some(Time(8)), 2));
        // An answer to what was asked before.
        put(&mut booked, &Key::new(), &[1], &[(10, 12)]);
        assert_eq!((booked.opening(&one).from, usable(&mut booked, 10, &one)), (Verdict::Never, 0));
        assert_eq!(booked.take_surplus(Time(8), |_| Needed::default()), []);
        let overruns = Overruns { costs: [2].into(), until: Time(15) };
        booked.put(Time(9), &report, &Answer { overruns, ..Answer::default() });
        assert_eq!(booked.opening(&one).from, Verdict::At(Time(20)));
    }

    /// A slot that is over allows no release, and would spare one that is too close.
    #[test]
    fn no_slot_that_is_over_is_given_up_in_place_of_another() {
        let mut booked = Booked::default();
        put(&mut booked, &Key::new(), &[1], &[(5, 7), (9, 11), (20, 22)]);
        let overruns = Overruns { costs: [1].into(), until: Time(15) };
        let check = Order::new(Key::new(), [1], 0);
        booked.put(Time(8), &check, &Answer { overruns, ..Answer::default() });
        assert_eq!(booked.opening(&request(0, &[1], &[])).from, Verdict::At(Time(20)));
    }

    /// The store counts from 0 again once its state was lost.
    #[test]
    fn slots_are_given_up_for_a_report_whatever_the_store_has_counted() {
        for counted in [1, 5, 6] {
            let (mut booked, mut charged) = (Booked::default(), Vec::new());
            let one = request(0, &[1], &[]);
            let answer = |slots, overrun, until| {
                let overruns = Overruns { costs: [overrun].into(), until: Time(until) };
                Answer { slots, overruns, ..Answer::default() }
            };
            let slots = slots(&[(5, 7), (9, 11), (20, 22)]);
            booked.put(Time(0), &Order::new(Key::new(), [1], 3), &answer(slots, 5, 0));
            let taken = booked.take(Time(5), &one, 1);
            let report = booked.commit(Time(8), taken, 1, &mut charged).expect("it was late");
            booked.put(Time(8), &report, &answer(Vec::new(), counted, 15));
            assert_eq!(booked.opening(&one).from, Verdict::At(Time(20)), "{counted}");
        }
    }

    #[test]
    fn what_costs_nothing_needs_no_slot() {
        let booked = Booked::default();
        let free = request(3, &[0, 0], &[]);
        assert_eq!(booked.opening(&free).from, Verdict::At(Time(3)));
        assert!(booked.is_open(Time(3), &free));
    }
}
