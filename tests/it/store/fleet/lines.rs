//! Random lines of several keys and costs, under random limits, alone and in batches.

use std::collections::BTreeMap;
use std::fmt;

use fastrand::Rng;

use super::{MILLI, faults, for_each_case, for_each_seed_of};
use crate::simulated::fleet::{Arrivals, Batch, Faults, run_lines};
use crate::support::seeds;

pub(super) const KEYS: [&str; 3] = ["a", "b", "c"];

/// The most that an item costs.
pub(super) const MOST: u64 = 5;

const NOON: u64 = 12 * 3600 * 1000 * MILLI;

/// The wall clock begins three seconds before noon.
pub(super) const HOURS: [&str; 2] = ["00:00-12:00", "12:00-24:00"];

/// A limit; its period is in milliseconds.
#[derive(Clone)]
pub(super) struct Limit {
    pub(super) algorithm: &'static str,
    pub(super) count: u64,
    pub(super) period: u64,
    pub(super) burst: u64,
    pub(super) has_cost: bool,
    pub(super) is_by_key: bool,
    pub(super) only: Option<&'static str>,
    pub(super) hours: Option<&'static str>,
    /// Of each process alone.
    pub(super) is_local: bool,
}

/// A release, with what the wall clock shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charged {
    pub(super) at: u64,
    pub(super) shown: u64,
    pub(super) cost: u64,
}

impl Limit {
    fn new(random: &mut Rng, is_by_key: bool, hours: Option<&'static str>) -> Self {
        let has_cost = random.bool();
        let dearest = if has_cost { MOST } else { 0 };
        let algorithm = random.choice(["sliding", "interval", "bucket", "fixed", "calendar"]).expect("one");
        let period = if algorithm == "calendar" { random.u64(1..=3) * 1000 } else { random.u64(20..300) };
        let count = random.u64(1..12) + dearest;
        Limit {
            algorithm,
            count,
            period,
            // A slot may cost one less than the burst.
            burst: random.u64(1..=count) + dearest,
            has_cost,
            is_by_key,
            only: random.choice(KEYS).filter(|_| is_by_key && random.u8(0..3) == 0),
            hours: hours.filter(|_| random.bool()),
            is_local: false,
        }
    }

    /// A limit of each process alone, which need not have the same key as the others.
    fn local(random: &mut Rng, hours: Option<&'static str>) -> Self {
        let is_by_key = random.bool();
        Limit { is_local: true, ..Limit::new(random, is_by_key, hours) }
    }

