//! Runs under limits with hours and under calendar quotas, compared with a model that goes minute by minute.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fastrand::Rng;
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use predicates::str::contains;
use throttle::audit::Audit;
use throttle::config::Rate;
use throttle::exit::Exit;
use throttle::time::{SECOND, Time};

use crate::rules::civil::{Span, first_of, place, shown, spans};
use crate::simulated::{Simulation, block};
use crate::support::{fed, for_each_seed, seeds};
#[cfg(any(feature = "sqlite", feature = "redis"))]
use crate::support::{text, throttle};

const MINUTE: u64 = 60 * SECOND;

/// A limit with all its numbers in whole minutes.
struct Limit {
    text: String,
    kind: &'static str,
    count: u64,
    period: u64,
    margin: u64,
    during: Option<Vec<Span>>,
}

/// A release: its minute, the minute since when it was next in line, and its cost.
#[derive(Clone, Copy, Debug)]
struct Release {
    at: u64,
    since: u64,
    cost: u64,
}

struct World {
    zone: TimeZone,
    start: i128,
    /// The minute at which each date starts.
    firsts: RefCell<BTreeMap<Date, i128>>,
}

impl World {
    fn instant(&self, minute: u64) -> i128 {
        self.start + i128::from(minute) * i128::from(MINUTE)
    }

    fn is_asked(&self, limit: &Limit, minute: u64) -> bool {
        let Some(spans) = &limit.during else { return true };
        let shown = shown(&self.zone, self.instant(minute));
        let number = |part: i8| usize::try_from(part).expect("not below 0");
        let day = number(shown.weekday().to_monday_zero_offset());
        spans.iter().any(|span| span.holds(day, number(shown.hour()) * 60 + number(shown.minute())))
    }

    /// The minutes at which the period that contains `minute` starts and ends.
    fn period(&self, limit: &Limit, minute: u64) -> (i128, i128) {
        let date = shown(&self.zone, self.instant(minute)).date();
        let firsts = (-1..=2).map(|days| {
            let date = date.saturating_add(days.days());
            let first = || (first_of(&self.zone, date) - self.start).div_euclid(MINUTE.into());
            *self.firsts.borrow_mut().entry(date).or_insert_with(first)
        });
        let (now, firsts) = (i128::from(minute), firsts.collect::<Vec<_>>());
        let start = firsts.iter().copied().filter(|first| *first <= now).max().expect("a day");
        let end = firsts.iter().copied().find(|first| *first > now).expect("another day");
        match limit.period {
            1440 => (start, end),
            part => {
                let start = now - (now - start) % i128::from(part);
                (start, end.min(start + i128::from(part)))
            }
        }
    }

    fn allows(&self, limit: &Limit, releases: &[Release], now: u64, since: u64, cost: u64) -> bool {
        if !self.is_asked(limit, now) {
            return true;
        }
        match limit.kind {
            "sliding" => {
                let recent = releases.iter().filter(|one| one.at + limit.period > now);
                recent.map(|one| one.cost).sum::<u64>() + cost <= limit.count
            }
            "interval" => {
                let gap = |one: &Release| one.cost * (limit.period / limit.count);
                limit.count > 0 && releases.last().is_none_or(|last| now >= last.at + gap(last))
            }
            "bucket" => self.level(limit, releases, now, since, cost) >= cost * limit.period,
            "fixed" => {
                let (mut start, mut used) = (None::<u64>, 0);
                for one in releases {
                    if start.is_none_or(|start| one.at >= start + limit.period) {
                        (start, used) = (Some(one.at), 0);
                    }
                    used += one.cost;
                }
                let is_over = start.is_none_or(|start| now >= start + limit.period);
                if is_over { cost <= limit.count } else { used + cost <= limit.count }
            }
            _ => {
                let (start, end) = self.period(limit, now);
                let (now, margin) = (i128::from(now), i128::from(limit.margin));
                let used = releases.iter().filter(|one| i128::from(one.at) >= start).map(|one| one.cost);
                start + margin <= now && now < end - margin && used.sum::<u64>() + cost <= limit.count
            }
        }
    }

