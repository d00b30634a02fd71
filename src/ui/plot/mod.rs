//! Plots of releases over time: what was released against what was allowed, and the content of each window against the
//! limit.

mod axis;
mod svg;
mod terminal;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::O_NONBLOCK;

use self::axis::short;
use self::svg::svg;
use self::terminal::terminal;
use crate::audit::{Audit, AuditedLimit, Trace};
use crate::config::format_duration;
use crate::printable::escaped;
use crate::time::Time;
use crate::ui::terminal::width;

/// The most limits that are drawn, and the most keys of each.
const MAX_LIMITS: usize = 6;
const MAX_KEYS: usize = 4;

/// In characters.
const LONGEST_NAME: usize = 60;

/// The most stairs of a limit that are distinguishable. If there are more, a line is drawn.
const MAX_STAIRS: u64 = 60;

struct Plot {
    /// Nanoseconds from the first release to the last.
    span: f64,
    charts: Vec<Chart>,
}

/// The two panels of a limit. Times are nanoseconds since the first release.
struct Chart {
    title: String,
    /// Its windows, in words: `in the last 1m`.
    windows: String,
    /// What may be in a window, in words: `at most 9 allowed`.
    bound: String,
    /// The corners of the line that the total must not cross. None for a limit with hours: outside them all
    /// may go.
    allowed: Vec<(f64, f64)>,
    /// The level that the window must not exceed.
    most: f64,
    series: Vec<Series>,
}

/// All that was released under a limit, or what one key released.
struct Series {
    name: Option<String>,
    points: Vec<Point>,
}

/// A step of a trace.
struct Point {
    from: f64,
    to: f64,
    total: f64,
    window: f64,
    is_early: bool,
}

/// Draws what `audit`, which must have been traced, has found: as SVG to `path`, or, if that is `-`, in characters to
/// `out`.
///
/// # Errors
/// It cannot be written.
pub(crate) fn draw(audit: &Audit, path: &Path, mut out: impl Write) -> Result<()> {
    let plot = Plot::new(audit);
    if path == Path::new("-") {
        return Ok(out.write_all(terminal(&plot, width()).as_bytes())?);
    }
    // To open a FIFO that nobody reads would block, and keep signals out.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(O_NONBLOCK);
    let written = options.open(path).and_then(|mut file| {
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
        file.write_all(svg(&plot).as_bytes())
    });
    written.with_context(|| cannot_write(path))
}

/// Checks that a plot can be written, so that a long run does not fail at its end. Devices and FIFOs are not checked,
/// as opening them might block.
///
/// # Errors
/// It cannot.
pub(crate) fn check(path: &Path) -> Result<()> {
    let is_special = fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir());
    if path == Path::new("-") || is_special {
        return Ok(());
    }
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

impl Plot {
    fn new(audit: &Audit) -> Self {
        let limits = audit.limits.iter().take(MAX_LIMITS);
        let start = audit.limits.iter().filter_map(|limit| limit.tally.first).min().unwrap_or(Time::ZERO);
        let end = audit.limits.iter().map(|limit| limit.tally.last).max().unwrap_or(start);
        let span = float(end.since(start).max(1).into());
        Plot { span, charts: limits.map(|limit| Chart::new(limit, start, end)).collect() }
    }
}

impl Chart {
    fn new(limit: &AuditedLimit, start: Time, end: Time) -> Self {
        let series = limit.traces(MAX_KEYS);
        let series = series.into_iter().map(|(key, trace)| Series {
            name: key.map(|key| escaped(&String::from_utf8_lossy(key)).chars().take(LONGEST_NAME).collect()),
            points: points(trace, start, end, |at| limit.spec().lasted(&limit.terms, at)),
        });
        let has_hours = limit.rate.during.is_some();
        let windows = if limit.spec().is_civil() { "current" } else { "last" };
        let most = float(limit.most().into());
        let hours = if has_hours { " during its hours" } else { "" };
        Chart {
            title: escaped(&limit.rate.to_string()),
            windows: format!("in the {windows} {}", format_duration(limit.terms.period)),
            bound: format!("at most {} allowed{hours}", short(most)),
            allowed: if has_hours { Vec::new() } else { allowed(limit, start, end) },
            most,
            series: series.collect(),
        }
    }

