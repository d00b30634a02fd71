//! Instants that were booked with a store of shared limits, see [`crate::store`].

use std::collections::VecDeque;
use std::rc::Rc;

use super::by_claim::ByClaim;
use super::{Charged, Request, Verdict};
use crate::charge::Key;
use crate::time::{SECOND, Time};

/// When a release may happen, on the clock of the process that booked it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Not before.
    pub at: Time,
    /// Not after.
    pub until: Time,
}

/// What is asked of a store: slots for some releases that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The key whose limits are charged; empty if the limits go by no key.
    pub key: Key,
    /// What each limit of the policy charges for one release. At least one is not 0.
    pub costs: Box<[u64]>,
    /// So many slots are of use. At least 1.
    pub count: u64,
    /// Whether slots to come are of use, too. If not, nothing is booked but what is free at once.
    pub waits: bool,
    /// What the last answer gave, if it turned the order away.
    pub turn: Option<Turn>,
}

/// A place in the queue of those who were turned away. What it means is up to the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn(pub u64);

/// What a store says to an order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The slots that were booked, earliest first; fewer than asked for, or none, if the others are beyond the horizon.
    pub slots: Vec<Slot>,
    /// With fewer slots than asked for: when it makes sense to ask for more. If the order does not wait: when the next
    /// one is free, as things stand.
    pub ask_again: Option<Time>,
    /// What to ask again with, so that nobody who comes later goes first.
    pub turn: Option<Turn>,
    /// Something that the user should hear of, such as that state was lost.
    pub warning: Option<String>,
    /// With a warning: when the first slot after it is expected.
    pub silent_until: Option<Time>,
}

/// Whose slots they are: the key and the costs that they were booked for.
pub(super) type Claim = (Key, Rc<[u64]>);

/// How many slots are of use, of those for a key and certain costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needed {
    /// So many.
    pub count: u64,
    /// Those that are over before this are not.
    pub since: Time,
}

/// Lets one release go in each slot.
///
/// It knows no rule: that was kept when the slots were given out. A slot is for what it was booked for, a key and
/// certain costs; another claim has none, and is told *never*: not before more slots have come.
#[derive(Debug, Default)]
pub struct Booked {
    /// Whether each key has slots of its own.
    by_key: bool,
    held: ByClaim<Row>,
    /// Before when no slot is free, for orders that do not wait.
    refused: ByClaim<Time>,
}

/// The slots of a claim, earliest first.
#[derive(Debug, Default)]
struct Row {
    slots: VecDeque<Slot>,
    /// How many of them, from the front, are for releases that are admitted.
    reserved: usize,
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
    ///
    /// Some may be earlier than those held: slots that others gave back.
    pub fn put(&mut self, key: &Key, costs: &[u64], slots: impl IntoIterator<Item = Slot>) {
        let row = self.held.get_or_insert_with(key, &costs.into(), Row::default);
        debug_assert!(row.reserved == 0, "what is reserved stays in front");
        row.slots.extend(slots);
        row.slots.make_contiguous().sort_by_key(|slot| slot.at);
    }

    /// The slots for requests like this, earliest first.
    pub fn slots(&self, request: &Request) -> impl DoubleEndedIterator<Item = Slot> {
        self.row(request).into_iter().flat_map(|row| row.slots.iter().copied())
    }

    /// How many slots there are for a key and costs, and when the last of them is.
    pub(super) fn slots_of(&self, key: &Key, costs: &[u64]) -> (u64, Option<Time>) {
        let row = self.held.get(key, costs);
        row.map_or((0, None), |row| (row.slots.len() as u64, row.slots.back().map(|slot| slot.at)))
    }

    fn row(&self, request: &Request) -> Option<&Row> {
        self.held.get(self.key(request), request.costs)
    }

