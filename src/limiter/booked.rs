//! Instants that were booked with a store of shared limits, see [`crate::store`].

use std::collections::{HashMap, VecDeque};

use super::{Charged, Request, Verdict};
use crate::charge::Key;
use crate::time::Time;

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
    /// With fewer slots than asked for: when it makes sense to ask for more.
    pub ask_again: Option<Time>,
    /// What to ask again with, so that nobody who comes later goes first.
    pub turn: Option<Turn>,
    /// Something that the user should hear of, such as that state was lost.
    pub warning: Option<String>,
}

/// Lets one release go in each slot.
///
/// It knows no rule: that was kept when the slots were given out. A slot is for what it was booked for, a key and
/// certain costs; another claim has none, and is told *never*: not before more slots have come.
#[derive(Debug, Default)]
pub struct Booked {
    held: HashMap<Key, Row>,
}

/// The slots of a key, earliest first.
#[derive(Debug, Default)]
struct Row {
    costs: Box<[u64]>,
    slots: VecDeque<Slot>,
    /// How many of them, from the front, are for releases that are admitted.
    reserved: usize,
}

impl Booked {
    /// Whom a request is charged to. Where limits are booked, all go by the same key or none does.
    pub(super) fn key(request: &Request) -> Key {
        key(request).into()
    }

    /// Takes slots that were booked for a key and these costs. Any for other costs are given up.
    pub fn put(&mut self, key: &Key, costs: &[u64], slots: impl IntoIterator<Item = Slot>) {
        let row = self.held.entry(key.clone()).or_default();
        if *row.costs != *costs {
            *row = Row { costs: costs.into(), ..Row::default() };
        }
        row.slots.extend(slots);
    }

    /// The slots for requests like this, earliest first.
    pub fn slots(&self, request: &Request) -> impl DoubleEndedIterator<Item = Slot> {
        self.row(request).into_iter().flat_map(|row| row.slots.iter().copied())
    }

    fn row(&self, request: &Request) -> Option<&Row> {
        self.held.get(key(request)).filter(|row| *row.costs == *request.costs)
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

    /// Reserves up to `most` slots that can be used at `now`. Returns how many.
    pub(super) fn reserve(&mut self, now: Time, request: &Request, most: u64) -> u64 {
        if request.is_free() {
            return most;
        }
        let is_good = |slot: &&Slot| slot.at <= now && now <= slot.until;
        let row = self.held.get_mut(key(request)).filter(|row| *row.costs == *request.costs);
        let Some(row) = row else { return 0 };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let count = row.slots.iter().skip(row.reserved).take(most).take_while(is_good).count();
        row.reserved += count;
        count as u64
    }

    /// The end of the first of the slots that are reserved.
    pub(super) fn good_until(&self) -> Option<Time> {
        self.held.values().flat_map(|row| row.slots.iter().take(row.reserved)).map(|slot| slot.until).min()
    }

    /// So many of the slots that are reserved for a key have been used. Adds what that was to what each limit was
    /// `charged`.
    pub(super) fn commit(&mut self, key: &Key, releases: u64, charged: &mut Vec<Charged>) {
        let Some(row) = self.held.get_mut(key) else { return };
        let used = usize::try_from(releases).unwrap_or(usize::MAX).min(row.reserved);
        row.slots.drain(..used);
        row.reserved -= used;
        charged.resize(row.costs.len(), Charged::default());
        for (charged, &cost) in charged.iter_mut().zip(&row.costs).filter(|(_, cost)| **cost > 0) {
            charged.add(used as u64, cost.saturating_mul(used as u64));
        }
    }

    /// None is reserved any more.
    pub(super) fn release_reserved(&mut self) {
        self.held.values_mut().for_each(|row| row.reserved = 0);
        self.held.retain(|_, row| !row.slots.is_empty());
    }

    /// Gives up the slots that were not used in time. None may be reserved.
    pub(super) fn expire(&mut self, now: Time) {
        let is_over = |slot: &Slot| slot.until < now;
        if self.held.values().any(|row| row.slots.front().is_some_and(is_over)) {
            self.held.values_mut().for_each(|row| row.slots.retain(|slot| !is_over(slot)));
            self.held.retain(|_, row| !row.slots.is_empty());
        }
    }
}

fn key<'a>(request: &Request<'a>) -> &'a [u8] {
    request.keys.first().map_or(&[], |key| key.as_slice())
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
        assert_eq!(booked.earliest(&one), Verdict::Never);
        booked.put(&Key::new(), &[1], slots(&[(5, 7), (5, 7), (9, 11)]));
        assert_eq!(booked.earliest(&one), Verdict::At(Time(5)));
        assert_eq!([4, 5, 7, 8].map(|now| reservable(&mut booked, now, &one)), [0, 2, 2, 0]);
        assert_eq!(booked.reserve(Time(5), &one, 1), 1);
        assert_eq!(booked.good_until(), Some(Time(7)));
        booked.commit(&Key::new(), 1, &mut charged);
        booked.release_reserved();
        booked.expire(Time(7));
        assert_eq!(booked.earliest(&request(6, &[1], &[])), Verdict::At(Time(6)));
        booked.expire(Time(8));
        assert_eq!(booked.earliest(&one), Verdict::At(Time(9)));
        assert_eq!(booked.reserve(Time(9), &one, 9), 1);
        booked.commit(&Key::new(), 1, &mut charged);
        booked.release_reserved();
        assert_eq!((booked.earliest(&one), booked.held.len()), (Verdict::Never, 0));
        assert_eq!(charged, [Charged { releases: 2, cost: 2 }]);
    }

    #[test]
    fn a_slot_is_for_the_key_and_the_costs_that_it_was_booked_for() {
        let mut booked = Booked::default();
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        booked.put(&a[0], &[1, 2], slots(&[(5, 7)]));
        assert_eq!(booked.earliest(&request(0, &[1, 2], &a)), Verdict::At(Time(5)));
        assert_eq!(booked.earliest(&request(0, &[1, 2], &b)), Verdict::Never);
        assert_eq!(booked.earliest(&request(0, &[2, 2], &a)), Verdict::Never);
        booked.put(&a[0], &[2, 2], slots(&[(8, 9)]));
        assert_eq!(booked.earliest(&request(0, &[1, 2], &a)), Verdict::Never);
        assert_eq!(booked.earliest(&request(0, &[2, 2], &a)), Verdict::At(Time(8)));
    }

    #[test]
    fn what_costs_nothing_needs_no_slot() {
        let mut booked = Booked::default();
        let free = request(3, &[0, 0], &[]);
        assert_eq!(booked.earliest(&free), Verdict::At(Time(3)));
        assert_eq!(booked.reserve(Time(3), &free, 9), 9);
    }
}
