//! What a run has done.

use crate::time::{SECOND, Time};

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
    /// Commands whose output was not printed, or not completely.
    pub unprinted: u64,
    /// Items that need not be released any more, unless their command fails and is tried again.
    pub settled: u64,
    /// Bytes of the items that are done with, with delimiters, but for refused ones.
    pub bytes: u64,
    /// For how long, in nanoseconds, items waited that the sink could have taken.
    pub waited: u64,
    /// For how long the process was stopped, as far as that made it late.
    pub stopped: u64,
    /// When the last items left.
    pub last: Time,
    /// The second of the run in which they did, and how many left within it.
    pub second: (u64, u64),
    /// The most items that left within one second of the run.
    pub busiest: u64,
}

impl Stats {
    /// Nothing yet, at `started`.
    pub fn new(started: Time) -> Self {
        Stats { started, ..Stats::default() }
    }

    /// Counts items that have left by `now`.
    pub(crate) fn leave(&mut self, now: Time, items: u64) {
        let second = now.since(self.started) / SECOND;
        let before = if self.second.0 == second { self.second.1 } else { 0 };
        self.second = (second, before + items);
        self.busiest = self.busiest.max(before + items);
        self.last = now;
    }

    /// How long the run has gone on by `now`, in nanoseconds, without the time that it was stopped.
    pub fn elapsed(&self, now: Time) -> u64 {
        now.since(self.started).saturating_sub(self.stopped)
    }

    /// Counts items that are refused.
    pub(crate) fn refuse(&mut self, items: u64) {
        self.refused += items;
        self.settled += items;
    }

    /// Items that were read and not released, or are to be released again.
    pub fn left(&self) -> u64 {
        self.read.saturating_sub(self.settled + self.skipped)
    }
}
