//! The slots for releases with the same key and costs.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Demand;
use super::order::{Slot, Turn};
use crate::charge::Key;
use crate::time::{SECOND, Time};

/// The slots for releases with the same key and costs: needed, held, ordered and expected.
#[derive(Clone, Debug, Default)]
pub(super) struct Lease {
    pub(super) costs: Arc<[u64]>,
    pub(super) demand: TotalDemand,
    /// Those held, earliest first.
    pub(super) slots: VecDeque<Slot>,
    /// The orders that are not answered, first to last: when each was placed, and for how many slots.
    pub(super) coming: SmallVec<[(Time, u64); 1]>,
    /// The last order was turned away: no use asking before this instant; then with this turn, if there is one.
    pub(super) not_before: Option<(Time, Option<Turn>)>,
    /// The instant of the next free slot, if the store has named it.
    pub(super) next: Option<Time>,
    /// The number of slots that were not used in time, for releases that still need one.
    pub(super) lost: u64,
}

/// What some lanes need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TotalDemand {
    /// The number of slots.
    pub(super) count: u64,
    /// The number of those that the runs considered so far need soon.
    pub(super) near: u64,
    /// Slots that end before this are of no use.
    pub(super) eligible_at: Time,
    /// The index of the run that goes first in some lanes.
    pub(super) first: Option<usize>,
}

/// Releases with the same key and costs, and no others between them, for which slots are ordered together.
#[derive(Clone, Debug, Default)]
pub(super) struct DemandRun {
    pub(super) key: Key,
    pub(super) costs: Arc<[u64]>,
    /// The number of those that are near.
    pub(super) near: u64,
    /// Others of their lane go before them.
    pub(super) follows: bool,
    /// The index of the run before it in its lane, if that needs slots.
    pub(super) after: Option<usize>,
    /// It has fewer slots than it needs, or one before it has.
    pub(super) lacks: bool,
    pub(super) eligible_at: Time,
    /// Slots further ahead than this, in nanoseconds, are of no use.
    pub(super) within: u64,
}

impl DemandRun {
    /// Others like these also go first in a lane.
    pub(super) fn join(&mut self, other: &DemandRun) {
        self.near += other.near;
        self.lacks |= other.lacks;
        self.eligible_at = self.eligible_at.min(other.eligible_at);
        self.within = self.within.max(other.within);
    }
}

impl Lease {
    /// Adds what a lane wants.
    pub(super) fn need(&mut self, demand: &Demand) {
        let eligible_at = demand.request.eligible_at;
        let TotalDemand { count, eligible_at: earliest, .. } = self.demand;
        self.demand.eligible_at = if count == 0 { eligible_at } else { eligible_at.min(earliest) };
        self.demand.count += demand.count;
    }

    /// The number of slots that are held or ordered.
    pub(super) fn supply(&self) -> u64 {
        self.slots.len() as u64 + self.coming.iter().map(|(_, count)| count).sum::<u64>()
    }

    pub(super) fn is_of_use(&self) -> bool {
        let is_held = !self.slots.is_empty() || !self.coming.is_empty() || self.not_before.is_some();
        is_held || self.next.is_some() || self.demand.count > 0
    }

    /// Forgets instants a second after they have passed: a lane that waits for one asks then or soon after, and an item
    /// that arrived earlier is judged soon.
    pub(super) fn forget_past(&mut self, now: Time) {
        let soon = Time(now.0.saturating_sub(SECOND));
        self.not_before.take_if(|(at, _)| *at <= soon);
        self.next.take_if(|at| *at <= soon);
    }

    /// Drops all slots and what the store has said about later ones.
    pub(super) fn forget_booked(&mut self) {
        self.slots.clear();
        (self.not_before, self.next) = (None, None);
    }

    /// Adds slots. Some may be earlier than those held: slots that other runs gave back.
    pub(super) fn put(&mut self, slots: impl IntoIterator<Item = Slot>) {
        let before = self.slots.len();
        self.slots.extend(slots);
        self.lost = self.lost.saturating_sub((self.slots.len() - before) as u64);
        self.slots.make_contiguous().sort_by_key(|slot| slot.at);
    }

