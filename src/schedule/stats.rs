//! Counters of a run.

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
    /// Retries, each counted by its items.
    pub retried: u64,
    /// Items whose command failed, or could not be given them.
    pub failed: u64,
    /// Commands whose output was not printed, or not completely.
    pub unprinted: u64,
    /// Items that need not be released any more, unless their command fails and is tried again.
    pub settled: u64,
    /// Bytes of the items that are done with, with delimiters, but for refused ones.
    pub bytes: u64,
    /// Its start, and the time that passed with nothing done.
    pub times: Times,
    /// The most items that left within one second of the run.
    pub busiest: u64,
}

/// Instants of a run, and the time in which it did nothing. Spans are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// The start of the run.
    pub started: Time,
    /// The instant at which the last items left.
    pub last: Time,
    /// Time in which items waited that the sink could have taken.
    pub waited: u64,
    /// Time in which the process was stopped, as far as that made it late.
    pub stopped: u64,
}

impl Stats {
    /// Nothing yet, at `started`.
    pub fn new(started: Time) -> Self {
        Stats { times: Times { started, ..Times::default() }, ..Stats::default() }
    }

    /// Nanoseconds from the start to `now`, without the time that the process was stopped.
    pub fn elapsed(&self, now: Time) -> u64 {
        now.since(self.times.started).saturating_sub(self.times.stopped)
    }

    /// Items that were read and not released, or are to be released again.
    pub fn left(&self) -> u64 {
        self.read.saturating_sub(self.settled + self.skipped)
    }
}