    /// The largest total of any series.
    fn total(&self) -> f64 {
        let totals = self.series.iter().filter_map(|series| Some(series.points.last()?.total));
        totals.fold(1.0, f64::max)
    }

    /// The most that is in a window, or is allowed there; at least 1.
    fn window(&self) -> f64 {
        let windows = self.series.iter().flat_map(|series| &series.points).map(|point| point.window);
        windows.fold(self.most.max(1.0), f64::max)
    }
}

/// All steps of a trace, including those without a release, in which the window empties.
///
/// A key that was seen only a few times has steps of a few nanoseconds: too many to draw up to the end of the run, so
/// they are merged into longer ones first.
///
/// `lasted` tells how long the window that an instant ends has lasted, in nanoseconds.
fn points(trace: &Trace, start: Time, end: Time, lasted: impl Fn(Time) -> u64) -> Vec<Point> {
    let trace = trace.reaching(end);
    let (length, offset) = (trace.length, trace.start.since(start));
    let last = end.since(trace.start) / length;
    let mut points: Vec<Point> = Vec::new();
    let mut steps = trace.steps.iter().peekable();
    for index in 0..=last {
        let from = float(u128::from(offset) + u128::from(index) * u128::from(length));
        let step = steps.next_if(|step| step.index == index);
        let (total, window, is_early) = if let Some(step) = step {
            (float(step.total), float(step.window.into()), step.violations > 0)
        } else {
            // The cost in the window at the start of the step, or a little more, but not more than at the last release:
            // a release that is a little late leaves no gap.
            let period = lasted(trace.start.saturating_add(index.saturating_mul(length)));
            let before = index.checked_sub(period.div_ceil(length) + 1);
            let before = before.and_then(|before| points.get(usize::try_from(before).ok()?));
            let before = before.map_or(float(trace.before), |before| before.total);
            let (total, window) = points.last().map_or((0.0, 0.0), |last| (last.total, last.window));
            (total, window.min(total - before), false)
        };
        points.push(Point { from, to: from + float(length.into()), total, window, is_early });
    }
    points
}

/// The corners of the line of what a limit allows from its first release on.
fn allowed(limit: &AuditedLimit, start: Time, end: Time) -> Vec<(f64, f64)> {
    let (stairs, span) = (limit.stairs(), float(end.since(start).into()));
    let mut height = float(stairs.first.into());
    if stairs.is_slope || end.since(start) / stairs.length.max(1) > MAX_STAIRS {
        let climbed = float(stairs.height.into()) * span / float(stairs.length.into());
        return vec![(0.0, height), (span, height + climbed)];
    }
    let mut corners = Vec::new();
    let mut from = start;
    while from <= end {
        let next = limit.spec().next_stair(&limit.terms, from);
        corners.extend([from, next.min(end)].map(|at| (float(at.since(start).into()), height)));
        if next <= from {
            // The end of time.
            break;
        }
        height += float(stairs.height.into());
        from = next;
    }
    corners
}

