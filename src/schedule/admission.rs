//! What may leave now, as a value: it is moved out to be sent, and comes back with how much of it has left.

use std::rc::Rc;

use crate::charge::Key;
use crate::gate::{Charges, Request};
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

/// A request that is kept for as long as its command runs.
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    /// When its first item became next in line.
    pub since: Time,
    /// What it costs each limit.
    pub costs: Rc<[u64]>,
    /// The keys that limits go by.
    pub keys: Rc<[Key]>,
}

impl OwnedRequest {
    pub(super) fn request(&self) -> Request<'_> {
        Request { since: self.since, costs: &self.costs, keys: &self.keys }
    }
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
