//! The order of the lanes: those that wait, and those that are ready.

use std::collections::{BTreeMap, BTreeSet};

use crate::gate::{Gate, Kind, Opening, Scope};
use crate::time::Time;

/// The number of the front item of a lane, or of what that has replaced, and the lane. Sorts in input order.
pub(super) type Position = (u64, usize);

/// Where to find a lane that is neither empty nor passed over.
pub(super) type Placed = (Position, Place);

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The limits by key do not admit its front before this.
    Waiting(Time),
    /// Only the common limits may hold it back, as far as is known.
    Ready(Kind),
}

/// An answer of the gate. It stands until the gate's version changes or the opening ends. A lane whose request changes
/// is placed anew, which replaces its answers.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) opening: Opening,
    version: u64,
}

impl Default for Kept {
    /// An answer that does not stand.
    fn default() -> Self {
        Kept { opening: Opening::NEVER, version: u64::MAX }
    }
}

impl Kept {
    /// An answer that the gate has just given.
    pub(super) fn new(opening: Opening, gate: &Gate, scope: Scope) -> Self {
        Kept { opening, version: gate.version(scope) }
    }

    pub(super) fn stands(self, gate: &Gate, scope: Scope, now: Time) -> bool {
        self.version == gate.version(scope) && !self.opening.is_over(now)
    }
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
    /// The lanes that wait or are ready, in input order, if tracked.
    pub(super) fronts: Option<BTreeSet<Position>>,
    pub(super) waiting: BTreeSet<(Time, Position)>,
    pub(super) ready: BTreeMap<Kind, Group>,
}

impl Turns {
    /// Removes all lanes.
    pub(super) fn clear(&mut self) {
        let fronts = self.fronts.take().map(|_| BTreeSet::new());
        *self = Turns { fronts, ..Turns::default() };
    }

    /// Moves a lane from one place to another.
    pub(super) fn replace(&mut self, before: Option<Placed>, after: Option<&Placed>) {
        if before.as_ref() == after {
            return;
        }
        if let Some(fronts) = &mut self.fronts {
            before.iter().for_each(|(position, _)| _ = fronts.remove(position));
            fronts.extend(after.map(|(position, _)| *position));
        }
        // First the new place, as the last lane of a group takes its answer along. Of one kind, the answer is kept.
        match after {
            Some((position, Place::Waiting(bound))) => _ = self.waiting.insert((*bound, *position)),
            Some((position, Place::Ready(kind))) => match self.ready.get_mut(kind) {
                Some(group) => _ = group.positions.insert(*position),
                None => _ = self.ready.entry(kind.clone()).or_default().positions.insert(*position),
            },
            None => {}
        }
        match before {
            Some((position, Place::Waiting(bound))) => _ = self.waiting.remove(&(bound, position)),
            Some((position, Place::Ready(kind))) => {
                let is_last =
                    |group: &mut Group| group.positions.remove(&position) && group.positions.is_empty();
                if self.ready.get_mut(&kind).is_some_and(is_last)
                    && (self.ready.len() > 1 || kind.0.is_empty())
                {
                    self.ready.remove(&kind);
                }
            }
            None => {}
        }
    }
}