    /// The level of the bucket, in units of which N accrue per minute and P make up a cost of 1.
    fn level(&self, limit: &Limit, releases: &[Release], now: u64, since: u64, cost: u64) -> u64 {
        let full = limit.count * limit.period;
        let (mut level, mut at) = (full, 0);
        let mut gain = |level: u64, to: u64, since: u64, cost: u64| {
            let mut level = level;
            for minute in at..to {
                let cap = if minute >= since { full.max(cost * limit.period) } else { full };
                level = (level + limit.count).min(cap);
            }
            at = to;
            level
        };
        for one in releases {
            level = gain(level, one.at, one.since, one.cost);
            let is_asked = self.is_asked(limit, one.at);
            let price = one.cost * limit.period;
            assert!(level >= price || !is_asked);
            level = level.saturating_sub(price);
        }
        gain(level, now, since, cost)
    }

    fn expected(&self, limits: &[Limit], items: &[(u64, u64)]) -> Vec<u64> {
        let mut releases: Vec<Release> = Vec::new();
        for &(arrival, cost) in items {
            let since = releases.last().map_or(arrival, |last| last.at.max(arrival));
            let is_allowed =
                |now: &u64| limits.iter().all(|limit| self.allows(limit, &releases, *now, since, cost));
            let at = (since..since + 40 * 1440).find(is_allowed).expect("some time");
            releases.push(Release { at, since, cost });
        }
        releases.into_iter().map(|one| one.at).collect()
    }
}

fn limit(random: &mut Rng, zone: &str, has_hours: bool) -> Limit {
    let kind =
        random.choice(["sliding", "interval", "bucket", "fixed", "calendar", "calendar"]).expect("a kind");
    let hours = random.bool().then(|| spans(random)).filter(|_| has_hours);
    let pauses = hours.is_some() && kind != "calendar" && random.u8(0..4) == 0;
    let count = if pauses { 0 } else { random.u64(2..=6) };
    let period = match kind {
        "calendar" => random.choice([1440, 1440, 720, 480, 60, 90]).expect("a period"),
        _ => count.max(1) * random.u64(10..400),
    };
    let margin = if kind == "calendar" { random.choice([0, 0, 7]).expect("a margin") } else { 0 };
    let during = hours.as_ref().map_or(String::new(), |(text, _)| format!(",during={text}"));
    let zone = if kind == "calendar" || hours.is_some() { format!(",tz={zone}") } else { String::new() };
    let padding = if margin > 0 { format!(",margin={margin}m") } else { String::new() };
    let text = format!("-r{count}/{period}m,algo={kind},cost=col:1{padding}{during}{zone}");
    Limit { text, kind, count, period, margin, during: hours.map(|(_, spans)| spans) }
}

/// Whether the hours leave out some of the week; if not, a pause never ends.
fn ends(limit: &Limit) -> bool {
    let mut minutes = (0..7).flat_map(|day| (0..96).map(move |quarter| (day, quarter * 15)));
    limit
        .during
        .as_ref()
        .is_none_or(|spans| minutes.any(|(day, minute)| !spans.iter().any(|span| span.holds(day, minute))))
}

/// The last year has a leap day.
#[test]
fn a_quota_of_a_year_begins_anew_on_the_first_of_january() {
    let args = ["-r1/y,algo=calendar,tz=UTC", "--dry-run", "--at=2026-12-31T23:59:58Z"];
    let days = |days: u64| days * 86_400 + 2;
    let told =
        format!("0.000000000\ta\n2.000000000\tb\n{}.000000000\tc\n{}.000000000\td\n", days(365), days(731));
    fed(&args, "a\nb\nc\nd\n").success().stdout(told);
}

