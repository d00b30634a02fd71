//! The counters of a run.

use crate::time::Time;

/// The counters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Items read.
    pub read: u64,
    /// Items released.
    pub released: u64,
    /// Items refused by a limit, or that gave way to a newer one.
    pub refused: u64,
    /// Items skipped, as an earlier run completed them.
    pub skipped: u64,
    /// Items retried, each retry counted.
    pub retried: u64,
    /// Items that were released and wait for another attempt.
    pub retrying: u64,
    /// Items whose command failed, or that could never be sent.
    pub failed: u64,
    /// Those of the failed items whose command had been asked to end.
    pub ended: u64,
    /// Commands whose output was not fully printed.
    pub unprinted: u64,
    /// Items that need not be released any more, unless their command fails and is retried.
    pub settled: u64,
    /// Bytes of the items that are done, with delimiters, without refused ones.
    pub bytes: u64,
    /// The start of the run, and how it waited.
    pub times: Times,
    /// The most items that left in any window of a second.
    pub busiest: u64,
}

/// Instants of a run, and how it waited. Spans are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// The start of the run.
    pub started: Time,
    /// The instant at which the last items so far left.
    pub last: Time,
    /// Time in which items waited that the sink could have taken.
    pub waited: u64,
    /// Waits for a hold.
    pub holds: u64,
    /// Time for which the process was stopped, as far as that made it late.
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

    /// Items that were read and not released.
    pub fn unreleased(&self) -> u64 {
        self.left().saturating_sub(self.retrying)
    }
}
