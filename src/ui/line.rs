//! The line that says how far a run has come, made to fit.

use super::stats::{pace, short};
use super::wall;
use crate::config::format_duration;
use crate::printable::escaped;
use crate::schedule::{Holdup, Outlook, Precision, Stats};
use crate::time::{SECOND, Time, Wall};

/// How far a run has come.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What has been done.
    pub stats: Stats,
    /// How many commands are running.
    pub running: u64,
    /// What is still to come.
    pub outlook: Outlook,
    /// The clock that tells when it will.
    pub wall: Wall,
}

/// Items that left within so many nanoseconds of late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent {
    pub(super) items: u64,
    pub(super) nanos: u64,
}

/// The parts of the line, in the order in which they are left out where there is no room.
const OPTIONAL: [Part; 6] =
    [Part::Pace, Part::Running, Part::Percent, Part::Reason, Part::Troubles, Part::End];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Pace,
    Running,
    Percent,
    Reason,
    Troubles,
    End,
}

/// In up to `width` columns, as much as there is room for.
pub(super) fn line(progress: &Progress, recent: Recent, now: Time, width: usize) -> String {
    let end = end(progress, recent, now);
    let compose = |omitted: usize| compose(progress, recent, now, end.as_deref(), &OPTIONAL[omitted..]);
    let fitting = (0..=OPTIONAL.len()).map(compose).find(|line| line.chars().count() <= width);
    fitting.unwrap_or_else(|| cut(&compose(OPTIONAL.len()), width).to_owned())
}

/// The first `width` characters.
pub(super) fn cut(line: &str, width: usize) -> &str {
    line.char_indices().nth(width).map_or(line, |(at, _)| &line[..at])
}

fn compose(progress: &Progress, recent: Recent, now: Time, end: Option<&str>, parts: &[Part]) -> String {
    let has = |part| parts.contains(&part);
    let mut all = vec![done(progress, has(Part::Percent))];
    let stats = &progress.stats;
    let counts = [
        (stats.failed, "failed", Part::Troubles),
        (stats.refused, "refused", Part::Troubles),
        (progress.running, "running", Part::Running),
    ];
    let counts = counts.into_iter().filter(|(count, _, part)| *count > 0 && has(*part));
    all.extend(counts.map(|(count, what, _)| format!("{count} {what}")));
    // A burst at the start is no rate yet.
    let has_pace = has(Part::Pace) && recent.items > 0 && recent.nanos >= 10 * SECOND;
    all.extend(pace(recent.items, recent.nanos).filter(|_| has_pace));
    all.extend(wait(&progress.outlook, now, has(Part::Reason)));
    let end = end.filter(|_| has(Part::End)).map(|end| format!("; {end}"));
    escaped(&(all.join(", ") + end.as_deref().unwrap_or_default()))
}

fn done(progress: &Progress, has_percent: bool) -> String {
    let Outlook { total, left, .. } = progress.outlook;
    let Some(total) = total else { return format!("{} released", progress.stats.released) };
    let done = total.items.saturating_sub(left);
    let about = if total.is_exact { "" } else { "about " };
    let percent = u128::from(done) * 100 / u128::from(total.items.max(1));
    let percent = if has_percent { format!(" ({percent} %)") } else { String::new() };
    format!("{done} of {about}{}{percent}", total.items)
}

/// When the next release is, and what it waits for.
fn wait(outlook: &Outlook, now: Time, has_reason: bool) -> Option<String> {
    let reason = match &outlook.holdup {
        Holdup::Pause(rate) => return Some(format!("paused by {}", short(rate))),
        Holdup::Command => return Some("waiting for a command".to_owned()),
        Holdup::Input if outlook.left > 0 || outlook.total.is_none() => {
            return Some("waiting for input".to_owned());
        }
        Holdup::Input => return None,
        holdup => reason(holdup),
    };
    let left = outlook.next.map_or(0, |next| next.since(now));
    let left = if left < SECOND { "<1s".to_owned() } else { whole_seconds(left) };
    Some(if has_reason { format!("next in {left}: {reason}") } else { format!("next in {left}") })
}

/// What a release waits for, in a word or two.
pub(super) fn reason(holdup: &Holdup) -> String {
    match holdup {
        Holdup::Limit(rate) | Holdup::Pause(rate) => short(rate),
        Holdup::Backoff => "backoff".to_owned(),
        Holdup::Hold => "Retry-After".to_owned(),
        Holdup::Batch => "a batch".to_owned(),
        Holdup::Slot => "the shared limit".to_owned(),
        Holdup::Shortage => "a busy system".to_owned(),
        Holdup::Command => "a command".to_owned(),
        Holdup::Input => "input".to_owned(),
    }
}

/// When all is released. Commands that are slower than the limits go on as of late.
fn end(progress: &Progress, recent: Recent, now: Time) -> Option<String> {
    let Outlook { holdup, ends, left, .. } = &progress.outlook;
    let (mut at, mut precision) = ends.filter(|_| *left > 0)?;
    if *holdup == Holdup::Command && recent.items > 0 {
        let nanos = u128::from(*left) * u128::from(recent.nanos) / u128::from(recent.items);
        at = at.max(now.checked_add(nanos)?);
        precision = precision.max(Precision::About);
    }
    let about = match precision {
        Precision::Exact => "",
        Precision::About => "about ",
        Precision::AtLeast => "after ",
    };
    Some(format!("ends {about}{}", wall::clock_at(progress.wall, now, at)))
}

