//! Claims to slots of shared limits (see [`crate::store`]), by key.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;

use super::key_claims::KeyClaims;
use super::lease::{Lease, TotalDemand};
use super::order::{Answer, Order, Ordered, Slot};
use super::{Demand, charged_key};
use crate::charge::Key;
use crate::gate::charges::{Claim, Taken};
use crate::gate::{Charged, Eviction, Opening, Request};
use crate::time::Time;

/// Allows one release in each slot.
///
/// It knows no rule, as the store obeyed the rule when it gave out the slots. A slot can be used only for the claim
/// that it was booked for: a key and certain costs. The answer to a claim without a slot is *never*, until more slots
/// come.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// Each key has its own slots.
    pub(super) by_key: bool,
    keys: HashMap<Key, KeyClaims, RandomState>,
    eviction: Eviction,
}

impl Claims {
    pub(super) fn new(by_key: bool) -> Self {
        Claims { by_key, ..Claims::default() }
    }

    /// The claims of a request's key, if anything is known about it.
    fn known(&self, request: &Request) -> Option<&KeyClaims> {
        self.keys.get(charged_key(request.keys, self.by_key))
    }

    /// The claims of a key.
    pub(super) fn of(&mut self, key: &Key) -> &mut KeyClaims {
        self.keys.entry(key.clone()).or_default()
    }

    fn leases(&mut self) -> impl Iterator<Item = &mut Lease> {
        self.keys.values_mut().flat_map(|known| &mut known.leases)
    }

    /// Forgets what lanes needed.
    pub(super) fn need_nothing(&mut self) {
        self.leases().for_each(|lease| lease.demand = TotalDemand::default());
    }

    /// Adds what a lane wants. Returns its claim, if that is the first that wants it.
    pub(super) fn need(&mut self, demand: &Demand) -> Option<Claim> {
        let key = Key::from(charged_key(demand.keys, self.by_key));
        let is_first = self.of(&key).lease(demand.costs).need(demand);
        is_first.then(|| (key, Rc::clone(demand.costs)))
    }

    /// Takes the answer of a store, at `now`.
    pub(super) fn hear(&mut self, now: Time, order: &Order, answer: &Answer) {
        self.of(&order.key).hear(now, order, answer);
        self.forget(&order.key);
        self.eviction.retain(&mut self.keys, |_, known| {
            known.forget_past(now);
            known.is_of_use()
        });
    }

    /// Holds requests like this until `until`, as a server asked. Returns the order that reports it to the other runs;
    /// until that is answered, no slot is used.
    pub(super) fn hold(&mut self, request: &Request, until: Time) -> Order {
        let key = Key::from(charged_key(request.keys, self.by_key));
        let known = self.of(&key);
        known.reports += 1;
        known.hold(until.max(known.held_until));
        Order { hold: Some(until), ..Order::new(key, request.costs, 0) }
    }

    /// The end of the hold on requests like this, as far as is known.
    pub(super) fn held_until(&self, request: &Request) -> Time {
        self.known(request).map_or(Time::ZERO, |known| known.held_until)
    }

    /// The slots for requests like this, earliest first.
    pub(super) fn slots(&self, request: &Request) -> impl Iterator<Item = Slot> {
        let known = self.known(request).filter(|known| known.may_use_slots());
        let found = known.and_then(|known| Some((known, known.find(request.costs)?)));
        let slots =
            found.into_iter().flat_map(|(known, lease)| lease.slots.iter().map(move |slot| (known, *slot)));
        slots.take_while(|(known, slot)| known.confirms(slot.at)).map(|(_, slot)| slot)
    }

    /// The instant of the next slot for requests like this, if there was none at `request.since`.
    pub(super) fn expected(&self, request: &Request) -> Option<Time> {
        let next = self.known(request)?.find(request.costs)?.next;
        next.filter(|at| *at > request.since)
    }

    /// True if the instant is known at which a request may use a slot, or may ask for one. It waits for the limit then,
    /// not just for an answer.
    pub(super) fn waits_for_limit(&self, request: &Request) -> bool {
        let lease = self.known(request).and_then(|known| known.find(request.costs));
        lease.is_some_and(|lease| {
            let is_turned_away = matches!(lease.ordered, Some(Ordered::NotBefore(..)));
            is_turned_away || lease.next.is_some() || !lease.slots.is_empty()
        })
    }

