//! The queueing discipline: order, and what happens to items that cannot go at once.

use crate::config::{Jitter, OnLimit, Plan};
use crate::source::Items;
use crate::time::Time;

/// The order in which items wait, and what happens to those that cannot go at once.
#[derive(Clone, Copy)]
pub(crate) struct Discipline {
    pub(crate) on_limit: OnLimit,
    /// The nanoseconds that an item waits before it is refused.
    pub(crate) max_wait: Option<u64>,
    /// The random delay of releases.
    pub(crate) jitter: Option<Jitter>,
    /// True if items go in input order whatever their keys, so one that backs off keeps its place.
    pub(crate) in_order: bool,
    /// The most items that may wait.
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

    /// False if no item may wait for its first release.
    pub(crate) fn waits(&self) -> bool {
        !self.on_limit.never_waits() || self.max_wait.is_some()
    }

    /// True of an item that goes at its arrival or not at all. A retry may wait.
    pub(crate) fn judges(&self, front: &Items) -> bool {
        !self.waits() && front.segment.attempt() == 1
    }

    /// The deadline of an item that is sent for the first time, if it has one.
    pub(crate) fn deadline(&self, front: &Items) -> Option<Time> {
        let wait = self.max_wait.filter(|_| front.segment.attempt() == 1)?;
        front.segment.arrival().checked_add(wait.into())
    }
}
