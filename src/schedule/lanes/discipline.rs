//! The queueing discipline.

use crate::config::{Jitter, OnLimit, Plan};
use crate::source::Items;
use crate::time::Time;

/// The order in which items wait, and the fate of those that cannot go at once.
#[derive(Clone, Copy)]
pub(crate) struct Discipline {
    pub(crate) on_limit: OnLimit,
    /// Nanoseconds that an item waits before it is refused.
    pub(crate) max_wait: Option<u64>,
    /// By how much releases are delayed.
    pub(crate) jitter: Option<Jitter>,
    /// In the order of the input, whatever their keys: an item that backs off keeps its place.
    pub(crate) in_order: bool,
    /// The most items that wait.
    pub(super) lookahead: u64,
}

impl Discipline {
    pub(super) fn of(plan: &Plan) -> Self {
        Discipline {
            on_limit: plan.queue.on_limit,
            max_wait: plan.wait_of_each(),
            jitter: plan.queue.jitter,
            in_order: plan.queue.in_order,
            lookahead: plan.queue.lookahead.get(),
        }
    }

    /// False if no item waits for a slot to come, where slots are needed.
    pub(crate) fn waits(&self) -> bool {
        !self.on_limit.never_waits() || self.max_wait.is_some()
    }

    /// True of an item that goes as of its arrival or not at all. A retry did go, and waits.
    pub(crate) fn judges(&self, front: &Items) -> bool {
        !self.waits() && front.segment.attempt() == 1
    }

    /// Until when what is sent for the first time may wait, if it may not wait for ever.
    pub(crate) fn deadline(&self, front: &Items) -> Option<Time> {
        let wait = self.max_wait.filter(|_| front.segment.attempt() == 1)?;
        front.segment.arrival().checked_add(wait.into())
    }
}
