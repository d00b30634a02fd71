//! The lanes, by their keys.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

use foldhash::fast::RandomState;

use super::lane::Lane;
use super::turns::{Kept, Placed};
use crate::charge::Key;
use crate::source::Items;
use crate::time::Time;

/// The number of idle lanes that keep their buffers.
const FEW_LANES: usize = 64;

/// A lane, and what is known about it.
#[derive(Default)]
pub(super) struct NamedLane {
    pub(super) name: Rc<[Key]>,
    pub(super) lane: Lane,
    /// The answer of the limits by key.
    pub(super) kept: Kept,
    /// The answer of all limits.
    pub(super) whole: Cell<Kept>,
    /// True if something admitted is not charged yet, so its answers are out of date.
    pub(super) is_uncharged: bool,
    /// Where to find it, unless it is empty or passed over.
    pub(super) place: Option<Placed>,
    /// The number of its first item that was never sent, if each has a deadline.
    pub(super) fresh: Option<u64>,
}

/// All lanes. Those that have long been empty are reused.
#[derive(Default)]
pub(super) struct Directory {
    pub(super) entries: Vec<NamedLane>,
    free: Vec<usize>,
    names: HashMap<Rc<[Key]>, usize, RandomState>,
    /// Lanes that became empty, and when, or until when they are held. The last release of such a lane and its hold
    /// matter until an item arrives after them.
    emptied: BinaryHeap<Reverse<(Time, usize)>>,
    /// New lanes are held until this instant.
    held_until: Time,
}

impl Directory {
    pub(super) fn get(&self, name: &[Key]) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The lane of this name, opened if there is none.
    pub(super) fn get_or_open(&mut self, name: &Rc<[Key]>) -> usize {
        if let Some(&at) = self.names.get(name) {
            return at;
        }
        let mut entry = NamedLane { name: Rc::clone(name), ..NamedLane::default() };
        entry.lane.hold = self.held_until;
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(NamedLane::default());
            self.entries.len() - 1
        });
        self.entries[at] = entry;
        self.names.insert(Rc::clone(name), at);
        at
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.entries.iter().map(|entry| &entry.lane)
    }

    /// Takes out all that waits, as of `now`. The lanes stay as long as their last releases matter.
    pub(super) fn take_all(&mut self, now: Time) -> Vec<Items> {
        let mut waiting = Vec::new();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            (entry.kept, entry.place, entry.fresh) = (Kept::default(), None, None);
            if entry.lane.front().is_some() {
                waiting.append(&mut entry.lane.clear());
                self.emptied.push(Reverse((now, at)));
            }
        }
        waiting
    }

    /// Forgets all lanes, which are empty, as their keys change their meaning: all are held until the end of the last
    /// hold.
    pub(super) fn forget_keys(&mut self) {
        let held_until = self.lanes().map(|lane| lane.hold).fold(self.held_until, Time::max);
        *self = Directory { held_until, ..Directory::default() };
    }

    /// Notes that a lane has become empty. `remember`: the instant of its last release matters.
    pub(super) fn empty(&mut self, at: usize, now: Time, remember: bool) {
        let are_many = self.names.len() > FEW_LANES;
        let end_of_hold = self.entries[at].lane.hold;
        if are_many && !remember && end_of_hold <= now {
            return self.forget(at);
        }
        if are_many {
            // Frees its buffers: most lanes only ever hold one item.
            self.entries[at].lane.clear();
        }
        self.emptied.push(Reverse((now.max(end_of_hold), at)));
    }

    /// Forgets the empty lanes whose last release was not later than `arrival`.
    pub(super) fn forget_emptied(&mut self, arrival: Time) {
        while let Some(&Reverse((_, at))) = self.emptied.peek().filter(|emptied| emptied.0.0 <= arrival) {
            self.emptied.pop();
            let lane = &self.entries[at].lane;
            match lane.previous.max(lane.hold) {
                // In use: noted again when it becomes empty.
                _ if lane.front().is_some() => {}
                until if until <= arrival => self.forget(at),
                until => self.emptied.push(Reverse((until, at))),
            }
        }
    }

    fn forget(&mut self, at: usize) {
        if self.names.remove(&self.entries[at].name).is_some() {
            self.entries[at] = NamedLane::default();
            self.free.push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &mut Directory, number: u64) -> usize {
        let name: Rc<[Key]> = [Key::from_slice(&number.to_le_bytes())].into();
        directory.get_or_open(&name)
    }

    /// A directory of `count` lanes that became empty at 5.
    fn emptied(count: u64, remember: bool) -> Directory {
        let mut directory = Directory::default();
        let lanes: Vec<_> = (0..count).map(|number| open(&mut directory, number)).collect();
        lanes.into_iter().for_each(|at| directory.empty(at, Time(5), remember));
        directory
    }

    #[test]
    fn few_lanes_are_kept_for_keys_that_have_nothing_waiting() {
        assert_eq!(emptied(10, false).names.len(), 10);
        let mut directory = emptied(200, false);
        assert_eq!((directory.names.len(), directory.free.len()), (FEW_LANES, 200 - FEW_LANES));
        // One that is held is not among those that are forgotten.
        for (hold, is_kept) in [(5, false), (6, true)] {
            let at = open(&mut directory, 300);
            directory.entries[at].lane.hold = Time(hold);
            directory.empty(at, Time(5), false);
            assert_eq!(directory.names.len() > FEW_LANES, is_kept, "{hold}");
        }
    }

    #[test]
    fn a_hold_is_kept_until_one_arrives_after_it() {
        let mut directory = Directory::default();
        for now in 0..10_000u64 {
            let at = open(&mut directory, now);
            directory.entries[at].lane.hold = Time(now + 20);
            directory.empty(at, Time(now), false);
            directory.forget_emptied(Time(now));
            for number in [0, 1, 19, 20].map(|ago| now.saturating_sub(ago)) {
                let held = directory.get(&[Key::from_slice(&number.to_le_bytes())]);
                assert_eq!(held.is_some(), number + 20 > now, "{now} {number}");
            }
            assert!(directory.names.len() <= 20 && directory.entries.len() <= 21);
        }
        directory.forget_keys();
        let at = open(&mut directory, 1);
        assert_eq!((directory.entries.len(), directory.entries[at].lane.hold), (1, Time(10_019)));
    }

    #[test]
    fn a_lane_whose_last_release_matters_is_kept_until_one_arrives_after_that() {
        let mut directory = emptied(200, true);
        directory.forget_emptied(Time(4));
        assert_eq!(directory.names.len(), 200);
        // Its last release was over later than it was admitted.
        directory.entries[7].lane.previous = Time(6);
        directory.forget_emptied(Time(5));
        assert_eq!((directory.names.len(), directory.free.len()), (1, 199));
        assert_eq!((open(&mut directory, 300), directory.entries.len()), (199, 200));
        directory.forget_emptied(Time(6));
        assert_eq!(directory.get(&[Key::from_slice(&7u64.to_le_bytes())]), None);
    }
}
