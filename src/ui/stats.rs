//! The statistics of a run, in words and as JSON.

use serde_json::json;

use super::learned;
use super::number::{count_of, in_seconds, items};
use super::wall::words;
use crate::config::{CountFrom, Rate, format_duration};
use crate::exit::Exit;
use crate::schedule::{LimitStats, Schedule, Stats};
use crate::time::{SECOND, Time, seconds};

/// A limit in as few words as distinguish it from others.
pub(super) fn short(rate: &Rate) -> String {
    let key = rate.key.as_ref().filter(|_| rate.is_by_key()).map(|key| format!(" per {key}"));
    let period = match rate.from {
        CountFrom::Running => "running".to_owned(),
        CountFrom::Start | CountFrom::Exit => format_duration(rate.period),
    };
    let hours = rate.during.as_ref().map(|hours| format!(" during {}", hours.week));
    let least = rate.least.map_or_else(String::new, |least| format!("{least}.."));
    format!("{least}{}/{period}{}{}", rate.count, key.unwrap_or_default(), hours.unwrap_or_default())
}

/// The units of a pace, in seconds. The first unit with at least one item is used.
const PACE_UNITS: [(&str, u32); 5] = [("s", 1), ("min", 60), ("h", 3600), ("d", 86_400), ("y", 31_557_600)];

/// Items per unit of time, the shortest in which there is at least one; `None` for less than a millisecond.
pub(super) fn pace(items: u64, nanos: u64) -> Option<String> {
    let tenths_in = |span: u64| u128::from(items) * u128::from(span) * 10 / u128::from(nanos.max(1));
    let in_unit = |(unit, seconds)| (tenths_in(u64::from(seconds) * SECOND), unit);
    let mut paces = PACE_UNITS.into_iter().map(in_unit);
    let (tenths, unit) = paces.find(|(tenths, _)| *tenths >= 10).unwrap_or((0, "min"));
    (nanos >= SECOND / 1000).then(|| format!("{}.{}/{unit}", tenths / 10, tenths % 10))
}

pub(super) fn json(schedule: &Schedule, now: Time, exit: Exit) -> String {
    let stats = schedule.stats();
    let Stats { times, read, released, refused, skipped, retried, failed, unprinted, bytes, .. } = stats;
    let limits = schedule.limit_stats().iter().map(|limit| {
        json!({
            "limit": limit.rate.to_string(),
            "learned": learned::json(schedule, &limit.rate),
            "releases": limit.releases,
            "cost": limit.cost,
            "refused": limit.refused,
            "retried": limit.retried,
            "failed": limit.failed,
            "waits": limit.waits,
            "waited_seconds": in_seconds(limit.waited),
        })
    });
    json!({
        "read": read,
        "released": released,
        "refused": refused,
        "skipped": skipped,
        "retried": retried,
        "failed": failed,
        "unprinted": unprinted,
        "left": stats.left(),
        "bytes": bytes,
        "seconds": in_seconds(now.since(times.started)),
        "stopped_seconds": in_seconds(stats.times.stopped),
        "waited_seconds": in_seconds(stats.times.waited),
        "mean_rate": mean(released, stats.elapsed(now)),
        "highest_rate": stats.busiest,
        "limits": limits.collect::<Vec<_>>(),
        "exit": exit.status(),
    })
    .to_string()
}

/// Items per second; `None` for less than a millisecond.
fn mean(items: u64, nanos: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "nobody counts on more than 15 digits")]
    (nanos >= SECOND / 1000).then(|| items as f64 / in_seconds(nanos))
}

/// The time that items waited, and how often for which limit; `None` if nothing waited.
pub(super) fn waits(stats: &Stats, limits: &[LimitStats]) -> Option<String> {
    if stats.times.waited == 0 {
        return None;
    }
    let times = |count: u64, what: &str| match count {
        0 => String::new(),
        1 => format!(", once for {what}"),
        _ => format!(", {count} times for {what}"),
    };
    let limits = limits.iter().map(|limit| times(limit.waits, &short(&limit.rate))).collect::<String>();
    let limits = limits + &times(stats.times.holds, "a hold");
    let stopped = (stats.times.stopped > 0).then(|| format!(", stopped {}", words(stats.times.stopped)));
    let stopped = stopped.unwrap_or_default();
    let most = items(stats.busiest);
    Some(format!("waited {}{limits}; at most {most} in one second{stopped}", words(stats.times.waited)))
}