/// Whole seconds, in hours, minutes and seconds.
fn whole_seconds(nanos: u64) -> String {
    format_duration(nanos.div_ceil(SECOND).saturating_mul(SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, Rate, RateText};
    use crate::schedule::Total;

    fn rate(text: &str) -> Rate {
        RateText::parse_pausing(text).unwrap().resolve(&Defaults::default()).unwrap()
    }

    /// 30 of 300 at 10 s.
    fn progress(holdup: Holdup) -> Progress {
        let total = Some(Total { items: 300, is_exact: true });
        let next = Some(Time(67 * SECOND));
        let outlook = Outlook { holdup, next, total, left: 270, ends: None };
        let stats = Stats { released: 30, settled: 30, read: 300, ..Stats::default() };
        Progress { stats, running: 0, outlook, wall: Wall::default() }
    }

    fn shown(progress: &Progress, width: usize) -> String {
        let recent = Recent { items: 30, nanos: 10 * SECOND };
        line(progress, recent, Time(10 * SECOND), width)
    }

    #[test]
    fn what_the_next_release_waits_for() {
        let table = [
            (Holdup::Limit(rate("20/1m")), "30 of 300 (10 %), 3.0/s, next in 57s: 20/1m"),
            (
                Holdup::Limit(rate("20/m,key=.a\x1b]0;x\x07\u{202e}b")),
                r"30 of 300 (10 %), 3.0/s, next in 57s: 20/1m per .a\u{1b}]0;x\u{7}\u{202e}b",
            ),
            (Holdup::Limit(rate("20/m,key=host")), "30 of 300 (10 %), 3.0/s, next in 57s: 20/1m per host"),
            (Holdup::Pause(rate("0/s")), "30 of 300 (10 %), 3.0/s, paused by 0/1s"),
            (Holdup::Backoff, "30 of 300 (10 %), 3.0/s, next in 57s: backoff"),
            (Holdup::Hold, "30 of 300 (10 %), 3.0/s, next in 57s: Retry-After"),
            (Holdup::Command, "30 of 300 (10 %), 3.0/s, waiting for a command"),
            (Holdup::Input, "30 of 300 (10 %), 3.0/s, waiting for input"),
        ];
        for (holdup, expected) in table {
            assert_eq!(shown(&progress(holdup), 80), expected);
        }
    }

    #[test]
    fn what_matters_most_stays_where_there_is_little_room() {
        let mut progress = progress(Holdup::Limit(rate("20/1m")));
        (progress.stats.failed, progress.running) = (2, 4);
        let table = [
            (80, "30 of 300 (10 %), 2 failed, 4 running, 3.0/s, next in 57s: 20/1m"),
            (60, "30 of 300 (10 %), 2 failed, 4 running, next in 57s: 20/1m"),
            (50, "30 of 300 (10 %), 2 failed, next in 57s: 20/1m"),
            (40, "30 of 300, 2 failed, next in 57s: 20/1m"),
            (35, "30 of 300, 2 failed, next in 57s"),
            (30, "30 of 300, next in 57s"),
            (12, "30 of 300, n"),
        ];
        for (width, expected) in table {
            assert_eq!(shown(&progress, width), expected, "{width}");
        }
    }

    #[test]
    fn the_end_is_told_as_well_as_it_is_known() {
        let mut progress = progress(Holdup::Limit(rate("20/1m")));
        let at = Time(3670 * SECOND);
        for (precision, word) in [
            (Precision::Exact, "ends "),
            (Precision::About, "ends about "),
            (Precision::AtLeast, "ends after "),
        ] {
            progress.outlook.ends = Some((at, precision));
            let told = shown(&progress, 80);
            let clock = told.split_once(&format!("20/1m; {word}")).expect(&told).1;
            // The clock may have gone on, and it may be midnight.
            assert!(clock.len() == 5 || clock.len() == 9, "{told}");
        }
        progress.outlook.left = 0;
        assert!(!shown(&progress, 80).contains("ends"));
    }

    #[test]
    fn commands_that_are_slow_count_before_the_limits() {
        let mut progress = progress(Holdup::Command);
        progress.outlook.ends = Some((Time(20 * SECOND), Precision::Exact));
        let recent = Recent { items: 1, nanos: 3600 * 24 * 365 * SECOND };
        let end = end(&progress, recent, Time(10 * SECOND)).unwrap();
        // 270 years.
        assert!(end.starts_with("ends about 22"), "{end}");
        progress.outlook.holdup = Holdup::Backoff;
        assert!(!super::end(&progress, recent, Time(10 * SECOND)).unwrap().contains("about"));
    }

    #[test]
    fn without_a_total_there_is_what_was_released() {
        let mut progress = progress(Holdup::Input);
        progress.outlook.total = None;
        assert_eq!(shown(&progress, 80), "30 released, 3.0/s, waiting for input");
        progress.outlook.total = Some(Total { items: 300, is_exact: false });
        assert_eq!(shown(&progress, 80), "30 of about 300 (10 %), 3.0/s, waiting for input");
    }
}
