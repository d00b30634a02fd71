//! Owners of the slots ahead: those that were given back, or whose owner has ended, are for whoever asks next.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A process that books; [`NOBODY`] owns slots that were given back.
pub type Owner = u32;

/// The owner of slots that are for whoever asks next.
pub const NOBODY: Owner = 0;

/// All slots that may be handed on some day.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OwnedSlots(Vec<OwnerSlots>);

/// Those of one owner that are booked at the same costs, earliest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct OwnerSlots {
    owner: Owner,
    costs: Box<[u64]>,
    slots: Vec<Time>,
}

impl OwnedSlots {
    /// The slots that an owner has at these costs, earliest first.
    pub fn of(&self, owner: Owner, costs: &[u64]) -> &[Time] {
        let share = self.0.iter().find(|share| share.is_of(owner, costs));
        share.map_or(&[], |share| share.slots.as_slice())
    }

    /// All slots, whoever has them, with what each costs.
    pub(super) fn all(&self) -> impl Iterator<Item = (&[u64], Time)> {
        self.0.iter().flat_map(|share| share.slots.iter().map(|slot| (&*share.costs, *slot)))
    }

    /// Adds slots to those of `owner`.
    pub fn add(&mut self, owner: Owner, costs: &[u64], slots: impl IntoIterator<Item = Time>) {
        let mut slots = slots.into_iter().peekable();
        if slots.peek().is_some() {
            let share = self.0.iter().position(|share| share.is_of(owner, costs)).unwrap_or_else(|| {
                self.0.push(OwnerSlots { owner, costs: costs.into(), slots: Vec::new() });
                self.0.len() - 1
            });
            self.0[share].slots.extend(slots);
            self.0[share].slots.sort_unstable();
        }
    }

    /// Takes out those that `owner` has, and returns them.
    pub fn remove(&mut self, owner: Owner, costs: &[u64], slots: &[Time]) -> Vec<Time> {
        let Some(own) = self.of_mut(owner, costs) else { return Vec::new() };
        let mut remove = |slot: &Time| own.iter().position(|at| at == slot).map(|at| own.remove(at));
        slots.iter().filter_map(&mut remove).collect()
    }

    /// Takes out the earliest ones that are nobody's, none of them after `latest`.
    pub(super) fn take(&mut self, costs: &[u64], most: usize, latest: Time) -> Vec<Time> {
        let Some(free) = self.of_mut(NOBODY, costs) else { return Vec::new() };
        let count = free.partition_point(|at| *at <= latest);
        free.drain(..most.min(count)).collect()
    }

    fn of_mut(&mut self, owner: Owner, costs: &[u64]) -> Option<&mut Vec<Time>> {
        self.0.iter_mut().find(|share| share.is_of(owner, costs)).map(|share| &mut share.slots)
    }

    /// Slots of those who have ended become nobody's. Those that they may have used by then are forgotten: `clock` is
    /// read once it is known who has ended.
    pub fn inherit(&mut self, has_ended: impl Fn(Owner) -> bool, clock: impl FnOnce() -> Time) {
        let is_left = |share: &mut OwnerSlots| share.owner != NOBODY && has_ended(share.owner);
        let left: Vec<_> = self.0.extract_if(.., is_left).collect();
        let ended_by = clock();
        for OwnerSlots { costs, slots, .. } in left {
            self.add(NOBODY, &costs, slots.into_iter().filter(|at| *at > ended_by));
        }
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
        owned.add(7, &[1], times(&[9, 5]));
        owned.add(8, &[1], times(&[6]));
        owned.add(7, &[2], times(&[4]));
        assert_eq!(owned.take(&[1], 9, Time(9)), []);
        owned.inherit(|owner| owner == 7, || Time(3));
        owned.inherit(|_| false, || Time(9));
        assert_eq!((owned.of(7, &[1]), owned.of(8, &[1])), (&[][..], &times(&[6])[..]));
        assert_eq!(owned.take(&[1], 1, Time(9)), times(&[5]));
        assert_eq!(owned.take(&[1], 9, Time(9)), times(&[9]));
        assert_eq!(owned.take(&[2], 9, Time(9)), times(&[4]));
    }

    /// Whoever owned them may have ended right after their use.
    #[test]
    fn what_may_have_been_used_is_not_handed_on() {
        let mut owned = OwnedSlots::default();
        owned.add(7, &[1], times(&[5, 6, 7]));
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
        owned.add(7, &[1], times(&[5, 5, 6]));
        assert_eq!(owned.remove(8, &[1], &times(&[5])), []);
        assert_eq!(owned.remove(7, &[2], &times(&[5])), []);
        assert_eq!(owned.remove(7, &[1], &times(&[5, 6, 6, 7])), times(&[5, 6]));
        assert_eq!(owned.of(7, &[1]), times(&[5]));
    }

    #[test]
    fn what_is_past_is_forgotten() {
        let mut owned = OwnedSlots::default();
        owned.add(7, &[1], times(&[5, 6]));
        owned.add(8, &[1], times(&[5]));
        owned.forget(Time(6));
        assert_eq!((owned.of(7, &[1]), owned.0.len()), (&times(&[6])[..], 1));
    }
}
