//! Random changes of limits, judged by the actual releases: no limit in force is exceeded, counting all that limits of
//! the same algorithm, cost and key saw before it, whatever became of them in between.

use std::ops::Range;

use fastrand::Rng;
use throttle::cli;
use throttle::config::{Rate, parse_limits};
use throttle::exit::Exit;
use throttle::rule::Algorithm;
use throttle::time::SECOND;

use crate::random::Told;
use crate::simulated::{Change, Outcome, Release, Simulation, block};
use crate::support::{of_any_period, seeds};

/// The number of cases that take less than a second.
const CASES: u64 = 60;

const MINUTE: u64 = 60 * SECOND;

/// A common multiple of the periods of all rates, in units.
const COMMON_MULTIPLE: u64 = 360_360;

/// Successive lists of limits, and items.
struct Case {
    /// Each with the instant from which it is in force.
    lists: Vec<(u64, Vec<String>)>,
    items: Vec<(u64, String)>,
    /// The length of a unit of time, in nanoseconds.
    unit: u64,
    /// The most by which the world wakes late, and the most that a send takes.
    delays: (u64, u64),
    /// The start of the hours, for limits that have any.
    hours: u64,
    seed: u64,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        // Idle state is evicted after a second.
        let unit = if random.bool() { 1 } else { 300_000_000 };
        let kinds: Vec<_> = (0..random.u8(1..=2)).map(|_| kind(&mut random, unit)).collect();
        let mut lists = vec![(0, list(&mut random, unit, &kinds))];
        let mut at = 0;
        for _ in 0..random.u8(1..=6) {
            at += random.u64(0..=15) * unit;
            let next = next_list(&mut random, unit, &kinds, &lists);
            lists.push((at, next));
        }
        // In the end, everything can go.
        let last = |kind: &String| format!("5/{}ns{kind}", if is_calendar(kind) { SECOND } else { unit });
        lists.push((at + 10 * unit, kinds.iter().map(last).collect()));
        let items = items(&mut random, unit, at);
        let delays = if random.bool() { (0, 0) } else { (random.u64(0..3 * unit), random.u64(0..3 * unit)) };
        let hours = items[0].0 + random.u64(0..=at + 10 * unit);
        Case { lists, items, unit, delays, hours, seed }
    }

    fn run(&self) -> Outcome {
        let args: Vec<_> = self.lists[0].1.iter().flat_map(|rate| ["-r", rate]).collect();
        let simulation = Simulation::new(&args).late(self.seed, self.delays.0).slow(self.seed, self.delays.1);
        // The simulated clock starts with the first arrival.
        let simulation = simulation.wall_set(0, MINUTE - (self.hours - self.items[0].0));
        let changes = self.lists[1..].iter();
        let simulation = changes.fold(simulation, |simulation, (at, rates)| {
            simulation.relimited(*at, &rates.iter().map(String::as_str).collect::<Vec<_>>())
        });
        simulation.run(self.items.iter().map(|(at, line)| block(*at, &[line])).collect())
    }
}

/// The options of a kind of limit. Limits of one kind see the same releases.
fn kind(random: &mut Rng, unit: u64) -> String {
    let is_civil = unit > 1 && random.u8(0..4) == 0;
    let of_any_period = random.choice(of_any_period()).expect("an algorithm");
    let algorithm = if is_civil { "calendar" } else { of_any_period };
    let cost = random.choice(["", ",cost=col:1"]).expect("a cost");
    let key = random.choice(["", ",key=col:2", ",key=col:2", ",key=col:2,only=a"]).expect("a key");
    // Under other algorithms, more than the count may be released before the hours, which the model does not cover.
    let may_have_hours = ["sliding", "interval"].contains(&algorithm) && random.u8(0..3) == 0;
    let hours = if may_have_hours { ",during=00:01-24:00,tz=UTC" } else { "" };
    format!(",algo={algorithm}{cost}{key}{hours}")
}

fn is_calendar(kind: &str) -> bool {
    kind.contains("calendar")
}

/// A random period. Calendar periods divide a day.
fn period(random: &mut Rng, unit: u64, kind: &str) -> u64 {
    let seconds = random.choice([1, 2, 3, 4, 5, 10, 20]).expect("one");
    if is_calendar(kind) { seconds * SECOND } else { random.u64(1..=12) * unit }
}

