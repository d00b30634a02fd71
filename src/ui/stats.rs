//! The numbers of a run, in words and as JSON.

use std::time::Duration;

use crate::exit::Exit;
use crate::schedule::Stats;
use crate::time::{SECOND, Time};

/// How many items a second; nothing if it is of next to no time at all.
pub(super) fn rate(stats: &Stats, now: Time) -> Option<String> {
    let nanos = now.since(stats.started);
    let tenths = u128::from(stats.released) * u128::from(SECOND) * 10 / u128::from(nanos.max(1));
    (nanos >= SECOND / 1000).then(|| format!("{}.{}/s", tenths / 10, tenths % 10))
}

/// All numbers, as one JSON object.
pub(super) fn json(stats: &Stats, now: Time, exit: Exit) -> String {
    let Stats { started, read, released, refused, skipped, retried, failed, bytes, .. } = *stats;
    let seconds = Duration::from_nanos(now.since(started)).as_secs_f64();
    serde_json::json!({
        "read": read,
        "released": released,
        "refused": refused,
        "skipped": skipped,
        "retried": retried,
        "failed": failed,
        "left": stats.left(),
        "bytes": bytes,
        "seconds": seconds,
        "exit": exit.status(),
    })
    .to_string()
}

/// In one line, as of `now`.
pub(super) fn line(stats: &Stats, now: Time) -> String {
    let Stats { read, released, refused, skipped, retried, failed, bytes, .. } = *stats;
    let nanos = now.since(stats.started);
    let rate = rate(stats, now).map_or_else(String::new, |rate| format!(", {rate}"));
    let seconds = format!("{}.{:03}s", nanos / SECOND, nanos % SECOND / 1_000_000);
    let count = |items, what| if items > 0 { format!(", {items} {what}") } else { String::new() };
    let rest = [(refused, "refused"), (skipped, "done before"), (failed, "failed"), (retried, "retried")];
    let rest = rest.map(|(items, what)| count(items, what)).concat();
    format!("{released} of {} released ({}) in {seconds}{rate}{rest}", items(read), count_of(bytes, "byte"))
}

/// `1 item`, `2 items`.
pub fn items(count: u64) -> String {
    count_of(count, "item")
}

fn count_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_there_is_to_say() {
        let mut stats = Stats { read: 7, released: 6, bytes: 12, ..Stats::new(Time(SECOND)) };
        assert_eq!(line(&stats, Time(SECOND)), "6 of 7 items released (12 bytes) in 0.000s");
        stats.refuse(1);
        (stats.failed, stats.retried, stats.skipped) = (2, 3, 4);
        let words = "6 of 7 items released (12 bytes) in 4.000s, 1.5/s, 1 refused, 4 done before, 2 failed, 3 retried";
        assert_eq!(line(&stats, Time(5 * SECOND)), words);
    }
}
