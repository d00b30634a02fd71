//! What a run has done.

use crate::time::Time;

/// Counters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
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
    /// When it began, and what passed with nothing done.
    pub times: Times,
    /// The most items that left within one second of the run.
    pub busiest: u64,
}

/// When a run did something, and for how long it did not. Spans are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// When the run started.
    pub started: Time,
    /// When the last items left.
    pub last: Time,
    /// For how long items waited that the sink could have taken.
    pub waited: u64,
    /// For how long the process was stopped, as far as that made it late.
    pub stopped: u64,
}

impl Stats {
    /// Nothing yet, at `started`.
    pub fn new(started: Time) -> Self {
        Stats { times: Times { started, ..Times::default() }, ..Stats::default() }
    }

    /// How long the run has gone on by `now`, in nanoseconds, without the time that it was stopped.
    pub fn elapsed(&self, now: Time) -> u64 {
        now.since(self.times.started).saturating_sub(self.times.stopped)
    }

    /// Items that were read and not released, or are to be released again.
    pub fn left(&self) -> u64 {
        self.read.saturating_sub(self.settled + self.skipped)
    }
}