/// Counts are at least as high as any cost, so that everything can go. A 0 in the first list would keep items from
/// being read.
fn list(random: &mut Rng, unit: u64, kinds: &[String]) -> Vec<String> {
    let rates = (0..random.u8(1..=3)).map(|_| {
        let kind = random.choice(kinds).expect("a kind");
        let mut rate = format!("{}/{}ns{kind}", random.u8(2..=6), period(random, unit, kind));
        if kind.contains("bucket") && random.bool() {
            rate = format!("{rate},burst={}", random.u8(0..=6));
        }
        if random.u8(0..8) == 0 && !is_calendar(kind) {
            rate = format!("{rate},margin={}ns", random.u64(1..=3) * unit);
        }
        if random.u8(0..8) == 0 {
            rate += ",start=empty";
        }
        rate
    });
    rates.collect()
}

/// Other limits, the same ones in another order, the ones before them, or a pause.
fn next_list(random: &mut Rng, unit: u64, kinds: &[String], lists: &[(u64, Vec<String>)]) -> Vec<String> {
    let (last, before) = (&lists[lists.len() - 1].1, &lists[lists.len().saturating_sub(2)].1);
    let mut next = match random.u8(0..10) {
        0..4 => list(random, unit, kinds),
        4..6 => [&last[..], &list(random, unit, kinds)[..1]].concat(),
        6..9 => before.clone(),
        _ => return vec!["0/s".to_owned()],
    };
    random.shuffle(&mut next);
    if random.u8(0..6) == 0 {
        let kind = random.choice(kinds).expect("a kind");
        next[0] = format!("0/{}ns{kind}", period(random, unit, kind));
    }
    next
}

/// Items with costs, keys and numbers.
fn items(random: &mut Rng, unit: u64, end: u64) -> Vec<(u64, String)> {
    let mut arrivals: Vec<_> = (0..random.u8(5..=60)).map(|_| random.u64(0..=end / unit) * unit).collect();
    arrivals.sort_unstable();
    let item = |(arrival, number)| {
        let key = random.choice(["a", "a", "b", "c"]).expect("a key");
        (arrival, format!("{} {key} {number}", random.u8(0..=2)))
    };
    arrivals.into_iter().zip(0..).map(item).collect()
}

/// The releases, and the limits they were under.
struct History<'a> {
    releases: &'a [Release],
    changes: &'a [Change],
    /// One more than there are changes.
    lists: &'a [Vec<Rate>],
    unit: u64,
    hours: u64,
}

