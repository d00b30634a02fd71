//! Whose turn it is: where each lane stands among those that wait.

use std::collections::{BTreeMap, BTreeSet};

use super::kept::Kept;
use crate::gate::Kind;
use crate::rule::Verdict;

/// The number of the item in front of a lane, and the lane. The order is that of the input.
pub(super) type Position = (u64, usize);

/// Where a lane is to be found.
#[derive(Clone, Default)]
pub(super) enum Place {
    /// It is empty, or passed over.
    #[default]
    Out,
    /// Until the limits that go by key admit its front.
    Waiting(Verdict, Position),
    /// Only the common limits may hold it back.
    Ready(Kind, Position),
}

impl Place {
    /// The same place at another position.
    pub(super) fn moved(self, position: Position) -> Place {
        match self {
            Place::Out => Place::Out,
            Place::Waiting(verdict, _) => Place::Waiting(verdict, position),
            Place::Ready(kind, _) => Place::Ready(kind, position),
        }
    }

    fn position(&self) -> Option<Position> {
        match self {
            Place::Out => None,
            Place::Waiting(_, position) | Place::Ready(_, position) => Some(*position),
        }
    }
}

/// Ready lanes with the same answer of the common limits.
#[derive(Default)]
pub(super) struct Group {
    pub(super) positions: BTreeSet<Position>,
    pub(super) kept: Kept,
}

/// The lanes in the order of their turns.
#[derive(Default)]
pub(super) struct Turns {
    places: Vec<Place>,
    /// The lanes that wait or are ready, in the order of the input, if that is asked for.
    fronts: Option<BTreeSet<Position>>,
    pub(super) waiting: BTreeSet<(Verdict, Position)>,
    pub(super) ready: BTreeMap<Kind, Group>,
    /// What the whole gate answers to the only lane that waits.
    pub(super) whole: Kept,
}

impl Turns {
    /// Has the first of all items that wait at hand.
    pub(super) fn track_fronts(&mut self) {
        self.fronts.get_or_insert_default();
    }

    /// The same with no lanes.
    pub(super) fn emptied(&self) -> Turns {
        Turns { fronts: self.fronts.as_ref().map(|_| BTreeSet::new()), ..Turns::default() }
    }

    /// The lanes that wait or are ready, in the order of the input, if fronts are tracked.
    pub(super) fn fronts(&self) -> Option<&BTreeSet<Position>> {
        self.fronts.as_ref()
    }

    pub(super) fn is_out(&self, at: usize) -> bool {
        matches!(self.places.get(at), None | Some(Place::Out))
    }

    /// A lane that is out has this place from now on.
    pub(super) fn set(&mut self, at: usize, place: Place) {
        self.fronts.iter_mut().for_each(|fronts| fronts.extend(place.position()));
        match &place {
            Place::Out => {}
            Place::Waiting(verdict, position) => _ = self.waiting.insert((*verdict, *position)),
            Place::Ready(kind, position) => {
                self.ready.entry(kind.clone()).or_default().positions.insert(*position);
            }
        }
        if self.places.len() <= at {
            self.places.resize(at + 1, Place::Out);
        }
        self.places[at] = place;
    }

    /// Takes a lane out of its place.
    pub(super) fn take(&mut self, at: usize) -> Place {
        self.whole = Kept::default();
        let place = self.places.get_mut(at).map(std::mem::take).unwrap_or_default();
        if let Some((fronts, position)) = self.fronts.as_mut().zip(place.position()) {
            fronts.remove(&position);
        }
        match &place {
            Place::Out => {}
            Place::Waiting(verdict, position) => _ = self.waiting.remove(&(*verdict, *position)),
            Place::Ready(kind, position) => {
                let group = self.ready.get_mut(kind);
                if group.is_some_and(|group| group.positions.remove(position) && group.positions.is_empty()) {
                    self.ready.remove(kind);
                }
            }
        }
        place
    }

    /// What the common limits answer to what is like a lane.
    pub(super) fn group_of(&self, at: usize) -> Kept {
        match self.places.get(at) {
            Some(Place::Ready(kind, _)) => self.ready.get(kind).map_or(Kept::default(), |group| group.kept),
            None | Some(Place::Out | Place::Waiting(..)) => Kept::default(),
        }
    }
}
