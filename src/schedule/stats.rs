//! What a run has done.

use crate::time::Time;

/// Counters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// When the run started.
    pub started: Time,
    /// Items read.
    pub read: u64,
    /// Items released.
    pub released: u64,
    /// Items refused: they could not go at their arrival, or gave way to a newer one.
    pub refused: u64,
    /// Items passed over, since they had been completed before.
    pub skipped: u64,
    /// How often items were tried again.
    pub retried: u64,
    /// Items whose command failed, or could not be given them.
    pub failed: u64,
    /// Items that need not be released any more.
    pub settled: u64,
    /// Bytes of the items that are done with, with delimiters.
    pub bytes: u64,
}

impl Stats {
    /// Nothing yet, at `started`.
    pub fn new(started: Time) -> Self {
        Stats { started, ..Stats::default() }
    }

    /// Counts items that are refused.
    pub(crate) fn refuse(&mut self, items: u64) {
        self.refused += items;
        self.settled += items;
    }

    /// Items that were read and not released.
    pub fn left(&self) -> u64 {
        self.read.saturating_sub(self.settled + self.skipped)
    }
}
