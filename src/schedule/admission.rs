//! The admission is a value: it is moved out to be sent, and comes back with the number of items that have left.

use crate::gate::{Charges, OwnedRequest};
use crate::source::Batch;
use crate::time::Time;

/// Items that may leave at an instant, and what that is going to be charged.
#[derive(Debug, Default)]
pub struct Admission {
    pub(super) batch: Batch,
    pub(super) charges: Charges,
    /// The lanes that the items came from.
    pub(super) lanes: Vec<usize>,
    /// The lanes that might release more, were it not for what is admitted already.
    pub(super) deferred: Vec<usize>,
    /// The instant that was checked.
    pub(super) checked: Time,
    /// The requests of the releases, each with their number, if they matter after that.
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

    /// Empties it, to be filled again.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.lanes.clear();
        self.deferred.clear();
        self.asked.clear();
    }
}
