//! What may leave now, as a value: it is moved out to be sent, and comes back with how much of it has left.

use crate::gate::{Charges, OwnedRequest};
use crate::source::{Batch, Delimiter, Segment, Segments};
use crate::time::Time;

/// Items that may leave at an instant, and what that is going to be charged.
#[derive(Debug, Default)]
pub struct Admission {
    batch: Batch,
    pub(super) charges: Charges,
    /// The lanes that the items came from.
    pub(super) lanes: Vec<usize>,
    /// The lanes that might release more, were it not for what is admitted already.
    pub(super) deferred: Vec<usize>,
    /// The instant that was checked.
    pub(super) checked: Time,
    /// What was asked for the releases, if anybody wants to know, each with their number.
    pub(super) asked: Vec<(u64, OwnedRequest)>,
}

impl Admission {
    /// The items.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The instant until which it may be sent, if it needs slots.
    pub fn good_until(&self) -> Option<Time> {
        self.charges.good_until()
    }

    /// Adds items, each of which is a release.
    pub(super) fn push(&mut self, segment: Segment) {
        self.batch.push(segment);
    }

    /// Adds items of a lane: one release together, or one each.
    pub(super) fn add(&mut self, lane: usize, segments: Segments, together: bool) {
        self.lanes.push(lane);
        match together {
            true => self.batch.push_release(segments),
            false => segments.into_iter().for_each(|segment| self.batch.push(segment)),
        }
    }

    /// Takes out the first `items`, and the others.
    pub(super) fn split(&mut self, items: u64, delimiter: &Delimiter) -> (Vec<Segment>, Vec<Segment>) {
        (self.batch.take(items, delimiter), self.batch.segments().to_vec())
    }

    /// Empties it, to be filled again.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.lanes.clear();
        self.deferred.clear();
        self.asked.clear();
    }
}