impl History<'_> {
    /// The releases while a list was in force.
    fn releases_under(&self, list: usize) -> Range<usize> {
        let before = |at: usize| self.changes.get(at).map_or(self.releases.len(), |change| change.releases);
        let first = list.checked_sub(1).map_or(0, before);
        first..before(list)
    }

    /// When a list was in force.
    fn times(&self, list: usize) -> Range<u64> {
        let start = list.checked_sub(1).map_or(0, |before| self.changes[before].at);
        start..self.changes.get(list).map_or(u64::MAX, |change| change.at)
    }

    fn check(&self) {
        for list in 0..self.lists.len() {
            for rate in &self.lists[list] {
                self.releases_under(list).for_each(|release| self.check_release(list, rate, release));
            }
        }
    }

    fn check_release(&self, list: usize, rate: &Rate, release: usize) {
        let charge = Charge::new(rate, &self.releases[release]);
        if charge.cost == 0 || rate.during.is_some() && charge.start < self.hours {
            return;
        }
        let known = self.known_since(list, rate);
        let charges =
            (self.releases_under(known).start..=release).map(|at| Charge::new(rate, &self.releases[at]));
        let charges: Vec<_> = charges
            .filter(|other| other.cost > 0 && (rate.only.is_some() || other.key == charge.key))
            .collect();
        let is_kept = rate.count > 0
            && match rate.algorithm {
                Algorithm::Sliding => in_window(rate, &charges) <= rate.count,
                Algorithm::Interval => is_apart(rate, &charges),
                Algorithm::Fixed => {
                    in_window(rate, &charges) <= rate.count + self.most(known, list, rate, &charge)
                }
                Algorithm::Calendar => self.in_period(rate, &charges) <= rate.count,
                Algorithm::Bucket => {
                    (0..charges.len()).all(|first| self.is_filled(known..list + 1, rate, &charges[first..]))
                }
            };
        assert!(is_kept, "{rate} is exceeded by {:?}: {charges:?}", self.releases[release]);
    }

    /// The first of the consecutive lists up to this one that all contain something that knows what `rate` counts.
    fn known_since(&self, list: usize, rate: &Rate) -> usize {
        let knows = |other: &Rate| is_alike(rate, other) || is_for_all(other);
        let lists = (0..=list).rev().take_while(|at| self.lists[*at].iter().any(knows));
        lists.last().expect("the list itself")
    }

    /// The highest count of like limits during the window that ends with `charge`.
    fn most(&self, known: usize, list: usize, rate: &Rate, charge: &Charge) -> u64 {
        let is_in_window =
            |at: &usize| self.times(*at).end > charge.start.saturating_sub(rate.period + rate.margin);
        let lists = (known..=list).filter(is_in_window).flat_map(|at| &self.lists[at]);
        lists.filter(|other| is_alike(rate, other)).map(|rate| rate.count).max().unwrap_or(0)
    }

    /// The total cost in the civil period of the last charge.
    fn in_period(&self, rate: &Rate, charges: &[Charge]) -> u64 {
        let period = |at: u64| (MINUTE - self.hours + at) / rate.period;
        let last = period(charges.last().expect("a charge").start);
        charges.iter().filter(|charge| period(charge.end) >= last).map(|charge| charge.cost).sum()
    }

    /// Whether a bucket, as full as any could be at the first of these charges, had enough for all of them.
    fn is_filled(&self, lists: Range<usize>, rate: &Rate, charges: &[Charge]) -> bool {
        let (first, last) = (&charges[0], &charges[charges.len() - 1]);
        let (mut burst, mut speed, mut accrued) = (first.cost, 0, 0);
        for list in lists {
            let alike = self.lists[list].iter().filter(|other| is_alike(rate, other) && other.count > 0);
            let times = self.times(list);
            if times.start <= first.end {
                burst = alike.clone().filter_map(|rate| rate.burst).fold(burst, u64::max);
            }
            // A paused bucket fills up as before.
            let paused = self.lists[list].iter().any(Rate::pauses).then_some(speed);
            speed = alike.map(|rate| self.speed(rate)).chain(paused).max().unwrap_or(speed);
            let (from, until) = (times.start.max(first.end), times.end.min(last.start));
            accrued += u128::from(speed) * u128::from(until.saturating_sub(from));
        }
        let sum: u64 = charges.iter().map(|charge| charge.cost).sum();
        u128::from(sum.saturating_sub(burst)) * u128::from(COMMON_MULTIPLE * self.unit) <= accrued
    }

    /// The amount that accrues per nanosecond.
    fn speed(&self, rate: &Rate) -> u64 {
        rate.count * (COMMON_MULTIPLE / ((rate.period + rate.margin) / self.unit))
    }
}

/// Whether it pauses all items. A count of 0 with hours is no pause.
fn is_for_all(rate: &Rate) -> bool {
    rate.pauses() && rate.cost.is_none() && rate.only.is_none()
}

/// Whether both see the same releases by the same rule.
fn is_alike(a: &Rate, b: &Rate) -> bool {
    (a.algorithm, &a.cost, &a.key, &a.only) == (b.algorithm, &b.cost, &b.key, &b.only)
}

/// What a limit is charged for a release.
#[derive(Debug)]
struct Charge<'a> {
    start: u64,
    end: u64,
    cost: u64,
    key: &'a str,
}

impl<'a> Charge<'a> {
    fn new(rate: &Rate, release: &'a Release) -> Self {
        let fields: Vec<_> = release.lines[0].split(' ').collect();
        let key = if rate.key.is_some() { fields[1] } else { "" };
        let cost = match (&rate.only, &rate.cost) {
            (Some(only), _) if only != key => 0,
            (_, None) => 1,
            (_, Some(_)) => fields[0].parse().expect("a cost"),
        };
        Charge { start: release.start, end: release.end, cost, key }
    }
}