    pub(super) fn key<'a>(&self, line: &'a str) -> Option<&'a str> {
        let key = &line[2..];
        let is_meant = self.only.is_none_or(|only| only == key);
        is_meant.then_some(if self.is_by_key { key } else { "" })
    }

    /// What a batch costs, the same for all algorithms.
    pub(super) fn cost(&self, lines: &[String]) -> u64 {
        if self.has_cost { lines.iter().map(|line| cost(line)).sum() } else { 1 }
    }

    pub(super) fn is_asked(&self, shown: u64) -> bool {
        let is_morning = (shown / NOON).is_multiple_of(2);
        self.hours.is_none_or(|hours| (hours == HOURS[0]) == is_morning)
    }

    /// Checks releases in order of time, against all that were before them.
    pub(super) fn check(&self, releases: &[Charged]) {
        // What costs more than the burst goes later; no slot can be for it.
        let dearest = releases.iter().map(|release| release.cost).max().filter(|_| self.is_local);
        let burst = dearest.unwrap_or(0).max(self.burst);
        for (at, last) in releases.iter().enumerate().filter(|(_, last)| self.is_asked(last.shown)) {
            let mut before = 0;
            for first in releases[..at].iter().rev() {
                before += first.cost;
                let together = before + last.cost;
                assert!(
                    self.allows(burst, first, before, last),
                    "{self}: {together} at once, {first:?}, {releases:?}"
                );
            }
        }
    }

    /// Whether releases from `first` on, which cost as much as is said, allow one more, the `last`.
    fn allows(&self, burst: u64, first: &Charged, before: u64, last: &Charged) -> bool {
        let (apart, period) = (last.at - first.at, self.period * MILLI);
        let accrued = u128::from(apart) * u128::from(self.count);
        let is_paid = |cost: u64| accrued >= u128::from(cost) * u128::from(period);
        let together = before + last.cost;
        match self.algorithm {
            "sliding" => apart >= period || together <= self.count,
            "interval" if self.is_asked(first.shown) => is_paid(before),
            // Of several before the hours, only the last keeps its gap, and each only its own if any of them may be it.
            "interval" => self.is_local && before > first.cost || is_paid(first.cost),
            "calendar" => first.shown / period != last.shown / period || together <= self.count,
            // Of what was released before the hours, no debt is left.
            _ if !self.is_asked(first.shown) => true,
            "fixed" => apart >= period || together <= 2 * self.count,
            _ => is_paid(together.saturating_sub(burst)),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-r{}/{}ms,algo={}", self.count, self.period, self.algorithm)?;
        if self.algorithm == "bucket" {
            write!(f, ",burst={}", self.burst)?;
        }
        if self.has_cost {
            f.write_str(",cost=col:1")?;
        }
        if self.is_by_key {
            f.write_str(",key=col:2")?;
        }
        self.only.iter().try_for_each(|only| write!(f, ",only={only}"))?;
        self.hours.iter().try_for_each(|hours| write!(f, ",during={hours}"))?;
        let goes_by_wall = self.hours.is_some() || self.algorithm == "calendar";
        f.write_str(if goes_by_wall { ",tz=UTC" } else { "" })?;
        f.write_str(if self.is_local { ",local" } else { "" })
    }
}

fn cost(line: &str) -> u64 {
    line[..1].parse().expect("a digit")
}

fn arrivals(random: &mut Rng, span: u64) -> Arrivals {
    let mut instants: Vec<_> = (0..random.usize(0..25)).map(|_| random.u64(0..=span)).collect();
    instants.sort_unstable();
    let mut line = || format!("{} {}", random.u64(0..=MOST), random.choice(KEYS).expect("one"));
    instants.into_iter().map(|at| (at, line())).collect()
}

/// The options of a run. Where batches cost as much as their items, nothing may be dropped.
fn options(random: &mut Rng, has_costs: bool) -> Vec<String> {
    let mut options = vec!["-sfleet".to_owned()];
    let batch = match random.u8(0..3) {
        0 => None,
        1 => Some(format!("-B{}", random.u8(2..6))),
        _ => Some(format!("-B{},{}ms", random.u8(2..6), random.u8(0..90))),
    };
    if random.bool() {
        options.push("--in-order".to_owned());
    }
    if random.u8(0..3) == 0 && (batch.is_none() || !has_costs) {
        let mode = random.choice(["drop", "drop", "latest"]).expect("one");
        options.push(format!("--on-limit={mode}"));
    }
    if random.u8(0..6) == 0 {
        options.push(format!("--max-wait={}ms", random.u64(90..900)));
    }
    options.extend(batch);
    options
}

/// Each key of a process has left in the order in which it came, and all of it.
fn check_order(arrivals: &Arrivals, released: &[&Batch], has_all: bool) {
    for key in KEYS {
        let is_meant = |line: &&String| line.ends_with(key);
        let mut left = released.iter().flat_map(|batch| &batch.release.lines).filter(is_meant);
        let mut came = arrivals.iter().map(|(_, line)| line).filter(is_meant);
        assert!(left.all(|line| came.any(|other| other == line)), "the order of {key}");
        assert!(!has_all || came.next().is_none(), "all of {key} is released");
    }
}