    /// How many slots there are, for whatever requests, that are not after `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        let is_due = |slot: &&Slot| slot.at <= at;
        self.held.values().map(|row| row.slots.iter().take_while(is_due).count() as u64).sum()
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
        self.row(request).is_some_and(|row| row.slots.len() > row.reserved)
    }

    /// Reserves up to `most` slots that can be used at `now`. Returns how many.
    pub(super) fn reserve(&mut self, now: Time, request: &Request, most: u64) -> u64 {
        if request.is_free() {
            return most;
        }
        let is_good = |slot: &&Slot| slot.at <= now && now <= slot.until;
        let Some(row) = self.held.get_mut(self.key(request), request.costs) else { return 0 };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let count = row.slots.iter().skip(row.reserved).take(most).take_while(is_good).count();
        row.reserved += count;
        count as u64
    }

    /// The end of the first of the slots that are reserved.
    pub(super) fn good_until(&self) -> Option<Time> {
        self.held.values().flat_map(|row| row.slots.iter().take(row.reserved)).map(|slot| slot.until).min()
    }

    /// So many of the slots that are reserved for a claim have been used. Adds what that was to what each limit was
    /// `charged`.
    pub(super) fn commit(&mut self, (key, costs): &Claim, releases: u64, charged: &mut Vec<Charged>) {
        let Some(row) = self.held.get_mut(key, costs) else { return };
        let used = usize::try_from(releases).unwrap_or(usize::MAX).min(row.reserved);
        row.slots.drain(..used);
        row.reserved -= used;
        charged.resize(costs.len(), Charged::default());
        for (charged, &cost) in charged.iter_mut().zip(costs.iter()).filter(|(_, cost)| **cost > 0) {
            charged.add(used as u64, cost.saturating_mul(used as u64));
        }
    }

    /// None is reserved any more.
    pub(super) fn release_reserved(&mut self) {
        self.held.values_mut().for_each(|row| row.reserved = 0);
        self.forget_empty();
    }

    /// Gives up the slots that were not used in time. None may be reserved.
    pub(super) fn expire(&mut self, now: Time) {
        let is_over = |slot: &Slot| slot.until < now;
        if self.held.values().any(|row| row.slots.front().is_some_and(is_over)) {
            self.held.values_mut().for_each(|row| row.slots.retain(|slot| !is_over(slot)));
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
        for (key, costs, row) in self.held.iter_mut() {
            let slots = row.take_surplus(now, needed(key, costs));
            if !slots.is_empty() {
                let count = slots.len() as u64;
                surplus.push((
                    Order { key: key.clone(), costs: (**costs).into(), count, waits: true, turn: None },
                    slots,
                ));
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
        self.held.retain(|row| !row.slots.is_empty());
    }
}

impl Row {
    fn take_surplus(&mut self, now: Time, Needed { count, since }: Needed) -> Vec<Slot> {
        debug_assert!(self.reserved == 0, "a slot is being used");
        let is_over = |slot: &Slot| slot.until < since;
        if self.slots.len() as u64 <= count && !self.slots.front().is_some_and(is_over) {
            return Vec::new();
        }
        let mut left = count;
        let (kept, surplus): (Vec<_>, Vec<_>) = self.slots.drain(..).partition(|slot| {
            let is_needed = left > 0 && !is_over(slot);
            left -= u64::from(is_needed);
            // What has begun is of no use to others.
            is_needed || slot.at <= now
        });
        self.slots = kept.into();
        surplus
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

    /// As those are that others gave back.
    #[test]
    fn slots_may_come_that_are_earlier_than_those_held() {
        let mut booked = Booked::default();
        let one = request(0, &[1], &[]);
        booked.put(&Key::new(), &[1], slots(&[(5, 7), (9, 11)]));
        booked.put(&Key::new(), &[1], slots(&[(3, 5), (7, 9)]));
        let instants: Vec<_> = booked.slots(&one).map(|slot| slot.at.0).collect();
        assert_eq!(instants, [3, 5, 7, 9]);
    }

    /// What is given back is moved out: it cannot be used here any more.
    #[test]
    fn slots_that_are_not_needed_are_taken_out() {
        // Now, how many are needed and since when; those taken out, and those left.
        let table: [(u64, u64, u64, &[u64], &[u64]); 7] = [
            (0, 3, 0, &[], &[5, 6, 20]),
            (0, 9, 7, &[], &[5, 6, 20]),
            (0, 1, 0, &[6, 20], &[5]),
            (0, 0, 0, &[5, 6, 20], &[]),
            // What has begun is of no use to others.
            (5, 0, 0, &[6, 20], &[5]),
            // An item has to wait for longer than the first two are good.
            (0, 9, 10, &[5, 6], &[20]),
            (5, 1, 10, &[6], &[5, 20]),
        ];
        for (now, count, since, taken, left) in table {
            let mut booked = Booked::default();
            booked.put(&Key::new(), &[1], slots(&[(5, 7), (6, 8), (20, 22)]));
            let surplus = booked.take_surplus(Time(now), |_, _| Needed { count, since: Time(since) });
            let surplus: Vec<_> = surplus.iter().flat_map(|(_, slots)| slots).map(|slot| slot.at.0).collect();
            let kept: Vec<_> = booked.slots(&request(0, &[1], &[])).map(|slot| slot.at.0).collect();
            assert_eq!((&surplus[..], &kept[..]), (taken, left), "at {now}, {count} since {since}");
        }
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
