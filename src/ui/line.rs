//! The progress line, cut to the width of the terminal.

use super::stats::{pace, short};
use super::wall::{self, whole_seconds};
use crate::config::Rate;
use crate::printable::escaped;
use crate::schedule::{Forecast, Precision, Stats, WaitReason};
use crate::time::{SECOND, Time, Wall};

#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) stats: Stats,
    pub(crate) running: u64,
    pub(crate) forecast: Forecast,
    pub(crate) wall: Wall,
    /// The rate that was found, if it is to be.
    pub(crate) found: Option<String>,
}

/// Recently released items and the time that they took, in nanoseconds: the basis of the pace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    pub(super) items: u64,
    pub(super) nanos: u64,
}

impl Recent {
    /// The totals of a run.
    pub(super) fn of(progress: &Progress, now: Time) -> Self {
        Recent { items: progress.stats.released, nanos: progress.stats.elapsed(now) }
    }
}

/// The parts of the line, in the order in which they are left out if there is no room.
#[derive(Clone, Copy)]
enum LinePart {
    Pace,
    Running,
    Percent,
    Reason,
    End,
    Wait,
    Refused,
    Failed,
}

/// The number of parts that may be left out.
const OPTIONAL: usize = LinePart::Failed as usize + 1;

/// The line, with as many parts as fit into `width` columns.
pub(super) fn line(progress: &Progress, recent: Recent, now: Time, width: usize) -> String {
    let end = end(progress, recent, now);
    let compose = |omitted: usize| compose(progress, recent, now, end.as_deref(), omitted);
    let fitting = (0..=OPTIONAL).map(compose).find(|line| line.chars().count() <= width);
    fitting.unwrap_or_else(|| cut(&compose(OPTIONAL), width).to_owned())
}

/// The first `width` characters.
pub(super) fn cut(line: &str, width: usize) -> &str {
    line.char_indices().nth(width).map_or(line, |(at, _)| &line[..at])
}

/// The line of a run that is over.
pub(super) fn last(progress: &Progress, recent: Recent) -> String {
    counts(progress, recent, |_| true).join(", ")
}

fn compose(progress: &Progress, recent: Recent, now: Time, end: Option<&str>, omitted: usize) -> String {
    let has = |part: LinePart| part as usize >= omitted;
    let mut all = counts(progress, recent, has);
    let has_troubles = progress.stats.failed > 0 || progress.stats.refused > 0;
    if has(LinePart::Wait) || !has_troubles {
        all.extend(wait(&progress.forecast, progress.wall, now, has(LinePart::Reason)));
    }
    let end = end.filter(|_| has(LinePart::End)).map(|end| format!("; {end}"));
    escaped(&(all.join(", ") + end.as_deref().unwrap_or_default()))
}

fn counts(progress: &Progress, recent: Recent, has: impl Fn(LinePart) -> bool) -> Vec<String> {
    let mut all = vec![done(progress, has(LinePart::Percent))];
    let stats = &progress.stats;
    let counts = [
        (stats.failed, "failed", LinePart::Failed),
        (stats.refused, "refused", LinePart::Refused),
        (progress.running, "running", LinePart::Running),
    ];
    let counts = counts.into_iter().filter(|(count, _, part)| *count > 0 && has(*part));
    all.extend(counts.map(|(count, what, _)| format!("{count} {what}")));
    // A burst at the start is not a rate yet.
    let has_pace = has(LinePart::Pace) && recent.items > 0 && recent.nanos >= 10 * SECOND;
    all.extend(pace(recent.items, recent.nanos).filter(|_| has_pace));
    all.extend(progress.found.iter().filter(|_| has(LinePart::Pace)).map(|rate| format!("found {rate}")));
    all
}

fn done(progress: &Progress, has_percent: bool) -> String {
    let Forecast { total, done, .. } = progress.forecast;
    let Some(total) = total else { return format!("{} released", progress.stats.released) };
    let about = if total.is_exact { "" } else { "about " };
    let percent = u128::from(done) * 100 / u128::from(total.items.max(1));
    let percent = if has_percent { format!(" ({percent} %)") } else { String::new() };
    format!("{done} of {about}{}{percent}", total.items)
}