/// Runs processes with these lines under these limits, and checks all releases.
fn check(
    seed: u64,
    limits: &[Limit],
    options: Vec<String>,
    arrivals: &[Arrivals],
    span: u64,
    faults: Faults,
) {
    let args: Vec<_> = limits.iter().map(Limit::to_string).chain(options).collect();
    println!("{args:?} {faults:?}\n{arrivals:?}");
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let (mut batches, _) = run_lines(&args, arrivals.to_vec(), span, seed, faults);
    let drops = args.iter().any(|arg| arg.starts_with("--on-limit") || arg.starts_with("--max-wait"));
    for (process, arrivals) in arrivals.iter().enumerate() {
        let own: Vec<_> = batches.iter().filter(|batch| batch.process == process).collect();
        check_order(arrivals, &own, !drops && faults.death == u64::MAX);
    }
    batches.sort_by_key(|batch| batch.release.start);
    for limit in limits {
        let mut by_key = BTreeMap::<_, Vec<_>>::new();
        for Batch { release, shown, process, .. } in &batches {
            let cost = limit.cost(&release.lines);
            if let Some(key) = limit.key(&release.lines[0]).filter(|_| cost > 0) {
                let charged = Charged { at: release.start, shown: *shown, cost };
                let process = limit.is_local.then_some(process);
                by_key.entry((process, key)).or_default().push(charged);
            }
        }
        by_key.values().for_each(|releases| limit.check(releases));
    }
}

#[test]
fn shared_limits_are_kept_for_all_keys_and_costs_and_in_batches() {
    // In the last one, a cheap slot just before the hours follows a dear one.
    for_each_seed_of(seeds(40).chain([700_389]), |seed, random| {
        let is_by_key = random.bool();
        // Under limits whose hours complement one another, an expensive batch might never leave.
        let hours = random.choice(HOURS).filter(|_| random.bool());
        let mut limits: Vec<_> = (0..random.u8(1..4)).map(|_| Limit::new(random, is_by_key, hours)).collect();
        let locals: Vec<_> = (0..random.u8(0..3)).map(|_| Limit::local(random, hours)).collect();
        limits.extend(locals);
        let span = random.choice([1000, 6000]).expect("one") * MILLI;
        let stall = random.choice([0, 0, 5, 500]).expect("one") * MILLI;
        let faults = Faults { stall, ..faults(random) };
        let costs = limits.iter().any(|limit| limit.has_cost);
        let options = options(random, costs);
        let arrivals: Vec<_> = (0..random.usize(1..6)).map(|_| arrivals(random, span)).collect();
        check(seed, &limits, options, &arrivals, span, faults);
    });
}

/// Much arrives just before the hours of one limit, of all processes or of each.
#[test]
fn what_leaves_outside_the_hours_counts_in_them() {
    for_each_case(40, |seed, random| {
        let limit = Limit { is_local: random.u8(0..4) == 0, ..Limit::new(random, false, None) };
        // A batch that never fits would wait for the end of the hours.
        let dearest = 5 * MOST;
        let (count, burst) = (limit.count.max(dearest), limit.burst.max(dearest + 1));
        let limit = if random.bool() {
            Limit { algorithm: "interval", count: random.u64(1..12), ..limit }
        } else {
            Limit { count, burst, ..limit }
        };
        let limit = Limit { has_cost: true, hours: Some(HOURS[1]), ..limit };
        let wide = Limit { algorithm: "sliding", count: 1000, period: 300, hours: None, ..limit.clone() };
        let arrivals = (0..random.usize(1..4)).map(|_| {
            let arrivals = arrivals(random, 500 * MILLI).into_iter();
            arrivals.map(|(at, line)| (at + 2600 * MILLI, line)).collect::<Arrivals>()
        });
        let arrivals: Vec<_> = arrivals.collect();
        let options = options(random, true);
        check(seed, &[limit, wide], options, &arrivals, 4000 * MILLI, faults(random));
    });
}