/// The total cost in the window that ends with the last charge.
fn in_window(rate: &Rate, charges: &[Charge]) -> u64 {
    let last = charges.last().expect("a charge");
    let in_window = charges.iter().filter(|charge| charge.end + rate.period + rate.margin > last.start);
    in_window.map(|charge| charge.cost).sum()
}

/// Whether the gap before the last charge was kept.
fn is_apart(rate: &Rate, charges: &[Charge]) -> bool {
    let [.., before, last] = charges else { return true };
    last.start.saturating_sub(before.end) * rate.count >= before.cost * (rate.period + rate.margin)
}

fn for_each_case(check: impl Fn(&Case)) {
    for seed in seeds(CASES) {
        let case = Case::new(seed);
        let Case { lists, items, delays, hours, .. } = &case;
        let _told = Told { seed, case: || format!("{lists:#?}\n{items:?}\n{delays:?} {hours}") };
        check(&case);
    }
}

fn rates(list: &[String]) -> Vec<Rate> {
    let config = cli::parse(["throttle", "-r1/s"].map(Into::into)).expect("a command line");
    parse_limits(&list.join("\n"), &config.limits.defaults).expect("limits")
}

#[test]
fn no_limit_is_exceeded_by_what_those_before_it_have_seen() {
    for_each_case(|case| {
        let Outcome { releases, exit, changes, .. } = case.run();
        assert_eq!((exit, releases.len()), (Exit::Done, case.items.len()));
        let lists: Vec<_> = case.lists.iter().map(|(_, list)| rates(list)).collect();
        // Changes after the last release do not matter.
        let lists = &lists[..=changes.len()];
        History { releases: &releases, changes: &changes, lists, unit: case.unit, hours: case.hours }.check();
    });
}

/// Nor does changing it delay anything.
#[test]
fn the_order_of_limits_does_not_matter() {
    for_each_case(|case| {
        let mut random = Rng::with_seed(case.seed);
        let (first, end) = (&case.lists[0].1, case.items.last().map_or(0, |(at, _)| *at));
        let changed = |lists: Vec<Vec<String>>| Case {
            lists: lists
                .into_iter()
                .enumerate()
                .map(|(at, list)| (at as u64 * (end / 6 + 1), list))
                .collect(),
            items: case.items.clone(),
            delays: (0, 0),
            ..*case
        };
        let shuffled = (0..6).map(|_| {
            let mut list = first.clone();
            random.shuffle(&mut list);
            list
        });
        let lists = [first.clone()].into_iter().chain(shuffled).collect();
        assert_eq!(changed(lists).run().releases, changed(vec![first.clone()]).run().releases);
    });
}

/// An empty bucket fills up for an item from the previous release on, not from the last one that it was charged for.
#[test]
fn what_waits_remembers_the_release_before_it_when_limits_change() {
    let rates = ["2/10ns,algo=bucket,cost=col:1,burst=0", "1/7ns,algo=interval"];
    for changes in 0..3 {
        let simulation = Simulation::new(&["-r", rates[0], "-r", rates[1]]);
        let simulation = (0..changes)
            .fold(simulation, |simulation, at| simulation.relimited(18 + at, &[rates[1], rates[0]]));
        let outcome = simulation.run(vec![block(0, &["2 x", "0 y", "2 z"])]);
        let starts: Vec<_> = outcome.releases.iter().map(|release| release.start).collect();
        assert_eq!(starts, [10, 17, 27], "{changes}");
    }
}

/// Releases outside its hours count under it, as under any limit.
#[test]
fn a_count_of_0_at_some_hours_keeps_its_history() {
    let rate = |count: u8| format!("{count}/10ns,during=00:01-24:00,tz=UTC");
    let simulation = Simulation::new(&["-r", &rate(2)]).wall_set(0, MINUTE - 5);
    let simulation = simulation.relimited(1, &[&rate(0)]).relimited(3, &[&rate(2)]);
    let outcome = simulation.run(vec![block(0, &["a"]), block(2, &["b"]), block(6, &["c", "d"])]);
    let starts: Vec<_> = outcome.releases.iter().map(|release| release.start).collect();
    assert!(starts[1] == 2 && starts[2] >= 10 && starts[3] >= 12, "{starts:?}");
}
