//! Instants that were booked with a store of shared limits, see [`crate::store`].

use std::collections::{HashMap, VecDeque};

use super::{Claim, Verdict};
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
}

impl Booked {
    /// Takes slots that were booked for a key and these costs. Any for other costs are given up.
    pub fn put(&mut self, key: &Key, costs: &[u64], slots: impl IntoIterator<Item = Slot>) {
        let row = self.held.entry(key.clone()).or_default();
        if *row.costs != *costs {
            *row = Row { costs: costs.into(), slots: VecDeque::new() };
        }
        row.slots.extend(slots);
    }

    /// The slots for claims like this, earliest first.
    pub fn slots(&self, claim: &Claim) -> impl DoubleEndedIterator<Item = Slot> {
        let row = self.held.get(key(claim)).filter(|row| *row.costs == *claim.costs);
        row.into_iter().flat_map(|row| row.slots.iter().copied())
    }

    /// How many slots there are, for whatever claims, that are not after `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        let is_due = |slot: &&Slot| slot.at <= at;
        self.held.values().map(|row| row.slots.iter().take_while(is_due).count() as u64).sum()
    }

    /// When the first of them is. What costs nothing needs none.
    pub(super) fn earliest(&self, claim: &Claim) -> Verdict {
        if claim.is_free() {
            return Verdict::At(claim.since);
        }
        self.slots(claim).next().map_or(Verdict::Never, |slot| Verdict::At(slot.at.max(claim.since)))
    }

    /// How many can be used at `now`.
    pub(super) fn room(&self, now: Time, claim: &Claim) -> u64 {
        let is_good = |slot: &Slot| slot.at <= now && now <= slot.until;
        if claim.is_free() { u64::MAX } else { self.slots(claim).take_while(is_good).count() as u64 }
    }

    /// So many have been used.
    pub(super) fn commit(&mut self, claim: &Claim, releases: u64) {
        if let Some(row) = self.held.get_mut(key(claim)).filter(|_| !claim.is_free()) {
            let used = usize::try_from(releases).unwrap_or(usize::MAX).min(row.slots.len());
            row.slots.drain(..used);
            self.forget_empty();
        }
    }

    /// Gives up the slots that were not used in time.
    pub(super) fn expire(&mut self, now: Time) {
        let is_over = |slot: &Slot| slot.until < now;
        if self.held.values().any(|row| row.slots.front().is_some_and(is_over)) {
            self.held.values_mut().for_each(|row| row.slots.retain(|slot| !is_over(slot)));
            self.forget_empty();
        }
    }

    fn forget_empty(&mut self) {
        self.held.retain(|_, row| !row.slots.is_empty());
    }
}

/// Where limits are booked, all go by the same key or none does.
fn key<'a>(claim: &Claim<'a>) -> &'a [u8] {
    claim.keys.first().map_or(&[], |key| key.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(instants: &[(u64, u64)]) -> Vec<Slot> {
        instants.iter().map(|&(at, until)| Slot { at: Time(at), until: Time(until) }).collect()
    }

    fn claim<'a>(since: u64, costs: &'a [u64], keys: &'a [Key]) -> Claim<'a> {
        Claim { since: Time(since), costs, keys }
    }

    #[test]
    fn one_release_goes_in_each_slot_and_not_after_it() {
        let mut booked = Booked::default();
        let ask = claim(3, &[1], &[]);
        assert_eq!(booked.earliest(&ask), Verdict::Never);
        booked.put(&Key::new(), &[1], slots(&[(5, 7), (5, 7), (9, 11)]));
        assert_eq!(booked.earliest(&ask), Verdict::At(Time(5)));
        let rooms = [4, 5, 7, 8].map(|now| booked.room(Time(now), &ask));
        assert_eq!(rooms, [0, 2, 2, 0]);
        booked.commit(&ask, 1);
        booked.expire(Time(7));
        assert_eq!(booked.earliest(&claim(6, &[1], &[])), Verdict::At(Time(6)));
        booked.expire(Time(8));
        assert_eq!(booked.earliest(&ask), Verdict::At(Time(9)));
        booked.commit(&ask, 1);
        assert_eq!((booked.earliest(&ask), booked.held.len()), (Verdict::Never, 0));
    }

    #[test]
    fn a_slot_is_for_the_key_and_the_costs_that_it_was_booked_for() {
        let mut booked = Booked::default();
        let (a, b) = ([Key::from_slice(b"a")], [Key::from_slice(b"b")]);
        booked.put(&a[0], &[1, 2], slots(&[(5, 7)]));
        assert_eq!(booked.earliest(&claim(0, &[1, 2], &a)), Verdict::At(Time(5)));
        assert_eq!(booked.earliest(&claim(0, &[1, 2], &b)), Verdict::Never);
        assert_eq!(booked.earliest(&claim(0, &[2, 2], &a)), Verdict::Never);
        booked.put(&a[0], &[2, 2], slots(&[(8, 9)]));
        assert_eq!(booked.earliest(&claim(0, &[1, 2], &a)), Verdict::Never);
        assert_eq!(booked.earliest(&claim(0, &[2, 2], &a)), Verdict::At(Time(8)));
    }

    #[test]
    fn what_costs_nothing_needs_no_slot() {
        let booked = Booked::default();
        assert_eq!(booked.earliest(&claim(3, &[0, 0], &[])), Verdict::At(Time(3)));
        assert_eq!(booked.room(Time(3), &claim(3, &[0, 0], &[])), u64::MAX);
    }
}
