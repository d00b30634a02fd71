//! The admission, a value: it is moved out to be sent, and comes back with the number of items that have left.

use crate::charge::Charge;
use crate::gate::Pending;
use crate::source::{Batch, Segments};
use crate::time::Time;

/// Items that may leave at an instant, and what they will be charged.
#[derive(Debug, Default)]
pub struct Admission {
    pub(super) batch: Batch,
    pub(super) pending: Pending,
    /// The lanes that the items came from.
    pub(super) lanes: Vec<usize>,
    /// The lanes that might release more but for what is already admitted.
    pub(super) deferred: Vec<usize>,
    /// The instant that was checked.
    pub(super) checked: Time,
    /// What was admitted; only if it is needed afterwards.
    pub(super) asked: Vec<AlikeReleases>,
}

/// Releases that are charged alike.
#[derive(Debug)]
pub(super) struct AlikeReleases {
    pub(super) releases: u64,
    pub(super) charge: Charge,
    pub(super) eligible_at: Time,
    /// When their first item became next in line, even if it was held then.
    pub(super) waited_from: Time,
}

impl Admission {
    /// The items.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The last instant at which it may be sent, if it needs slots.
    pub fn good_until(&self) -> Option<Time> {
        self.pending.good_until()
    }

    /// Adds items of a lane, all of them as one release or each as its own.
    pub(super) fn add(&mut self, lane: usize, segments: Segments, are_one: bool) {
        self.lanes.push(lane);
        match are_one {
            true => self.batch.push_release(segments),
            false => segments.into_iter().for_each(|segment| self.batch.push(segment)),
        }
    }

    /// Empties it for reuse.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.lanes.clear();
        self.deferred.clear();
        self.asked.clear();
    }
}