    /// The number of slots up to and including `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        self.slots.iter().take_while(|slot| slot.at <= at).count() as u64
    }

    /// Takes up to `most` that can be used at `now`.
    pub(super) fn take(&mut self, now: Time, most: usize) -> Vec<Slot> {
        let good = self.slots.iter().take(most).take_while(|slot| slot.is_good(now)).count();
        self.slots.drain(..good).collect()
    }

    /// True if the first slot was not used in time.
    fn is_over(&self, now: Time) -> bool {
        self.slots.front().is_some_and(|slot| slot.until < now)
    }

    /// Drops the slots that were not used in time. Returns true if there were any.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let is_any = self.is_over(now);
        if is_any {
            let before = self.slots.len();
            self.slots.retain(|slot| slot.until >= now);
            self.lost += (before - self.slots.len()) as u64;
        }
        is_any
    }

    /// Takes out the slots after `now` that are not needed; keeps the earliest.
    pub(super) fn take_surplus(&mut self, now: Time) -> Vec<Slot> {
        let TotalDemand { count, eligible_at, .. } = self.demand;
        self.lost = self.lost.min(count);
        if self.slots.len() as u64 <= count && !self.is_over(eligible_at) {
            return Vec::new();
        }
        let mut left = count;
        let (kept, surplus): (Vec<_>, Vec<_>) = self.slots.drain(..).partition(|slot| {
            let is_needed = left > 0 && slot.until >= eligible_at;
            left -= u64::from(is_needed);
            // A slot that has begun is of no use to other runs.
            is_needed || slot.at <= now
        });
        self.slots = kept.into();
        surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(instants: &[(u64, u64)]) -> Lease {
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
        let mut lease = lease(&[(5, 7), (9, 11)]);
        lease.put([(3, 5), (7, 9)].map(|(at, until)| Slot { at: Time(at), until: Time(until) }));
        assert_eq!(instants(lease.slots.iter().copied()), [3, 5, 7, 9]);
        assert_eq!([2, 3, 8, 9].map(|at| lease.until(Time(at))), [0, 1, 3, 4]);
    }

    #[test]
    fn slots_are_taken_that_can_be_used() {
        let mut lease = lease(&[(5, 7), (6, 8), (9, 11)]);
        assert_eq!(
            [4, 5, 7, 8].map(|now| lease.slots.front().is_some_and(|slot| slot.is_good(Time(now)))),
            [false, true, true, false]
        );
        assert_eq!(instants(lease.take(Time(6), 1)), [5]);
        assert_eq!(instants(lease.take(Time(6), 9)), [6]);
        assert_eq!(instants(lease.slots), [9]);
    }

    #[test]
    fn a_slot_is_good_until_its_end() {
        let mut lease = lease(&[(5, 7), (6, 8)]);
        assert_eq!([7, 8].map(|now| lease.is_over(Time(now))), [false, true]);
        assert!(lease.expire(Time(8)) && !lease.expire(Time(8)));
        assert_eq!(instants(lease.slots), [6]);
    }

    /// As long as releases need them.
    #[test]
    fn slots_that_were_lost_are_counted_until_there_are_others() {
        let mut lease = lease(&[(1, 2), (3, 4), (3, 4), (20, 22)]);
        lease.demand.count = 9;
        let mut lost = Vec::new();
        for now in [2, 3, 5, 5] {
            lease.expire(Time(now));
            lost.push(lease.lost);
        }
        lease.put([9, 8].map(|at| Slot { at: Time(at), until: Time(at) }));
        lost.push(lease.lost);
        for count in [7, 0] {
            lease.demand.count = count;
            lease.take_surplus(Time(5));
            lost.push(lease.lost);
        }
        assert_eq!(lost, [0, 1, 3, 3, 1, 1, 0]);
    }

    #[test]
    fn what_was_said_of_later_slots_is_forgotten_a_second_after_it_has_passed() {
        let not_before = Some((Time(5), None));
        let turned_away = Lease { not_before, next: Some(Time(5)), ..lease(&[(9, 11)]) };
        for (now, is_known) in [(4, true), (5, false)] {
            let mut lease = turned_away.clone();
            lease.forget_past(Time(SECOND + now));
            assert_eq!((lease.not_before.is_some(), lease.next.is_some()), (is_known, is_known));
        }
        // What is on its way is not forgotten, even if what was booked is.
        let coming: SmallVec<_> = [(Time(0), 1)].into();
        let mut lease = Lease { coming: coming.clone(), ..turned_away };
        lease.forget_booked();
        assert_eq!((lease.not_before, lease.next, lease.slots.len()), (None, None, 0));
        lease.forget_past(Time(9 * SECOND));
        assert_eq!(lease.coming, coming);
    }

    /// Slots that are given back are moved out, so they can no longer be used here.
    #[test]
    fn slots_that_are_not_needed_are_taken_out() {
        // The time, how many are needed and since when; the slots taken out, and those left.
        let table: [(u64, u64, u64, &[u64], &[u64]); 8] = [
            (0, 3, 0, &[], &[5, 6, 20]),
            (0, 9, 7, &[], &[5, 6, 20]),
            (0, 1, 0, &[6, 20], &[5]),
            (0, 2, 7, &[20], &[5, 6]),
            (0, 0, 0, &[5, 6, 20], &[]),
            // A slot that has begun is of no use to other runs.
            (5, 0, 0, &[6, 20], &[5]),
            // An item must wait beyond the end of the first two.
            (0, 9, 10, &[5, 6], &[20]),
            (5, 1, 10, &[6], &[5, 20]),
        ];
        for (now, count, eligible_at, taken, left) in table {
            let mut lease = lease(&[(5, 7), (6, 8), (20, 22)]);
            lease.demand = TotalDemand { count, eligible_at: Time(eligible_at), ..TotalDemand::default() };
            let surplus = lease.take_surplus(Time(now));
            let found = (instants(surplus), instants(lease.slots));
            assert_eq!(found, (taken.to_vec(), left.to_vec()), "at {now}, {count} since {eligible_at}");
        }
    }
}
