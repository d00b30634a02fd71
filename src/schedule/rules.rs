//! The limits, and what determines how they are asked.

use super::batch::Batcher;
use super::lane::Lane;
use crate::config::{Jitter, OnLimit};
use crate::gate::{Gate, Request};
use crate::source::Items;

/// The limits, how releases are formed, and what happens to items that cannot go at once.
pub(super) struct Rules {
    pub(super) gate: Box<dyn Gate>,
    pub(super) batcher: Batcher,
    pub(super) on_limit: OnLimit,
    /// For how many nanoseconds an item waits that is refused otherwise.
    pub(super) max_wait: Option<u64>,
    /// By how much releases are delayed.
    pub(super) jitter: Option<Jitter>,
}

impl Rules {
    /// Whether answers may depend on when an item became next in line, so that lanes that are empty are remembered for a
    /// while.
    pub(super) fn depends_on_since(&self) -> bool {
        self.gate.depends_on_since() || self.on_limit != OnLimit::Wait
    }

    /// Whether an item goes as of its arrival or not at all. What is tried again did go, and waits.
    pub(super) fn judges(&self, front: &Items) -> bool {
        self.on_limit.never_waits() && self.max_wait.is_none() && front.segment.attempt() == 1
    }

    /// Hands on what a lane would release next, and whether that is judged instead of made to wait.
    pub(super) fn with_request<T>(&self, lane: &Lane, f: impl FnOnce(bool, &Request) -> T) -> Option<T> {
        let ((front, open), since) = lane.front().zip(lane.open()).zip(lane.since())?;
        let is_judged = self.judges(front);
        // What never waits is judged as of the end of its delay.
        let since = if is_judged { since.max(lane.delayed_until()) } else { since };
        Some(f(is_judged, &Request { since, costs: &open.costs, keys: &front.charge.keys }))
    }
}
