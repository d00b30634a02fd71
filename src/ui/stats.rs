//! What a run has done.

use std::time::Duration;

use crate::exit::Exit;
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
        self.read.saturating_sub(self.consumed + self.skipped)
    }

    /// How many items a second; nothing if it is of next to no time at all.
    pub(crate) fn rate(&self, now: Time) -> Option<String> {
        let nanos = now.since(self.started);
        let tenths = u128::from(self.released) * u128::from(SECOND) * 10 / u128::from(nanos.max(1));
        (nanos >= SECOND / 1000).then(|| format!("{}.{}/s", tenths / 10, tenths % 10))
    }

    /// All numbers, as one JSON object.
    pub fn json(&self, now: Time, exit: Exit) -> String {
        let Stats { started, read, released, refused, skipped, retried, failed, bytes, .. } = *self;
        let seconds = Duration::from_nanos(now.since(started)).as_secs_f64();
        serde_json::json!({
            "read": read,
            "released": released,
            "refused": refused,
            "skipped": skipped,
            "retried": retried,
            "failed": failed,
            "left": self.left(),
            "bytes": bytes,
            "seconds": seconds,
            "exit": exit.status(),
        })
        .to_string()
    }

    /// As it is told at `now`.
    pub fn line(&self, now: Time) -> String {
        let Stats { read, released, refused, skipped, retried, failed, bytes, .. } = *self;
        let nanos = now.since(self.started);
        let rate = self.rate(now).map_or_else(String::new, |rate| format!(", {rate}"));
        let seconds = format!("{}.{:03}s", nanos / SECOND, nanos % SECOND / 1_000_000);
        let count = |items, what| if items > 0 { format!(", {items} {what}") } else { String::new() };
        let rest = [(refused, "refused"), (skipped, "done before"), (failed, "failed"), (retried, "retried")];
        let rest = rest.map(|(items, what)| count(items, what)).concat();
        format!(
            "{released} of {} released ({}) in {seconds}{rate}{rest}",
            items(read),
            count_of(bytes, "byte")
        )
    }
}

/// `1 item`, `2 items`.
pub(crate) fn items(count: u64) -> String {
    count_of(count, "item")
}

fn count_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_there_is_to_tell() {
        let mut stats = Stats { read: 7, released: 6, bytes: 12, ..Stats::new(Time(SECOND)) };
        assert_eq!(stats.line(Time(SECOND)), "6 of 7 items released (12 bytes) in 0.000s");
        stats.refuse(1);
        (stats.failed, stats.retried, stats.skipped) = (2, 3, 4);
        let line = "6 of 7 items released (12 bytes) in 4.000s, 1.5/s, 1 refused, 4 done before, 2 failed, 3 retried";
        assert_eq!(stats.line(Time(5 * SECOND)), line);
    }
}