    /// The number of slots of all claims up to and including `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        self.keys.values().flat_map(|known| &known.leases).map(|lease| lease.until(at)).sum()
    }

    /// The first slot for requests like this. A request that costs nothing needs none.
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

    /// True if a request may use a slot at `now`.
    pub(super) fn is_open(&self, now: Time, request: &Request) -> bool {
        request.is_free() || self.slots(request).next().is_some_and(|slot| slot.is_good(now))
    }

    /// Takes up to `most` slots that can be used at `now`.
    pub(super) fn take(&mut self, now: Time, request: &Request, most: u64) -> Taken {
        let key = charged_key(request.keys, self.by_key);
        let most = self.slots(request).take(usize::try_from(most).unwrap_or(usize::MAX)).count();
        let known = self.keys.get_mut(key).filter(|_| most > 0);
        let slots = known.map_or_else(Vec::new, |known| known.lease(request.costs).take(now, most));
        Taken { claim: (key.into(), request.costs.into()), slots }
    }

    /// The first `releases` of these slots have been used, by releases that were over at `now`; puts the others back.
    /// Adds the costs to what each limit was `charged`. Returns a report of the releases that were late.
    pub(super) fn commit(
        &mut self,
        now: Time,
        taken: Taken,
        releases: u64,
        charged: &mut Vec<Charged>,
    ) -> Option<Order> {
        let Taken { claim: (key, costs), mut slots } = taken;
        let unused = slots.split_off(usize::try_from(releases).unwrap_or(usize::MAX).min(slots.len()));
        self.of(&key).lease(&costs).put(unused);
        self.forget(&key);
        if slots.is_empty() {
            return None;
        }
        charged.resize(costs.len(), Charged::default());
        for (charged, &cost) in charged.iter_mut().zip(costs.iter()).filter(|(_, cost)| **cost > 0) {
            charged.add(releases, cost.saturating_mul(releases));
        }
        let late = slots.iter().filter(|slot| slot.until < now).count() as u64;
        (late > 0).then(|| {
            self.of(&key).reports += 1;
            Order { overrun: Some(now), ..Order::new(key, &*costs, late) }
        })
    }

    /// Drops the slots that were not used in time. Returns true if there were any.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        self.leases().map(|lease| lease.expire(now)).fold(false, |any, is_any| any | is_any)
    }

    /// Takes out the slots after `now` that are not needed, to be given back; keeps the earliest. Those taken out can
    /// no longer be used here.
    pub(super) fn take_surplus(&mut self, now: Time) -> Vec<(Order, Vec<Slot>)> {
        let mut surplus = Vec::new();
        self.keys.retain(|key, known| {
            // Until a report is answered, some may be too close to a release that was late.
            let may_be_used = known.may_use_slots();
            for lease in known.leases.iter_mut().filter(|_| may_be_used) {
                let slots = lease.take_surplus(now);
                if !slots.is_empty() {
                    surplus.push((Order::new(key.clone(), &*lease.costs, slots.len() as u64), slots));
                }
            }
            known.is_of_use()
        });
        // A hash map iterates in random order.
        surplus.sort_by(|(a, _), (b, _)| (&a.key, &a.costs).cmp(&(&b.key, &b.costs)));
        surplus
    }

    /// Drops all slots and what the store has said about later ones. Returns the slots after `now`.
    pub(super) fn forget_booked(&mut self, now: Time) -> Vec<(Order, Vec<Slot>)> {
        self.need_nothing();
        let surplus = self.take_surplus(now);
        self.leases().for_each(Lease::forget_booked);
        surplus
    }

    /// The limits have changed, and may go `by_key`: forgets everything but holds and unanswered reports.
    pub(super) fn follow_change(&mut self, by_key: bool) {
        self.by_key = by_key;
        self.keys.retain(|_, known| {
            known.follow_change();
            known.is_of_use()
        });
    }

    /// Takes out the turns of all orders that were turned away, each as an order that will not be made.
    pub(super) fn take_turns(&mut self) -> Vec<Order> {
        let mut turns = Vec::new();
        for (key, known) in &mut self.keys {
            for lease in &mut known.leases {
                if let Some(Ordered::NotBefore(at, Some(turn))) = lease.ordered {
                    lease.ordered = Some(Ordered::NotBefore(at, None));
                    turns.push(Order { turn: Some(turn), ..Order::new(key.clone(), &*lease.costs, 0) });
                }
            }
        }
        turns
    }

    /// Forgets what is no longer of use for a key.
    fn forget(&mut self, key: &Key) {
        if self.keys.get_mut(key).is_some_and(|known| !known.is_of_use()) {
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::{Ordered, Overruns};
    use super::*;
    use crate::rule::Verdict;
    use crate::time::SECOND;

    fn slots(instants: &[(u64, u64)]) -> Vec<Slot> {
        instants.iter().map(|&(at, until)| Slot { at: Time(at), until: Time(until) }).collect()
    }

    fn request<'a>(since: u64, costs: &'a [u64], keys: &'a [Key]) -> Request<'a> {
        Request { since: Time(since), costs, keys }
    }

    /// The answer of a store to an order at 0, with nothing overrun.
    fn put(claims: &mut Claims, key: &Key, costs: &[u64], instants: &[(u64, u64)]) {
        let answer = Answer { slots: slots(instants), ..Answer::default() };
        claims.hear(Time(0), &Order::new(key.clone(), costs, 1), &answer);
    }

    /// The number of slots that can be used at `now`.
    fn usable(claims: &mut Claims, now: u64, request: &Request) -> usize {
        let taken = claims.take(Time(now), request, 9);
        let count = taken.slots.len();
        claims.commit(Time(now), taken, 0, &mut Vec::new());
        count
    }

    #[test]
    fn one_release_goes_in_each_slot_and_not_after_it() {
        let (mut claims, mut charged) = (Claims::default(), Vec::new());
        let one = request(3, &[1], &[]);
        assert_eq!(claims.opening(&one).from, Verdict::Never);
        put(&mut claims, &Key::new(), &[1], &[(5, 7), (5, 7), (9, 11)]);
        assert_eq!(claims.opening(&one).from, Verdict::At(Time(5)));
        assert_eq!([4, 5, 7, 8].map(|now| usable(&mut claims, now, &one)), [0, 2, 2, 0]);
        let taken = claims.take(Time(5), &one, 1);
        assert_eq!(claims.commit(Time(7), taken, 1, &mut charged), None);
        claims.expire(Time(7));
        assert_eq!(claims.opening(&request(6, &[1], &[])).from, Verdict::At(Time(6)));
        claims.expire(Time(8));
        assert_eq!(claims.opening(&one).from, Verdict::At(Time(9)));
        let taken = claims.take(Time(9), &one, 9);
        assert_eq!(claims.commit(Time(9), taken, 1, &mut charged), None);
        assert_eq!((claims.opening(&one).from, claims.keys.len()), (Verdict::Never, 0));
        assert_eq!(charged, [Charged { releases: 2, cost: 2 }]);
    }

    #[test]
    fn a_slot_is_for_the_key_and_the_costs_that_it_was_booked_for() {
        let mut claims = Claims::new(true);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        put(&mut claims, &a[0], &[1, 2], &[(5, 7)]);
        assert_eq!(claims.opening(&request(0, &[1, 2], &a)).from, Verdict::At(Time(5)));
        assert_eq!(claims.opening(&request(0, &[1, 2], &b)).from, Verdict::Never);
        assert_eq!(claims.opening(&request(0, &[2, 2], &a)).from, Verdict::Never);
        put(&mut claims, &a[0], &[2, 2], &[(8, 9)]);
        assert_eq!(claims.opening(&request(0, &[1, 2], &a)).from, Verdict::At(Time(5)));
        assert_eq!(claims.opening(&request(0, &[2, 2], &a)).from, Verdict::At(Time(8)));
    }

    #[test]
    fn a_slot_is_for_all_keys_if_they_share_their_limits() {
        let mut claims = Claims::new(false);
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        put(&mut claims, &Key::new(), &[1], &[(5, 7)]);
        assert_eq!(claims.opening(&request(0, &[1], &a)).from, Verdict::At(Time(5)));
        assert_eq!(claims.take(Time(5), &request(0, &[1], &b), 9).slots.len(), 1);
        assert_eq!(claims.take(Time(5), &request(0, &[1], &a), 9).slots, []);
    }

    /// Those of other keys are of a state of their own.
    #[test]
    fn slots_are_given_up_with_the_state_in_which_they_were_booked() {
        let mut claims = Claims::new(true);
        let keys = [b"a", b"b"].map(|key| [Key::from_slice(key)]);
        keys.iter().for_each(|[key]| put(&mut claims, key, &[1], &[(5, 7), (8, 9)]));
        let answer = Answer { slots: slots(&[(20, 22)]), lost: true, ..Answer::default() };
        claims.hear(Time(1), &Order::new(keys[0][0].clone(), [1], 1), &answer);
        let firsts = keys.each_ref().map(|key| claims.opening(&request(0, &[1], key)).from);
        assert_eq!(firsts, [20, 5].map(|at| Verdict::At(Time(at))));
    }

    #[test]
    fn what_arrived_before_a_slot_is_free_is_refused() {
        let mut claims = Claims::default();
        let early = request(6, &[1], &[]);
        assert_eq!(claims.expected(&early), None);
        let order = |within| Order { within, ..Order::new(Key::new(), [1], 1) };
        let next = |at| Answer { next: Some(Time(at)), ..Answer::default() };
        claims.hear(Time(5), &order(0), &next(7));
        assert_eq!(claims.expected(&early), Some(Time(7)));
        for other in [request(7, &[1], &[]), request(6, &[2], &[])] {
            assert_eq!(claims.expected(&other), None);
        }
        claims.hear(Time(8), &order(0), &Answer::default());
        assert_eq!(claims.expected(&early), Some(Time(7)), "it may still be judged");
        claims.hear(Time(8), &order(9), &Answer::default());
        assert_eq!(claims.expected(&early), None);
        assert_eq!(claims.keys.len(), 0);
    }

    #[test]
    fn lanes_that_are_charged_the_same_need_slots_together() {
        let [zero, one, two] = [0, 1, 2].map(Time);
        let mut claims = Claims::new(false);
        let (cheap, dear): (Rc<[u64]>, Rc<[u64]>) = ([1].into(), [2].into());
        let mut firsts = Vec::new();
        for (costs, count, since) in [(&cheap, 3, two), (&dear, 1, zero), (&cheap, 2, one)] {
            let demand = Demand { since, costs, keys: &[], count, within: 0 };
            firsts.extend(claims.need(&demand));
        }
        assert_eq!(firsts, [(Key::new(), Rc::clone(&cheap)), (Key::new(), Rc::clone(&dear))]);
        let mut needed = |key: &[u8], costs: &[u64]| {
            let TotalDemand { count, since, .. } = claims.of(&key.into()).lease(costs).demand;
            (count, since)
        };
        assert_eq!(needed(&[], &cheap), (5, one));
        assert_eq!(needed(&[], &dear), (1, zero));
        assert_eq!(needed(b"a", &dear), (0, zero));
    }

    #[test]
    fn a_hold_is_lifted_by_an_answer_that_knows_of_its_report() {
        let mut claims = Claims::default();
        let one = request(0, &[1], &[]);
        put(&mut claims, &Key::new(), &[1], &[(5, 7), (20, 22)]);
        let report = claims.hold(&one, Time(15));
        put(&mut claims, &Key::new(), &[1], &[]);
        assert_eq!((claims.held_until(&one), claims.slots(&one).count()), (Time(15), 0));
        claims.hear(Time(1), &report, &Answer { held: Some(Time(16)), ..Answer::default() });
        assert_eq!((claims.held_until(&one), claims.slots(&one).count()), (Time(16), 1));
        put(&mut claims, &Key::new(), &[1], &[]);
        assert_eq!(claims.held_until(&one), Time::ZERO);
    }

    #[test]
    fn keys_that_are_not_asked_for_again_take_no_memory() {
        let mut claims = Claims::new(true);
        for number in 0..10_000u64 {
            let (order, now) =
                (Order::new(Key::from_slice(&number.to_le_bytes()), [1], 2), Time(number * SECOND));
            claims.of(&order.key).lease(&[1]).ordered = Some(Ordered::NotBefore(now, None));
            let held = Some(now.saturating_add(SECOND)).filter(|_| number % 2 == 0);
            claims.hear(now, &order, &Answer { next: Some(now), held, ..Answer::default() });
        }
        assert!(claims.keys.len() < 1000, "{}", claims.keys.len());
    }

    /// An overrun replaces the first slots that were booked before it was known.
    #[test]
    fn slots_are_given_up_for_what_was_overrun() {
        let overruns = |costs: [u64; 2], until| Overruns { costs: costs.into(), until: Time(until) };
        // What was overrun, until when that matters, and which slots are left. Those at 5, 8 and 12 cost (1, 0), the
        // one at 6 costs (1, 2).
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
            let mut claims = Claims::default();
            let answer =
                |at: &[(u64, u64)], overruns| Answer { slots: slots(at), overruns, ..Answer::default() };
            let (cheap, dear) = (Order::new(Key::new(), [1, 0], 9), Order::new(Key::new(), [1, 2], 9));
            claims.hear(Time(0), &cheap, &answer(&[(5, 7), (8, 9), (12, 14)], overruns([3, 4], 4)));
            claims.hear(Time(0), &dear, &answer(&[(6, 7)], overruns([3, 4], 4)));
            let now = answer(&[(30, 31)], overruns([3 + costs[0], 4 + costs[1]], until));
            claims.hear(Time(1), &cheap, &now);
            let [mut found, dear] = [[1, 0], [1, 2]].map(|costs| {
                let request = request(0, &costs, &[]);
                claims.slots(&request).map(|slot| slot.at.0).filter(|at| *at < 30).collect::<Vec<_>>()
            });
            found.extend(dear);
            found.sort_unstable();
            assert_eq!(found, left, "{costs:?} until {until}");
        }
    }

    /// Only the answer tells which of the others are too close.
    #[test]
    fn no_slot_is_used_until_a_report_is_answered() {
        let (mut claims, mut charged) = (Claims::default(), Vec::new());
        let one = request(0, &[1], &[]);
        put(&mut claims, &Key::new(), &[1], &[(5, 7), (5, 7), (9, 11), (20, 22)]);
        let taken = claims.take(Time(6), &one, 2);
        let report = claims.commit(Time(8), taken, 2, &mut charged).expect("both were late");
        assert_eq!((report.overrun, report.count), (Some(Time(8)), 2));
        // The answer to an earlier order.
        put(&mut claims, &Key::new(), &[1], &[(10, 12)]);
        assert_eq!((claims.opening(&one).from, usable(&mut claims, 10, &one)), (Verdict::Never, 0));
        assert_eq!(claims.take_surplus(Time(8)), []);
        let overruns = Overruns { costs: [2].into(), until: Time(15) };
        claims.hear(Time(9), &report, &Answer { overruns, ..Answer::default() });
        assert_eq!(claims.opening(&one).from, Verdict::At(Time(20)));
    }

    /// A slot that is over allows no release anyway; giving it up would spare one that is too close.
    #[test]
    fn no_slot_that_is_over_is_given_up_in_place_of_another() {
        let mut claims = Claims::default();
        put(&mut claims, &Key::new(), &[1], &[(5, 7), (9, 11), (20, 22)]);
        let overruns = Overruns { costs: [1].into(), until: Time(15) };
        let check = Order::new(Key::new(), [1], 0);
        claims.hear(Time(8), &check, &Answer { overruns, ..Answer::default() });
        assert_eq!(claims.opening(&request(0, &[1], &[])).from, Verdict::At(Time(20)));
    }

    /// A store that has lost its state counts from 0 again.
    #[test]
    fn slots_are_given_up_for_a_report_whatever_the_store_has_counted() {
        for counted in [1, 5, 6] {
            let (mut claims, mut charged) = (Claims::default(), Vec::new());
            let one = request(0, &[1], &[]);
            let answer = |slots, overrun, until| {
                let overruns = Overruns { costs: [overrun].into(), until: Time(until) };
                Answer { slots, overruns, ..Answer::default() }
            };
            let slots = slots(&[(5, 7), (9, 11), (20, 22)]);
            claims.hear(Time(0), &Order::new(Key::new(), [1], 3), &answer(slots, 5, 0));
            let taken = claims.take(Time(5), &one, 1);
            let report = claims.commit(Time(8), taken, 1, &mut charged).expect("it was late");
            claims.hear(Time(8), &report, &answer(Vec::new(), counted, 15));
            assert_eq!(claims.opening(&one).from, Verdict::At(Time(20)), "{counted}");
        }
    }

    #[test]
    fn what_costs_nothing_needs_no_slot() {
        let claims = Claims::default();
        let free = request(3, &[0, 0], &[]);
        assert_eq!(claims.opening(&free).from, Verdict::At(Time(3)));
        assert!(claims.is_open(Time(3), &free));
    }
}
