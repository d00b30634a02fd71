//! The slots booked for one claim.

use std::collections::VecDeque;

use super::order::{Ordered, Slot};
use crate::time::Time;

/// The slots that are of use to a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Needed {
    pub(super) count: u64,
    /// Slots that end before this are of no use.
    pub(super) since: Time,
}

/// The slots held or ordered for a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    pub(super) count: u64,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    /// The instant at which the store last answered for the key.
    pub(super) heard: Option<Time>,
    pub(super) ordered: Option<Ordered>,
}

/// The slots of a claim, earliest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Lease {
    all: VecDeque<Slot>,
}

impl Lease {
    /// Adds slots. Some may be earlier than those held: slots that other runs gave back.
    pub(super) fn put(&mut self, slots: impl IntoIterator<Item = Slot>) {
        self.all.extend(slots);
        self.all.make_contiguous().sort_by_key(|slot| slot.at);
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Slot> {
        self.all.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn held(&self) -> Held {
        let [first, last] = [self.all.front(), self.all.back()].map(|slot| slot.map(|slot| slot.at));
        Held { count: self.all.len() as u64, first, last, ..Held::default() }
    }

    /// The number of slots up to and including `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        self.all.iter().take_while(|slot| slot.at <= at).count() as u64
    }

    /// Takes up to `most` that can be used at `now`.
    pub(super) fn take(&mut self, now: Time, most: u64) -> Vec<Slot> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let good = self.all.iter().take(most).take_while(|slot| slot.is_good(now)).count();
        self.all.drain(..good).collect()
    }

    pub(super) fn first(&self) -> Option<Slot> {
        self.all.front().copied()
    }

    pub(super) fn drop_first(&mut self) {
        self.all.pop_front();
    }

    pub(super) fn drop_before(&mut self, end: Time) {
        self.all.retain(|slot| slot.at >= end);
    }

    /// True if the first slot was not used in time.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.first().is_some_and(|slot| slot.until < now)
    }

    /// Drops the slots that were not used in time.
    pub(super) fn expire(&mut self, now: Time) {
        self.all.retain(|slot| slot.until >= now);
    }

    /// Takes out the slots after `now` that are not needed; keeps the earliest.
    pub(super) fn take_surplus(&mut self, now: Time, Needed { count, since }: Needed) -> Vec<Slot> {
        if self.all.len() as u64 <= count && !self.is_over(since) {
            return Vec::new();
        }
        let mut left = count;
        let (kept, surplus): (Vec<_>, Vec<_>) = self.all.drain(..).partition(|slot| {
            let is_needed = left > 0 && slot.until >= since;
            left -= u64::from(is_needed);
            // A slot that has begun is of no use to other runs.
            is_needed || slot.at <= now
        });
        self.all = kept.into();
        surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(instants: &[(u64, u64)]) -> Lease {
        let mut slots = Lease::default();
        slots.put(instants.iter().map(|&(at, until)| Slot { at: Time(at), until: Time(until) }));
        slots
    }

    fn instants(slots: impl IntoIterator<Item = Slot>) -> Vec<u64> {
        slots.into_iter().map(|slot| slot.at.0).collect()
    }

    /// Such as slots that other runs gave back.
    #[test]
    fn slots_may_come_that_are_earlier_than_those_held() {
        let mut slots = slots(&[(5, 7), (9, 11)]);
        slots.put([(3, 5), (7, 9)].map(|(at, until)| Slot { at: Time(at), until: Time(until) }));
        assert_eq!(instants(slots.iter()), [3, 5, 7, 9]);
        let (first, last) = (Some(Time(3)), Some(Time(9)));
        assert_eq!(slots.held(), Held { count: 4, first, last, ..Held::default() });
        assert_eq!([2, 3, 8, 9].map(|at| slots.until(Time(at))), [0, 1, 3, 4]);
    }

    #[test]
    fn slots_are_taken_that_can_be_used() {
        let mut slots = slots(&[(5, 7), (6, 8), (9, 11)]);
        assert_eq!(
            [4, 5, 7, 8].map(|now| slots.first().is_some_and(|slot| slot.is_good(Time(now)))),
            [false, true, true, false]
        );
        assert_eq!(instants(slots.take(Time(6), 1)), [5]);
        assert_eq!(instants(slots.take(Time(6), 9)), [6]);
        assert_eq!(instants(slots.iter()), [9]);
    }

    #[test]
    fn a_slot_is_good_until_its_end() {
        let mut slots = slots(&[(5, 7), (6, 8)]);
        assert_eq!([7, 8].map(|now| slots.is_over(Time(now))), [false, true]);
        slots.expire(Time(8));
        assert_eq!(instants(slots.iter()), [6]);
    }

    /// Slots that are given back are moved out, so they can no longer be used here.
    #[test]
    fn slots_that_are_not_needed_are_taken_out() {
        // The time, how many are needed and since when; the slots taken out, and those left.
        let table: [(u64, u64, u64, &[u64], &[u64]); 7] = [
            (0, 3, 0, &[], &[5, 6, 20]),
            (0, 9, 7, &[], &[5, 6, 20]),
            (0, 1, 0, &[6, 20], &[5]),
            (0, 0, 0, &[5, 6, 20], &[]),
            // A slot that has begun is of no use to other runs.
            (5, 0, 0, &[6, 20], &[5]),
            // An item must wait beyond the end of the first two.
            (0, 9, 10, &[5, 6], &[20]),
            (5, 1, 10, &[6], &[5, 20]),
        ];
        for (now, count, since, taken, left) in table {
            let mut slots = slots(&[(5, 7), (6, 8), (20, 22)]);
            let surplus = slots.take_surplus(Time(now), Needed { count, since: Time(since) });
            let found = (instants(surplus), instants(slots.iter()));
            assert_eq!(found, (taken.to_vec(), left.to_vec()), "at {now}, {count} since {since}");
        }
    }
}
