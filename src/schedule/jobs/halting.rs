//! The number of items that may fail, or are to succeed, before the run ends.

use crate::config::{Halt, HaltOn, Share};

/// Counts the items that completed or failed.
#[derive(Default)]
pub(in crate::schedule) struct Halting {
    halt: Option<Halt>,
    /// Items completed or failed, and those of them that failed.
    ended: u64,
    failed: u64,
    have_succeeded: bool,
}

impl Halting {
    pub(super) fn new(halt: Option<Halt>) -> Self {
        Halting { halt, ..Halting::default() }
    }

    /// Whether it matters how many items there are.
    pub(in crate::schedule) fn counts_all(&self) -> bool {
        self.halt.is_some_and(|halt| matches!(halt.share, Share::Percent(_)))
    }

    /// Whether as many items as were wanted have succeeded: what becomes of the others is of no concern.
    pub(in crate::schedule) fn have_succeeded(&self) -> bool {
        self.have_succeeded
    }

    pub(in crate::schedule) fn counted(&self, on: HaltOn) -> u64 {
        match on {
            HaltOn::Failed => self.failed,
            HaltOn::Succeeded => self.ended - self.failed,
            HaltOn::Done => self.ended,
        }
    }

    /// Counts items of `all`, if that is known. Returns what is to be done if that ends the run.
    pub(in crate::schedule) fn count(
        &mut self,
        items: u64,
        has_failed: bool,
        all: Option<u64>,
    ) -> Option<Halt> {
        self.ended += items;
        self.failed += if has_failed { items } else { 0 };
        let reached = self.halt.filter(|halt| halt.is_reached(has_failed, self.failed, self.ended, all));
        self.have_succeeded |= reached.is_some_and(|halt| halt.on == HaltOn::Succeeded);
        reached
    }
}
