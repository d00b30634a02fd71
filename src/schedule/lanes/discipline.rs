//! How items wait, and what happens to those that do not.

use crate::config::{Jitter, OnLimit, Plan};
use crate::source::Items;

/// How items wait, and what happens to those that cannot go at once.
#[derive(Clone, Copy)]
pub(in crate::schedule) struct Discipline {
    pub(in crate::schedule) on_limit: OnLimit,
    /// For how many nanoseconds an item waits that is refused otherwise.
    pub(in crate::schedule) max_wait: Option<u64>,
    /// By how much releases are delayed.
    pub(in crate::schedule) jitter: Option<Jitter>,
    /// In the order of the input, whatever their keys: an item that backs off keeps its place.
    pub(in crate::schedule) in_order: bool,
    /// The most items that wait.
    pub(super) lookahead: u64,
}

impl Discipline {
    pub(super) fn of(plan: &Plan) -> Self {
        Discipline {
            on_limit: plan.on_limit,
            max_wait: plan.wait_of_each(),
            jitter: plan.queue.jitter,
            in_order: plan.queue.in_order,
            lookahead: plan.queue.lookahead.get(),
        }
    }

    /// Whether some items wait for a slot to come, if slots are needed.
    pub(in crate::schedule) fn waits(&self) -> bool {
        !self.on_limit.never_waits() || self.max_wait.is_some()
    }

    /// Whether an item goes as of its arrival or not at all. What is tried again did go, and waits.
    pub(in crate::schedule) fn judges(&self, front: &Items) -> bool {
        !self.waits() && front.segment.attempt() == 1
    }
}
