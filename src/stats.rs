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
    /// Items whose command failed, or could not be given them.
    pub failed: u64,
    /// Items that left the lane, and their bytes with delimiters.
    pub(crate) consumed: u64,
    /// Bytes of them.
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
        self.consumed += items;
    }

    /// Items that were read and not released.
    pub fn left(&self) -> u64 {
        self.read.saturating_sub(self.consumed)
    }

    /// As it is told at `now`.
    pub fn line(&self, now: Time) -> String {
        let Stats { read, released, refused, failed, bytes, .. } = *self;
        let nanos = now.since(self.started);
        let rate = u128::from(released) * u128::from(SECOND) * 10 / u128::from(nanos.max(1));
        let seconds = format!("{}.{:03}s", nanos / SECOND, nanos % SECOND / 1_000_000);
        let count = |items, what| if items > 0 { format!(", {items} {what}") } else { String::new() };
        let (refused, failed) = (count(refused, "refused"), count(failed, "failed"));
        format!(
            "{released} of {read} items released ({bytes} bytes) in {seconds}, {}.{}/s{refused}{failed}",
            rate / 10,
            rate % 10
        )
    }
}