/// The next release, and what it waits for.
fn wait(forecast: &Forecast, wall: Wall, now: Time, has_reason: bool) -> Option<String> {
    let reason = match &forecast.wait_reason {
        WaitReason::Pause(rate) => return Some(format!("paused by {}", short(rate))),
        WaitReason::Command => return Some("waiting for a command".to_owned()),
        WaitReason::Input if forecast.left > 0 || forecast.total.is_none() => {
            return Some("waiting for input".to_owned());
        }
        WaitReason::Input => return None,
        WaitReason::Limit(rate) if forecast.next.is_some_and(|next| is_end_of_hours(rate, wall, next)) => {
            let next = forecast.next.unwrap_or(now);
            return Some(format!("next {}: hours", wall::clock_at(wall, now, next)));
        }
        wait_reason => reason(wait_reason),
    };
    let left = forecast.next.map_or(0, |next| next.since(now));
    let left = if left < SECOND { "<1s".to_owned() } else { whole_seconds(left) };
    Some(if has_reason { format!("next in {left}: {reason}") } else { format!("next in {left}") })
}

/// Reports whether the hours of a limit end at this instant.
fn is_end_of_hours(rate: &Rate, wall: Wall, at: Time) -> bool {
    let is_asked = |nanos| rate.during.as_ref().is_some_and(|hours| hours.contain(nanos));
    is_asked(wall.nanos(at) - 1) && !is_asked(wall.nanos(at))
}

/// The reason for a wait in a word or two.
pub(super) fn reason(wait_reason: &WaitReason) -> String {
    match wait_reason {
        WaitReason::Limit(rate) | WaitReason::Pause(rate) => short(rate),
        WaitReason::Backoff => "backoff".to_owned(),
        WaitReason::Jitter => "jitter".to_owned(),
        WaitReason::Hold => "a hold".to_owned(),
        WaitReason::Batch => "a batch".to_owned(),
        WaitReason::Slot => "the shared limit".to_owned(),
        WaitReason::Shortage => "a busy system".to_owned(),
        WaitReason::Command => "a command".to_owned(),
        WaitReason::Input => "input".to_owned(),
    }
}