/// Items that failed by themselves, and those whose command was asked to end; empty if there are none.
pub(super) fn failures(stats: &Stats) -> String {
    let counts = [(stats.failed - stats.ended, "failed"), (stats.ended, "ended early")];
    counts.map(|(items, what)| counted(items, what)).concat()
}

pub(super) fn counted(items: u64, what: &str) -> String {
    if items > 0 { format!(", {items} {what}") } else { String::new() }
}

/// The counts of a run. `releases` is how the releases are told: they were made, or would be.
pub(super) fn line(stats: &Stats, now: Time, releases: &str) -> String {
    let Stats { read, released, refused, skipped, retried, bytes, .. } = *stats;
    let nanos = now.since(stats.times.started);
    let rate = pace(released, stats.elapsed(now)).map_or_else(String::new, |rate| format!(", {rate}"));
    let seconds = seconds(nanos);
    let before = counted(refused, "refused") + &counted(skipped, "done before");
    let rest = before + &failures(stats) + &counted(retried, "retried");
    let (read, bytes) = (items(read), count_of(bytes, "byte"));
    format!("{released} of {read} {releases} ({bytes}) in {seconds}s{rate}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_there_is_to_say() {
        let mut stats = Stats { read: 7, released: 6, bytes: 12, ..Stats::new(Time(SECOND)) };
        assert_eq!(line(&stats, Time(SECOND), "released"), "6 of 7 items released (12 bytes) in 0.000s");
        (stats.refused, stats.settled) = (1, 1);
        (stats.failed, stats.retried, stats.skipped) = (2, 3, 4);
        let words = "6 of 7 items released (12 bytes) in 4.000s, 1.5/s, 1 refused, 4 done before, 2 failed, 3 retried";
        assert_eq!(line(&stats, Time(5 * SECOND), "released"), words);
        stats.ended = 1;
        let some_ended = words.replace("2 failed", "1 failed, 1 ended early");
        assert_eq!(line(&stats, Time(5 * SECOND), "released"), some_ended);
        stats.ended = 2;
        assert_eq!(failures(&stats), ", 2 ended early");
    }

    #[test]
    fn a_slow_pace_is_told_by_the_minute_or_longer() {
        let table = [
            (0, 1, "0.0/min"),
            (15, 10, "1.5/s"),
            (20, 60, "20.0/min"),
            (60, 60, "1.0/s"),
            (9, 600, "54.0/h"),
            (23, 86_400, "23.0/d"),
            (4, 90 * 86_400, "16.2/y"),
        ];
        for (items, seconds, expected) in table {
            assert_eq!(pace(items, seconds * SECOND).as_deref(), Some(expected));
        }
        assert_eq!(pace(9, SECOND / 2000), None);
    }

    #[test]
    fn the_hours_of_a_limit_are_part_of_its_name() {
        let rate = "0/s,during=Mon-Fri@09:00-17:00+Sat,tz=UTC".parse::<Rate>().unwrap();
        assert_eq!(short(&rate), "0/1s during Mon-Fri@09:00-17:00+Sat");
    }

    #[test]
    fn waits_are_told_by_limit() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        let mut stats = Stats::new(Time(0));
        let limit = |(text, waits)| LimitStats { rate: rate(text), waits, ..LimitStats::default() };
        let limits = [("20/1m", 3), ("9/s", 0), ("100/h", 1)].map(limit);
        assert_eq!(waits(&stats, &limits), None);
        stats.busiest = 20;
        (stats.times.waited, stats.times.holds) = (170 * SECOND, 2);
        let words = "waited 2 min 50 s, 3 times for 20/1m, once for 100/1h, 2 times for a hold; \
                     at most 20 items in one second";
        assert_eq!(waits(&stats, &limits).as_deref(), Some(words));
        stats.times.stopped = 62 * SECOND;
        assert_eq!(waits(&stats, &limits), Some(format!("{words}, stopped 1 min 2 s")));
    }
}
