//! Owners of future slots: slots that were given back, or whose owner has ended, go to whoever asks next.

use serde::{Deserialize, Serialize};

use crate::time::{Time, Wall};

/// A process that books. [`NOBODY`] owns slots that were given back.
pub type Owner = u32;

/// The owner of slots that go to whoever asks next.
pub const NOBODY: Owner = 0;

/// All slots that may yet be handed on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OwnedSlots(Vec<OwnerSlots>);

/// The slots of one owner that were booked at the same costs and by the same wall clock, earliest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct OwnerSlots {
    owner: Owner,
    pub(super) costs: Box<[u64]>,
    pub(super) wall: Wall,
    pub(super) slots: Vec<Time>,
}

impl OwnedSlots {
    /// The slots that an owner has at these costs, earliest first.
    pub fn of(&self, owner: Owner, costs: &[u64]) -> &[Time] {
        let share = self.0.iter().find(|share| share.is_of(owner, costs));
        share.map_or(&[], |share| share.slots.as_slice())
    }

    /// Removes all slots without an owner that were booked by a wall clock other than `wall`.
    pub(super) fn take_others(&mut self, wall: Wall) -> Vec<OwnerSlots> {
        self.0.extract_if(.., |share| share.owner == NOBODY && share.wall != wall).collect()
    }

    /// Adds slots that were booked by this wall clock to those of `owner`.
    pub fn add(&mut self, owner: Owner, costs: &[u64], wall: Wall, slots: impl IntoIterator<Item = Time>) {
        let mut slots = slots.into_iter().peekable();
        if slots.peek().is_some() {
            let is_it = |share: &OwnerSlots| share.is_of(owner, costs) && share.wall == wall;
            let share = self.0.iter().position(is_it).unwrap_or_else(|| {
                self.0.push(OwnerSlots { owner, costs: costs.into(), wall, slots: Vec::new() });
                self.0.len() - 1
            });
            self.0[share].slots.extend(slots);
            self.0[share].slots.sort_unstable();
        }
    }

    /// Removes those that `owner` has of these slots, and returns them, each with the wall clock it was booked by. Of
    /// several at one instant, the one that was booked first.
    pub fn remove(&mut self, owner: Owner, costs: &[u64], slots: &[Time]) -> Vec<(Wall, Time)> {
        let mut remove = |slot: &Time| {
            self.0.iter_mut().filter(|share| share.is_of(owner, costs)).find_map(|share| {
                let at = share.slots.iter().position(|at| at == slot)?;
                Some((share.wall, share.slots.remove(at)))
            })
        };
        slots.iter().filter_map(&mut remove).collect()
    }

    /// Removes and returns the earliest slots without an owner, at most `most`, none of them after `latest`.
    pub(super) fn take(&mut self, costs: &[u64], most: usize, latest: Time) -> Vec<Time> {
        let Some(free) = self.0.iter_mut().find(|share| share.is_of(NOBODY, costs)) else {
            return Vec::new();
        };
        let count = free.slots.partition_point(|at| *at <= latest);
        free.slots.drain(..most.min(count)).collect()
    }

    /// Frees the slots of owners that have ended, and forgets those that they may have used by then: `clock` is read
    /// once it is known who has ended.
    pub fn inherit(&mut self, has_ended: impl Fn(Owner) -> bool, clock: impl FnOnce() -> Time) {
        let is_left = |share: &mut OwnerSlots| share.owner != NOBODY && has_ended(share.owner);
        let left: Vec<_> = self.0.extract_if(.., is_left).collect();
        let ended_by = clock();
        for OwnerSlots { costs, wall, slots, .. } in left {
            self.add(NOBODY, &costs, wall, slots.into_iter().filter(|at| *at > ended_by));
        }
    }

    /// The last slot of an owner that is still there.
    #[cfg(feature = "sqlite")]
    pub(in crate::store) fn last(&self, has_ended: impl Fn(Owner) -> bool) -> Option<Time> {
        let owners = self.0.iter().filter(|share| share.owner != NOBODY && !has_ended(share.owner));
        owners.filter_map(|share| share.slots.last().copied()).max()
    }

    /// Forgets slots before `now`: it is too late to hand them on.
    pub(super) fn forget(&mut self, now: Time) {
        self.0.iter_mut().for_each(|share| share.slots.retain(|at| *at >= now));
        self.0.retain(|share| !share.slots.is_empty());
    }
}

impl OwnerSlots {
    fn is_of(&self, owner: Owner, costs: &[u64]) -> bool {
        self.owner == owner && *self.costs == *costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(times: &[u64]) -> Vec<Time> {
        times.iter().copied().map(Time).collect()
    }

    #[test]
    fn what_has_no_owner_any_more_is_taken_earliest_first() {
        let mut owned = OwnedSlots::default();
        owned.add(7, &[1], Wall::EPOCH, times(&[9, 5]));
        owned.add(8, &[1], Wall::EPOCH, times(&[6]));
        owned.add(7, &[2], Wall::EPOCH, times(&[4]));
        assert_eq!(owned.take(&[1], 9, Time(9)), []);
        owned.inherit(|owner| owner == 7, || Time(3));
        owned.inherit(|_| false, || Time(9));
        assert_eq!((owned.of(7, &[1]), owned.of(8, &[1])), (&[][..], &times(&[6])[..]));
        assert_eq!(owned.take(&[1], 1, Time(9)), times(&[5]));
        assert_eq!(owned.take(&[1], 9, Time(9)), times(&[9]));
        assert_eq!(owned.take(&[2], 9, Time(9)), times(&[4]));
    }

    /// Their owner may have ended right after using them.
    #[test]
    fn what_may_have_been_used_is_not_handed_on() {
        let mut owned = OwnedSlots::default();
        owned.add(7, &[1], Wall::EPOCH, times(&[5, 6, 7]));
        let clock = std::cell::Cell::new(5);
        let has_ended = |_| {
            clock.set(6);
            true
        };
        owned.inherit(has_ended, || Time(clock.get()));
        assert_eq!((owned.of(7, &[1]), owned.of(NOBODY, &[1])), (&[][..], &times(&[7])[..]));
    }

    #[test]
    fn only_an_owner_gives_back_and_each_slot_once() {
        let mut owned = OwnedSlots::default();
        owned.add(7, &[1], Wall::EPOCH, times(&[5, 5, 6]));
        assert_eq!(owned.remove(8, &[1], &times(&[5])), []);
        assert_eq!(owned.remove(7, &[2], &times(&[5])), []);
        assert_eq!(owned.remove(7, &[1], &times(&[5, 6, 6, 7])), [5, 6].map(|at| (Wall::EPOCH, Time(at))));
        assert_eq!(owned.of(7, &[1]), times(&[5]));
    }

    #[test]
    fn what_is_past_is_forgotten() {
        let mut owned = OwnedSlots::default();
        owned.add(7, &[1], Wall::EPOCH, times(&[5, 6]));
        owned.add(8, &[1], Wall::EPOCH, times(&[5]));
        owned.forget(Time(6));
        assert_eq!((owned.of(7, &[1]), owned.0.len()), (&times(&[6])[..], 1));
    }
}