#[expect(clippy::cast_precision_loss)]
fn float(number: u128) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn quotas_of_the_calendar_are_renewed_at_midnight() {
        let rate = "2/d,algo=calendar,tz=Europe/Berlin".parse().expect("a limit");
        let mut audit = Audit::new(&[rate]).traced();
        let hours = |hours: u64| hours * 3600 * SECOND;
        // 2026-10-24 12:00; the next day has 25 hours.
        let noon = Time(1_792_836_000 * SECOND);
        let end = Time(noon.0 + hours(40));
        audit.judge(1, noon, &[1], &[], |_| {});
        let corners = allowed(&audit.limits[0], noon, end);
        let corners: Vec<_> =
            corners.iter().map(|(at, height)| (at / float(hours(1).into()), *height)).collect();
        assert_eq!(corners, [(0.0, 2.0), (12.0, 2.0), (12.0, 4.0), (37.0, 4.0), (37.0, 6.0), (40.0, 6.0)]);
    }

    /// What is left of a day's quota is not carried over midnight.
    #[test]
    fn the_window_of_a_calendar_empties_at_midnight() {
        let mut audit = Audit::new(&["3/d,algo=calendar,tz=UTC".parse().expect("a limit")]).traced();
        let hour = 3600 * SECOND;
        for at in [12, 16, 20, 34, 60] {
            audit.judge(1, Time(at * hour), &[1], &[], |_| {});
        }
        let plot = Plot::new(&audit);
        let points = &plot.charts[0].series[0].points;
        let at = |hours: u64| {
            let nanos = float(u128::from((hours - 12) * hour));
            points.iter().find(|point| point.from <= nanos && nanos < point.to).expect("a point").window
        };
        let hours = [13, 17, 21, 23, 25, 33, 35, 47, 49, 59];
        let expected = [1.0, 2.0, 3.0, 3.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0];
        assert!(hours.map(at).iter().zip(expected).all(|(drawn, number)| (drawn - number).abs() < 0.5));
        assert_eq!(plot.charts[0].windows, "in the current 1day");
    }

    #[test]
    fn no_total_is_allowed_by_a_limit_that_is_asked_only_in_its_hours() {
        let rates = ["2/h,during=09:00-11:00,tz=UTC".parse().expect("a limit")];
        let mut audit = Audit::new(&rates).traced();
        (0..9).for_each(|_| audit.judge(1, Time(0), &[1], &[], |_| {}));
        let plot = Plot::new(&audit);
        let Chart { allowed, windows, bound, .. } = &plot.charts[0];
        assert!(allowed.is_empty());
        assert_eq!(format!("{windows}, {bound}"), "in the last 1h, at most 2 allowed during its hours");
        assert!(!svg(&plot).contains("dashed)"));
    }

    #[test]
    fn the_last_stair_ends_with_time() {
        let mut audit = Audit::new(&["1/584y".parse().expect("a limit")]).traced();
        let (start, end) = (Time(u64::MAX - 9), Time(u64::MAX));
        [start, end].into_iter().for_each(|at| audit.judge(1, at, &[1], &[], |_| {}));
        let corners = allowed(&audit.limits[0], start, end);
        assert_eq!(corners, [(0.0, 1.0), (9.0, 1.0), (9.0, 2.0), (9.0, 2.0)]);
    }

    #[test]
    fn what_accrues_is_allowed_as_it_does_and_dear_items_whole() {
        let corners = |limit: &str, releases: &[(u64, u64)]| {
            let mut audit = Audit::new(&[limit.parse().expect("a limit")]).traced();
            releases.iter().for_each(|&(at, cost)| audit.judge(1, Time(at), &[cost], &[], |_| {}));
            assert_eq!(audit.too_early, 0);
            let last = releases.last().expect("a release").0;
            allowed(&audit.limits[0], Time(0), Time(last))
        };
        let bucket = corners("6/12ns,algo=bucket,burst=2", &[(0, 2), (2, 1), (6, 2)]);
        assert_eq!(bucket, [(0.0, 2.0), (6.0, 5.0)]);
        let interval = corners("2/10us,algo=interval", &[(0, 5), (25_000, 1)]);
        assert_eq!(interval[..3], [(0.0, 5.0), (5000.0, 5.0), (5000.0, 6.0)]);
    }

    #[test]
    fn a_limit_that_allows_nothing_is_drawn() {
        let audit = Audit::new(&["0/s,during=Mon,tz=UTC".parse().expect("a limit")]).traced();
        assert!(!svg(&Plot::new(&audit)).contains("NaN"));
    }

    /// Releases with ties, long pauses, and now and then a key that is seen but once.
    fn releases(random: &mut fastrand::Rng) -> Vec<(u64, u64)> {
        let mut now = random.u64(0..1000);
        let scale = 10u64.pow(random.u32(0..12));
        let count = if random.u8(0..4) == 0 { 1 } else { random.u64(1..500) };
        let mut release = |_| {
            now += if random.bool() { 0 } else { random.u64(0..=scale) * random.u64(0..=2) };
            (now, random.u64(1..=3))
        };
        (0..count).map(&mut release).collect()
    }

    /// Checks that `number` is drawn exactly.
    #[track_caller]
    fn is(drawn: f64, number: u64) {
        assert!((drawn - float(number.into())).abs() < 0.5, "{drawn} is drawn of {number}");
    }

    #[test]
    fn an_instant_that_is_late_leaves_no_gap() {
        let (second, seconds) = (1_000_000_000, 400);
        let late = |number: u64| if number % 50 == 7 { second / 5 } else { 0 };
        for period in [second, 3 * second] {
            let mut trace = Trace::new(Time(0), 0);
            (0..seconds).for_each(|number| {
                trace.push(
                    Time(number * second + late(number)),
                    1,
                    number.min(period / second - 1) + 1,
                    false,
                );
            });
            let points = points(&trace, Time(0), Time((seconds + 9) * second), |_| period);
            let (run, rest) = points.split_at(points.iter().rposition(|point| point.to < 399e9).unwrap());
            let most = float((period / second).into());
            assert!(run.iter().skip(3).all(|point| (point.window - most).abs() < 0.5), "{period}");
            assert!(rest.last().is_some_and(|point| point.window < 0.5), "{period}");
        }
    }

    #[test]
    fn what_is_drawn_is_what_was_released() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..60 {
            let (releases, period) = (releases(&mut random), 10u64.pow(random.u32(0..12)));
            let within = |from: u64, to: u64| {
                let costs = releases.iter().filter(|(at, _)| *at >= from && *at < to).map(|(_, cost)| cost);
                costs.sum::<u64>()
            };
            let mut trace = Trace::new(Time(releases[0].0), 0);
            let mut counted: Vec<(u64, u64, bool)> = Vec::new();
            for (number, &(at, cost)) in releases.iter().enumerate() {
                let before = releases[..=number].iter().rev().take_while(|(other, _)| at - other < period);
                let (count, is_early) = (before.map(|(_, cost)| cost).sum(), random.u8(0..20) == 0);
                trace.push(Time(at), cost, count, is_early);
                counted.push((at, count, is_early));
            }
            let (first, last) = (releases[0].0, releases[releases.len() - 1].0);
            let (start, end) = (first.saturating_sub(random.u64(0..1000)), last + random.u64(0..=last));
            let points = points(&trace, Time(start), Time(end), |_| period);
            assert!(points.len() <= 512);
            let length = trace.reaching(Time(end)).length;
            for (point, number) in points.iter().zip(0..) {
                let from = first + number * length;
                let to = from + length;
                is(point.from, from - start);
                is(point.to, to - start);
                is(point.total, within(0, to));
                let here = counted.iter().filter(|(at, ..)| (from..to).contains(at));
                assert_eq!(point.is_early, here.clone().any(|(_, _, is_early)| *is_early));
                if let Some(count) = here.map(|(_, count, _)| count).max() {
                    is(point.window, *count);
                } else {
                    // The window empties at some point within the step.
                    let over = float(within((from + 1).saturating_sub(period + length), to).into());
                    let under = float(within((to + 1).saturating_sub(period), to).into());
                    assert!(under <= point.window && point.window <= over, "{} of {over}", point.window);
                }
            }
            assert!(points.last().is_some_and(|point| point.to > float((end - start).into())));
        }
    }
}