#[test]
fn items_leave_at_the_first_minute_at_which_all_limits_agree() {
    for seed in seeds(6) {
        let random = &mut Rng::with_seed(seed);
        let (name, zone, start) = place(random);
        // Late enough that no clock is off by half a minute any more.
        let start = start.max(i128::from(3 * 366 * 1440 * MINUTE));
        let limits: Vec<_> = (0..random.u8(1..=3)).map(|at| limit(random, name, at == 0)).collect();
        if !limits.iter().all(ends) {
            continue;
        }
        // Items that never fit wait for the end of the hours.
        let most = limits
            .iter()
            .map(|limit| limit.count + 2 * u64::from(limit.during.is_some()))
            .min()
            .expect("one");
        let mut minute = 0;
        let items: Vec<_> = (0..12)
            .map(|_| {
                minute += match random.u8(0..4) {
                    0 | 1 => 0,
                    2 => random.u64(0..90),
                    _ => random.u64(0..700),
                };
                (minute, random.u64(1..=most.max(1)))
            })
            .collect();
        let args: Vec<_> = limits.iter().map(|limit| limit.text.as_str()).collect();
        println!("seed {seed}: {args:?} from {start}: {items:?}");
        let world = World { zone, start, firsts: RefCell::default() };
        let expected = world.expected(&limits, &items);
        let nanos = |minute: u64| u64::try_from(world.instant(minute)).expect("after 1970");
        let blocks = items
            .iter()
            .enumerate()
            .map(|(at, (minute, cost))| block(nanos(*minute), &[format!("{cost} {at}")]));
        let outcome = Simulation::new(&args).run(blocks.collect());
        assert_eq!(outcome.exit, Exit::Done);
        let found = outcome.releases.iter().flat_map(|one| {
            let minute = (i128::from(one.start) - start) / i128::from(MINUTE);
            one.lines.iter().map(move |_| u64::try_from(minute).expect("not before"))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(outcome.releases.iter().all(|one| (i128::from(one.start) - start) % i128::from(MINUTE) == 0));
    }
}

/// Runs items that all arrive at 0, with the wall clock set at these times. Everything is in minutes.
fn with_wall(args: &[&str], items: usize, settings: &[(u64, u64)]) -> Vec<u64> {
    let simulation = Simulation::new(args);
    let simulation =
        settings.iter().fold(simulation, |run, &(at, shown)| run.wall_set(at * MINUTE, shown * MINUTE));
    let lines: Vec<_> = (0..items).map(|item| item.to_string()).collect();
    let outcome = simulation.run(vec![block(0, &lines)]);
    outcome.releases.iter().flat_map(|one| one.lines.iter().map(|_| one.start / MINUTE)).collect()
}

#[test]
fn a_clock_that_is_set_while_the_run_waits_is_followed() {
    let pause = ["-r0/s,during=10:00-12:00,tz=UTC"];
    assert_eq!(with_wall(&pause, 1, &[(0, 600)]), [120]);
    // The clock goes forward an hour after 5 minutes, or back an hour after 100.
    assert_eq!(with_wall(&pause, 1, &[(0, 600), (5, 665)]), [60]);
    assert_eq!(with_wall(&pause, 1, &[(0, 600), (100, 640)]), [180]);
    let quota = ["-r2/d,algo=calendar,tz=UTC"];
    assert_eq!(with_wall(&quota, 5, &[(0, 1430)]), [0, 0, 10, 10, 1450]);
    // A minute after midnight the clock goes back an hour: the new day continues when the clock reaches it again.
    assert_eq!(with_wall(&quota, 5, &[(0, 1430), (11, 1381)]), [0, 0, 10, 10, 1510]);
    assert_eq!(with_wall(&quota, 5, &[(0, 1430), (5, 1440)]), [0, 0, 5, 5, 1445]);
    // Items waiting under a key notice too.
    let quotas = ["-r1/d,algo=calendar,tz=UTC,key=re:[0-9]$"];
    assert_eq!(with_wall(&quotas, 13, &[(0, 1430), (5, 1440)])[10..], [5, 5, 5]);
}

/// Quotas and limits with hours, some per key, checked minute by minute while the clock is set repeatedly.
#[test]
fn at_random_what_waits_goes_by_the_clock_however_it_is_set() {
    for_each_seed(25, |random| {
        let [count, period] = [random.u64(1..4), random.u64(5..90)];
        let key = |random: &mut Rng| random.choice(["", ",key=re:^."]).expect("a key");
        let keys = [key(random), key(random)];
        let rates = [
            format!("{count}/d,algo=calendar,tz=UTC{}", keys[0]),
            format!("1/{period}m,during=09:00-17:00+22:00-02:00,tz=UTC{}", keys[1]),
        ];
        let (mut at, mut settings) = (0, vec![(0, 1440 + random.u64(0..1440))]);
        for _ in 0..random.u8(0..5) {
            at += random.u64(1..900);
            let &(before, shown) = settings.last().expect("one");
            let shown = shown + at - before;
            // A key that was evicted at midnight has used all of the day before, should that come back.
            let earliest = if keys[0].is_empty() { 0 } else { shown / 1440 * 1440 };
            settings.push((at, (shown + random.u64(0..400)).saturating_sub(200).max(earliest)));
        }
        let lines: Vec<_> =
            (0..random.u64(1..12)).map(|number| format!("{} {number}", random.u64(0..3))).collect();
        let simulation = Simulation::new(&["-r", &rates[0], "-r", &rates[1]]);
        let set = |run: Simulation, &(at, shown): &_| run.wall_set(at * MINUTE, shown * MINUTE);
        let outcome = settings.iter().fold(simulation, set).run(vec![block(0, &lines)]);
        let found = outcome
            .releases
            .iter()
            .flat_map(|one| one.lines.iter().map(|line| (one.start / MINUTE, line.clone())));
        let mut found: Vec<_> = found.collect();
        found.sort();
        let mut expected = by_the_clock(count, period, keys.map(|key| !key.is_empty()), &settings, &lines);
        expected.sort();
        assert_eq!(found, expected, "{rates:?} {settings:?}");
    });
}

/// The instants at which lines leave under a daily quota and a sliding window with hours. A line's first character is
/// its key.
fn by_the_clock(
    count: u64,
    period: u64,
    by_key: [bool; 2],
    settings: &[(u64, u64)],
    lines: &[String],
) -> Vec<(u64, String)> {
    let mut waiting: Vec<_> = lines.to_vec();
    let mut days: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let mut left = Vec::new();
    for minute in 0.. {
        let &(at, shown) = settings.iter().rfind(|(at, _)| *at <= minute).expect("the first");
        let shown = shown + minute - at;
        let is_asked = (540..1020).contains(&(shown % 1440)) || !(120..1320).contains(&(shown % 1440));
        waiting.retain(|line| {
            let [of_day, of_window] =
                by_key.map(|by_key| if by_key { line[..1].to_owned() } else { String::new() });
            let (day, used) = days.get(&of_day).copied().unwrap_or((0, 0));
            let today = shown / 1440;
            let is_full = today < day || (today == day && used == count);
            let waits = is_asked && last.get(&of_window).is_some_and(|last| minute < last + period);
            if is_full || waits {
                return true;
            }
            days.insert(of_day, (today, if today == day { used + 1 } else { 1 }));
            last.insert(of_window, minute);
            left.push((minute, line.clone()));
            false
        });
        if waiting.is_empty() {
            break;
        }
    }
    left
}

/// A waiting item keeps what has accrued for it.
#[test]
fn a_clock_that_is_set_takes_nothing_from_what_waits() {
    let rate = "-r1/s,algo=bucket,burst=2,cost=col:1,during=00:00-12:00,tz=UTC";
    let starts = |settings: &[(u64, u64)]| {
        let simulation = Simulation::new(&[rate]);
        let set = |run: Simulation, &(at, shown): &_| run.wall_set(at * SECOND, shown * SECOND);
        let outcome = settings.iter().fold(simulation, set).run(vec![block(0, &["10"])]);
        outcome.releases.iter().map(|one| one.start / SECOND).collect::<Vec<_>>()
    };
    assert_eq!(starts(&[(0, 0), (4, 64)]), starts(&[(0, 0)]));
}

#[test]
fn a_quota_that_is_paused_while_the_clock_is_set_goes_by_that_clock() {
    let (quota, hours) = ("1/d,algo=calendar,tz=UTC", "9/s,during=00:00-00:01,tz=UTC");
    let simulation = Simulation::new(&["-r", quota, "-r", hours])
        .wall_set(0, 1430 * MINUTE)
        .wall_set(4 * MINUTE, 1374 * MINUTE)
        .relimited(2 * MINUTE, &["0/s", hours])
        .relimited(6 * MINUTE, &[quota, hours]);
    // The second item arrives in the pause, just after the clock went back an hour.
    let outcome = simulation.run(vec![block(0, &["a"]), block(4 * MINUTE, &["b"])]);
    let starts: Vec<_> = outcome.releases.iter().map(|one| one.start / MINUTE).collect();
    assert_eq!(starts, [0, 70]);
}

/// They are charged at one instant, but the gap after them is that of a single release.
#[test]
fn what_leaves_together_outside_the_hours_is_not_one_release() {
    let rate = "-r1/10m,algo=interval,during=00:01-24:00,tz=UTC";
    let lines = ["a", "b", "c", "d", "e"];
    let outcome = Simulation::new(&[rate]).run(vec![block(0, &lines), block(MINUTE, &["f"])]);
    let last = outcome.releases.last().expect("a release");
    assert_eq!((last.lines.clone(), last.start), (vec!["f".to_owned()], 10 * MINUTE));
}

#[test]
fn a_limits_file_changes_hours_and_quotas_while_the_run_waits() {
    let run = |change: &[&str]| {
        let run = Simulation::new(&["-r1/h,during=00:00-12:00,tz=UTC"]).relimited(10 * MINUTE, change);
        let outcome = run.run(vec![block(0, &["a", "b", "c"])]);
        outcome
            .releases
            .iter()
            .flat_map(|one| one.lines.iter().map(|_| one.start / MINUTE))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(&["1/h,during=00:00-12:00,tz=UTC"]), [0, 60, 120]);
    assert_eq!(run(&["1/h,during=00:00-00:30,tz=UTC"]), [0, 30, 30]);
    assert_eq!(run(&["1/h"]), [0, 60, 120]);
    assert_eq!(run(&["0/s,during=00:00-02:00,tz=UTC"]), [0, 120, 120]);
}

/// Buckets are left out: an early release leaves a debt that the model does not know.
#[test]
fn an_audit_finds_what_the_limits_would_not_have_allowed() {
    for_each_seed(6, |random| {
        let (name, zone, start) = place(random);
        // Late enough that no clock is off by half a minute any more.
        let start = start.max(i128::from(3 * 366 * 1440 * MINUTE));
        let limit = limit(random, name, true);
        if limit.kind == "bucket" {
            return;
        }
        let world = World { zone, start, firsts: RefCell::default() };
        if !ends(&limit) {
            return;
        }
        let rate = limit.text[2..].parse::<Rate>().expect("a limit");
        println!("{rate} from {start}");
        let mut audit = Audit::new(&[rate]);
        let (mut releases, mut at) = (Vec::<Release>::new(), 0);
        for number in 0..60 {
            at += if random.bool() { random.u64(0..60) } else { random.u64(0..limit.period) };
            let cost = random.u64(1..=limit.count.max(1));
            let since = releases.last().map_or(at, |last| last.at);
            let is_allowed = world.allows(&limit, &releases, at, since, cost);
            let mut early = None;
            let instant = Time(u64::try_from(world.instant(at)).expect("after 1970"));
            audit.judge(number, instant, &[cost], &[], |found| early = Some((found.early, found.count)));
            assert_eq!(early.is_none(), is_allowed, "at {at}: {early:?}, {releases:?}");
            releases.push(Release { at, since, cost });
            if let Some((_, count)) = early.filter(|_| limit.kind == "calendar") {
                let (start, _) = world.period(&limit, at);
                let inside = releases.iter().filter(|one| i128::from(one.at) >= start).map(|one| one.cost);
                assert_eq!(count, inside.sum::<u64>(), "in the period of {at}: {releases:?}");
            }
        }
    });
}

/// A zone in which it is about noon, so that no day ends during the test.
#[cfg(any(feature = "sqlite", feature = "redis"))]
pub(crate) fn noon() -> String {
    // The signs in these names are reversed.
    let ahead = 12 - jiff::Timestamp::now().as_second().rem_euclid(86_400) / 3600;
    format!("Etc/GMT{:+}", -ahead)
}

/// The output of two runs of three items each, one after the other.
#[cfg(any(feature = "sqlite", feature = "redis"))]
fn twice(state: &str, rate: &str) -> [String; 2] {
    let rate = format!("{rate},tz={}", noon());
    let run = |()| {
        let run = fed(&["-q", "--on-limit=drop", "-s", state, "-r", &rate], "1\n2\n3\n");
        text(&run.get_output().stdout)
    };
    [(); 2].map(run)
}

/// Checks both outputs, and that the status contains `told`.
#[cfg(any(feature = "sqlite", feature = "redis"))]
fn check_shared(state: &str, rate: &str, expected: [&str; 2], told: &str) {
    assert_eq!(twice(state, rate), expected, "{rate}");
    let status = throttle(&["--status", "-s", state]).output().expect("output");
    assert!(text(&status.stdout).contains(told), "{rate}: {status:?}");
}

#[cfg(any(feature = "sqlite", feature = "redis"))]
const ALL: &str = "1\n2\n3\n";

#[cfg(any(feature = "sqlite", feature = "redis"))]
const SHARED: [(&str, [&str; 2], &str); 7] = [
    ("4/d,algo=calendar", [ALL, "1\n"], "4 used, 0 free, next slot in"),
    ("2/h,during=08:00-16:00", ["1\n2\n", ""], "2 used, 0 free, next slot in"),
    ("2/h,during=16:00-08:00", [ALL; 2], "0 used, 2 free, next slot now"),
    ("0/s,during=08:00-16:00", [""; 2], ""),
    ("0/s,algo=bucket,during=08:00-16:00", [""; 2], ""),
    ("0/s,during=16:00-08:00", [ALL; 2], "0 used, 0 free, next slot now"),
    ("0/s,algo=interval,during=16:00-08:00", [ALL; 2], "next slot now"),
];

/// One limit forbids what the other allows.
#[test]
fn limits_whose_hours_never_meet_are_told() {
    let rates = ["-r0/s,during=08:00-20:00,tz=UTC", "-r0/s,during=20:00-08:00,tz=UTC"];
    for verb in [&["--dry-run"][..], &[]] {
        let told = contains("check that the hours and margins of all limits have an instant in common");
        fed(&[&rates[..], verb].concat(), "1\n").code(1).stderr(told);
    }
}

#[test]
#[cfg(feature = "sqlite")]
fn runs_share_quotas_of_the_calendar_and_limits_with_hours_in_a_file() {
    let directory = crate::support::Directory::new();
    for (number, (rate, expected, told)) in SHARED.into_iter().enumerate() {
        let path = directory.path().join(format!("{number}.db"));
        check_shared(path.to_str().expect("UTF-8"), rate, expected, told);
    }
}

#[test]
#[cfg(feature = "redis")]
fn runs_share_quotas_of_the_calendar_and_limits_with_hours_on_a_server() {
    let Some(server) = crate::store::redis::server::RedisServer::start() else { return };
    for (number, (rate, expected, told)) in SHARED.into_iter().enumerate() {
        check_shared(&server.url(&number.to_string()), rate, expected, told);
    }
}