/// The expected end of the run. Commands that are slower than the limits are assumed to keep their recent pace.
fn end(progress: &Progress, recent: Recent, now: Time) -> Option<String> {
    let Forecast { wait_reason, ends, left, .. } = &progress.forecast;
    let (mut at, mut precision) = ends.filter(|_| *left > 0)?;
    if *wait_reason == WaitReason::Command && recent.items > 0 {
        let nanos = u128::from(*left) * u128::from(recent.nanos) / u128::from(recent.items);
        let last = (at.max(now.checked_add(nanos)?), precision.max(Precision::About));
        (at, precision) = progress.forecast.cut_short(last);
    }
    let about = match precision {
        Precision::Exact => "",
        Precision::About => "about ",
        Precision::AtLeast => "after ",
    };
    Some(format!("ends {about}{}", wall::clock_at(progress.wall, now, at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, RateText};
    use crate::schedule::Total;

    fn rate(text: &str) -> Rate {
        RateText::parse_pausing(text).unwrap().resolve(&Defaults::default()).unwrap()
    }

    /// 30 of 300 at 10 s.
    fn progress(wait_reason: WaitReason) -> Progress {
        let total = Some(Total { items: 300, is_exact: true });
        let next = Some(Time(67 * SECOND));
        let forecast = Forecast { wait_reason, next, total, done: 30, left: 270, ends: None, over: None };
        let stats = Stats { released: 30, settled: 30, read: 300, ..Stats::default() };
        Progress { stats, running: 0, forecast, wall: Wall::default(), found: None }
    }

    fn shown(progress: &Progress, width: usize) -> String {
        let recent = Recent { items: 30, nanos: 10 * SECOND };
        line(progress, recent, Time(10 * SECOND), width)
    }

    /// At 40 columns, whatever the run waits for.
    #[test]
    fn failures_are_told_on_a_narrow_terminal() {
        let hours = WaitReason::Limit(rate("0/s,during=00:00-23:59,tz=UTC"));
        for wait_reason in [hours, WaitReason::Limit(rate("20/1m")), WaitReason::Command, WaitReason::Hold] {
            let mut progress = progress(wait_reason);
            (progress.stats.failed, progress.stats.refused, progress.running) = (12345, 7, 3);
            let total = Total { items: 23_456_789, is_exact: false };
            (progress.forecast.total, progress.forecast.done) = (Some(total), 12_345_678);
            progress.forecast.ends = progress.forecast.next.map(|next| (next, Precision::About));
            for width in 40..200 {
                let line = shown(&progress, width);
                assert!(line.contains(", 12345 failed") && line.chars().count() <= width, "{width}: {line}");
            }
            let mut usual = progress;
            (usual.forecast.total, usual.stats.failed) = (Some(Total { items: 30_000, is_exact: true }), 12);
            (usual.forecast.done, usual.stats.refused) = (20_000, 0);
            let line = shown(&usual, 40);
            assert!(line.starts_with("20000 of 30000, 12 failed") && line.chars().count() <= 40, "{line}");
        }
    }

    #[test]
    fn what_the_next_release_waits_for() {
        let table = [
            (WaitReason::Limit(rate("20/1m")), "30 of 300 (10 %), 3.0/s, next in 57s: 20/1m"),
            (
                WaitReason::Limit(rate("20/m,key=.a\x1b]0;x\x07\u{202e}b")),
                r"30 of 300 (10 %), 3.0/s, next in 57s: 20/1m per .a\u{1b}]0;x\u{7}\u{202e}b",
            ),
            (
                WaitReason::Limit(rate("20/m,key=host")),
                "30 of 300 (10 %), 3.0/s, next in 57s: 20/1m per host",
            ),
            (WaitReason::Pause(rate("0/s")), "30 of 300 (10 %), 3.0/s, paused by 0/1s"),
            (WaitReason::Backoff, "30 of 300 (10 %), 3.0/s, next in 57s: backoff"),
            (WaitReason::Hold, "30 of 300 (10 %), 3.0/s, next in 57s: a hold"),
            (WaitReason::Command, "30 of 300 (10 %), 3.0/s, waiting for a command"),
            (WaitReason::Input, "30 of 300 (10 %), 3.0/s, waiting for input"),
        ];
        for (wait_reason, expected) in table {
            assert_eq!(shown(&progress(wait_reason), 80), expected);
        }
    }

    #[test]
    fn what_matters_most_stays_where_there_is_little_room() {
        let mut progress = progress(WaitReason::Limit(rate("20/1m")));
        (progress.stats.failed, progress.running) = (2, 4);
        let table = [
            (80, "30 of 300 (10 %), 2 failed, 4 running, 3.0/s, next in 57s: 20/1m"),
            (60, "30 of 300 (10 %), 2 failed, 4 running, next in 57s: 20/1m"),
            (50, "30 of 300 (10 %), 2 failed, next in 57s: 20/1m"),
            (40, "30 of 300, 2 failed, next in 57s: 20/1m"),
            (35, "30 of 300, 2 failed, next in 57s"),
            (30, "30 of 300, 2 failed"),
            (12, "30 of 300"),
        ];
        for (width, expected) in table {
            assert_eq!(shown(&progress, width), expected, "{width}");
        }
        progress.forecast.ends = Some((Time(20 * SECOND), Precision::Exact));
        assert_eq!(shown(&progress, 40), "30 of 300, 2 failed, next in 57s");
    }

    #[test]
    fn the_end_is_told_as_well_as_it_is_known() {
        let mut progress = progress(WaitReason::Limit(rate("20/1m")));
        let at = Time(3670 * SECOND);
        for (precision, word) in [
            (Precision::Exact, "ends "),
            (Precision::About, "ends about "),
            (Precision::AtLeast, "ends after "),
        ] {
            progress.forecast.ends = Some((at, precision));
            let told = shown(&progress, 80);
            let clock = told.split_once(&format!("20/1m; {word}")).expect(&told).1;
            // The clock may have moved on, and it may be midnight.
            assert!(clock.len() == 5 || clock.len() == 9, "{told}");
        }
        progress.forecast.left = 0;
        assert!(!shown(&progress, 80).contains("ends"));
    }

    #[test]
    fn commands_that_are_slow_count_before_the_limits() {
        let mut progress = progress(WaitReason::Command);
        progress.forecast.ends = Some((Time(20 * SECOND), Precision::Exact));
        let recent = Recent { items: 1, nanos: 3600 * 24 * 365 * SECOND };
        let end = end(&progress, recent, Time(10 * SECOND)).unwrap();
        // 270 years.
        assert!(end.starts_with("ends about 22"), "{end}");
        progress.forecast.over = Some(Time(30 * SECOND));
        let cut = super::end(&progress, recent, Time(10 * SECOND)).unwrap();
        assert!(cut.starts_with("ends about ") && !cut.contains("22"), "{cut}");
        progress.forecast.wait_reason = WaitReason::Backoff;
        assert!(!super::end(&progress, recent, Time(10 * SECOND)).unwrap().contains("about"));
    }

    #[test]
    fn without_a_total_there_is_what_was_released() {
        let mut progress = progress(WaitReason::Input);
        progress.forecast.total = None;
        assert_eq!(shown(&progress, 80), "30 released, 3.0/s, waiting for input");
        progress.forecast.total = Some(Total { items: 300, is_exact: false });
        assert_eq!(shown(&progress, 80), "30 of about 300 (10 %), 3.0/s, waiting for input");
    }
}
