//! The place of each lane among those that wait.

use std::collections::{BTreeMap, BTreeSet};

use super::kept::Kept;
use crate::gate::Kind;
use crate::time::Time;

/// The number of the front item of a lane, or of what that has replaced, and the lane. Sorts in input order.
pub(super) type Position = (u64, usize);

/// Where to find a lane that is neither empty nor passed over.
#[derive(Clone)]
pub(super) enum Place {
    /// The limits by key do not admit its front before this.
    Waiting(Time),
    /// Only the common limits may hold it back.
    Ready(Kind),
}

/// Ready lanes that get the same answer from the common limits.
#[derive(Default)]
pub(super) struct Group {
    pub(super) positions: BTreeSet<Position>,
    pub(super) kept: Kept,
}

/// The lanes, in the order of their turns.
#[derive(Default)]
pub(super) struct Turns {
    places: Vec<Option<(Position, Place)>>,
    /// The lanes that wait or are ready, in input order, if tracked.
    pub(super) fronts: Option<BTreeSet<Position>>,
    pub(super) waiting: BTreeSet<(Time, Position)>,
    pub(super) ready: BTreeMap<Kind, Group>,
    /// The answer of the whole gate to the only waiting lane.
    pub(super) whole: Kept,
    /// Changes with every place.
    pub(super) revision: u64,
}

impl Turns {
    /// The lanes whose fronts have smaller numbers than `before`; `None` if that bounds nothing.
    pub(super) fn before(&self, before: u64) -> Option<impl Iterator<Item = &Position>> {
        let fronts = self.fronts.iter().flat_map(move |fronts| fronts.range(..(before, 0)));
        (before < u64::MAX).then_some(fronts)
    }

    /// Removes all lanes.
    pub(super) fn clear(&mut self) {
        let fronts = self.fronts.take().map(|_| BTreeSet::new());
        *self = Turns { fronts, revision: self.revision + 1, ..Turns::default() };
    }

    /// Sets the place of a lane that has none.
    pub(super) fn set(&mut self, at: usize, position: Position, place: Place) {
        self.revision += 1;
        self.fronts.iter_mut().for_each(|fronts| _ = fronts.insert(position));
        match &place {
            Place::Waiting(verdict) => _ = self.waiting.insert((*verdict, position)),
            Place::Ready(kind) => _ = self.ready.entry(kind.clone()).or_default().positions.insert(position),
        }
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        self.places[at] = Some((position, place));
    }

    /// Takes a lane out of its place.
    pub(super) fn take(&mut self, at: usize) {
        self.whole = Kept::default();
        let Some((position, place)) = self.places.get_mut(at).and_then(Option::take) else { return };
        self.fronts.iter_mut().for_each(|fronts| _ = fronts.remove(&position));
        match &place {
            Place::Waiting(verdict) => _ = self.waiting.remove(&(*verdict, position)),
            Place::Ready(kind) => {
                let group = self.ready.get_mut(kind);
                if group.is_some_and(|group| group.positions.remove(&position) && group.positions.is_empty())
                {
                    self.ready.remove(kind);
                }
            }
        }
    }

    /// Moves a lane on to its `next` items, which get the same answers. Returns false if it has no place.
    pub(super) fn advance(&mut self, at: usize, next: Position) -> bool {
        let Some(Some((position, place))) = self.places.get_mut(at) else { return false };
        self.revision += 1;
        let last = std::mem::replace(position, next);
        let positions = match place {
            Place::Waiting(verdict) => {
                self.waiting.remove(&(*verdict, last));
                self.waiting.insert((*verdict, next));
                None
            }
            Place::Ready(kind) => self.ready.get_mut(kind).map(|group| &mut group.positions),
        };
        for positions in positions.into_iter().chain(&mut self.fronts) {
            positions.remove(&last);
            positions.insert(next);
        }
        true
    }
}
