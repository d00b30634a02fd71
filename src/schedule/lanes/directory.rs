//! The lanes, by their keys.

use std::collections::{HashMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::rc::Rc;

use foldhash::fast::RandomState;

use super::kept::Kept;
use super::lane::Lane;
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
    /// True if something admitted is not charged yet, so its answers are out of date.
    pub(super) is_uncharged: bool,
}

/// All lanes. Those that have long been empty are reused.
#[derive(Default)]
pub(super) struct Directory {
    entries: Vec<NamedLane>,
    free: Vec<usize>,
    names: HashMap<Rc<[Key]>, usize, RandomState>,
    /// Lanes that became empty, and when. The last release of such a lane matters until an item arrives after it.
    emptied: VecDeque<(Time, usize)>,
}

impl Directory {
    pub(super) fn get(&self, name: &[Key]) -> Option<usize> {
        if self.names.is_empty() { None } else { self.names.get(name).copied() }
    }

    /// The lane of this name; if there is none, a new one that is held until `held`.
    pub(super) fn get_or_open(&mut self, name: &Rc<[Key]>, held: impl FnOnce() -> Time) -> usize {
        if let Some(&at) = self.names.get(name) {
            return at;
        }
        let mut entry = NamedLane { name: Rc::clone(name), ..NamedLane::default() };
        entry.lane.hold = held();
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(NamedLane::default());
            self.entries.len() - 1
        });
        self.entries[at] = entry;
        self.names.insert(Rc::clone(name), at);
        at
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.entries.iter().map(|entry| &entry.lane)
    }

    /// Takes out all that waits, as of `now`. The lanes stay as long as their last releases matter.
    pub(super) fn take_all(&mut self, now: Time) -> Vec<Items> {
        let mut waiting = Vec::new();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            entry.kept = Kept::default();
            if entry.lane.front().is_some() {
                waiting.append(&mut entry.lane.clear());
                self.emptied.push_back((now, at));
            }
        }
        waiting
    }

    /// Notes that a lane has become empty. `remember`: the instant of its last release matters.
    pub(super) fn empty(&mut self, at: usize, now: Time, remember: bool) {
        let are_many = self.names.len() > FEW_LANES;
        if are_many && !remember {
            return self.forget(at);
        }
        if are_many {
            // Frees its buffers: most lanes only ever hold one item.
            self.entries[at].lane.clear();
        }
        self.emptied.push_back((now, at));
    }

    /// Forgets the empty lanes whose last release was not later than `arrival`.
    pub(super) fn forget_emptied(&mut self, arrival: Time) {
        while let Some(&(_, at)) = self.emptied.front().filter(|(since, _)| *since <= arrival) {
            self.emptied.pop_front();
            let lane = &self.entries[at].lane;
            match lane.front() {
                // In use: noted again when it becomes empty.
                Some(_) => {}
                None if lane.previous <= arrival => self.forget(at),
                None => self.emptied.push_back((lane.previous, at)),
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

impl Index<usize> for Directory {
    type Output = NamedLane;

    fn index(&self, at: usize) -> &NamedLane {
        &self.entries[at]
    }
}

impl IndexMut<usize> for Directory {
    fn index_mut(&mut self, at: usize) -> &mut NamedLane {
        &mut self.entries[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &mut Directory, number: u64) -> usize {
        let name: Rc<[Key]> = [Key::from_slice(&number.to_le_bytes())].into();
        directory.get_or_open(&name, || Time::ZERO)
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
        let directory = emptied(200, false);
        assert_eq!((directory.names.len(), directory.free.len()), (FEW_LANES, 200 - FEW_LANES));
    }

    #[test]
    fn a_lane_whose_last_release_matters_is_kept_until_one_arrives_after_that() {
        let mut directory = emptied(200, true);
        directory.forget_emptied(Time(4));
        assert_eq!(directory.names.len(), 200);
        // Its last release was over later than it was admitted.
        directory[7].lane.released(Time(6));
        directory.forget_emptied(Time(5));
        assert_eq!((directory.names.len(), directory.free.len()), (1, 199));
        assert_eq!((open(&mut directory, 300), directory.len()), (199, 200));
        directory.forget_emptied(Time(6));
        assert_eq!(directory.get(&[Key::from_slice(&7u64.to_le_bytes())]), None);
    }
}
