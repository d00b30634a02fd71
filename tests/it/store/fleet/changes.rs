//! The limits of a state are replaced while many processes share it, in each vault.
//!
//! Each release is judged by the limits that its process had followed by then, with all releases before it, whatever
//! limits these were made under.

mod bookings;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use fastrand::Rng;
use throttle::charge::Key;
use throttle::config::Rate;
use throttle::exit::Exit;
use throttle::store::{Order, Policy, Reserve, Store, VaultStore};
use throttle::time::{Time, Wall};

use super::lines::{HOURS, KEYS, Limit, MOST};
use super::{MILLI, for_each_seed_of};
use crate::memory_store::MemoryVault;
use crate::simulated::fleet::{Arrivals, Batch, Faults, Followed, Ran, run_over};
use crate::simulated::vault::{InMemory, Trouble, Vault, set_limits};
use crate::support::seeds;

/// Limits that are in force together.
type List = Vec<Limit>;

/// What the dearest item costs, for a limit that can mostly meet all items. With hours, it would wait for their end.
fn dearest(random: &mut Rng, has_cost: bool, has_hours: bool) -> u64 {
    if has_cost && (has_hours || random.u8(..6) > 0) { MOST } else { 0 }
}

/// All limits have the same key, or none.
fn list(random: &mut Rng, has_calendar: bool, is_by_key: bool) -> List {
    let algorithms = if has_calendar { 5 } else { 4 };
    let limit = |random: &mut Rng| {
        let algorithm = ["sliding", "interval", "bucket", "fixed", "calendar"][random.usize(..algorithms)];
        let has_cost = random.u8(..3) == 0;
        let may_have_hours = has_calendar && ["sliding", "interval"].contains(&algorithm);
        let hours = random.choice(HOURS).filter(|_| may_have_hours && random.u8(..4) == 0);
        let dearest = dearest(random, has_cost, hours.is_some());
        let count = random.u64(1..12) + dearest;
        let period = random.u64(1..=4) * if algorithm == "calendar" { 1000 } else { random.u64(50..1000) };
        let burst = random.u64(1..=count) + dearest;
        Limit { algorithm, count, period, burst, has_cost, is_by_key, is_local: false, only: None, hours }
    };
    (0..random.u8(1..=3)).map(|_| limit(random)).collect()
}

/// Another list: often the same limits with other numbers.
fn next(random: &mut Rng, has_calendar: bool, last: &List) -> List {
    let is_by_key = last[0].is_by_key != (random.u8(..12) == 0);
    let mut next = list(random, has_calendar, is_by_key);
    if random.u8(..3) > 0 {
        next.clone_from(last);
        next.iter_mut().for_each(|limit| {
            let dearest = dearest(random, limit.has_cost, limit.hours.is_some());
            limit.is_by_key = is_by_key;
            limit.count = random.u64(1..12) + dearest;
            limit.burst = random.u64(1..=limit.count) + dearest;
            if limit.algorithm != "calendar" {
                limit.period = random.u64(50..4000);
            } else if random.bool() {
                limit.period = random.u64(1..=4) * 1000;
            }
        });
        if random.u8(..4) == 0 {
            next.truncate(1);
        }
    }
    next
}

/// Milliseconds for which a slot is good.
const MARGIN: u64 = 5;

fn text(limit: &Limit) -> String {
    format!("{limit},margin={MARGIN}ms").replacen("-r", "", 1)
}

/// True if no slot can ever be for this line.
fn is_bad(limit: &Limit, line: &String) -> bool {
    let most = match limit.algorithm {
        "interval" => u64::MAX,
        "bucket" => limit.burst.saturating_sub((limit.count * MARGIN).div_ceil(limit.period)).max(1),
        _ => limit.count,
    };
    limit.hours.is_none() && limit.cost(std::slice::from_ref(line)) > most
}

fn rates(list: &List) -> Vec<Rate> {
    list.iter().map(|limit| text(limit).parse().expect("a rate")).collect()
}

/// The changes of a run.
struct Case {
    /// Each list, and when it takes the place of the one before.
    lists: Vec<(u64, List)>,
    /// False if who set the list died before.
    in_force: Vec<bool>,
}

/// A release, as a limit counts it.
struct Charged {
    at: u64,
    shown: u64,
    cost: u64,
    list: usize,
}

impl Case {
    fn new(random: &mut Rng, has_calendar: bool, end: u64) -> Self {
        let is_by_key = random.bool();
        let mut lists = vec![(0, list(random, has_calendar, is_by_key))];
        for _ in 0..random.u8(1..=4) {
            let (at, last) = lists.last().expect("one");
            let next = (at + random.u64(0..=end / 2), next(random, has_calendar, last));
            lists.push(next);
        }
        Case { in_force: vec![true; lists.len()], lists }
    }

    /// The list that a process follows.
    fn followed(&self, (at, rates): &Followed) -> usize {
        let is_it = |(since, list): &(u64, List)| since <= at && self::rates(list) == *rates;
        self.lists.iter().rposition(is_it).expect("one of the lists")
    }

    /// The lists that a release may be made under: those its process follows, and the one in force, which others may
    /// have followed before.
    fn lists_of(&self, batch: &Batch) -> Vec<usize> {
        let mut lists = match &batch.limits[..] {
            [] => vec![0],
            // At the very instant at which it followed the first one.
            [first] if first.0 == batch.release.start => vec![0, self.followed(first)],
            limits => limits.iter().map(|limits| self.followed(limits)).collect(),
        };
        let is_in_force = |at: &usize| self.in_force[*at] && self.lists[*at].0 <= batch.release.start;
        lists.extend((0..self.lists.len()).rev().find(is_in_force));
        lists
    }

    /// Checks that a process has released all its items, or all before one that no slot can be for.
    fn check_end(&self, arrivals: &Arrivals, batches: &[&Batch], (exit, followed): &(Exit, Vec<Followed>)) {
        let mut released: Vec<_> = batches.iter().flat_map(|batch| &batch.release.lines).collect();
        let mut is_left = |(_, line): &&(u64, String)| {
            let place = released.iter().position(|released| *released == line);
            place.map(|place| released.swap_remove(place)).is_none()
        };
        let Some((arrival, line)) = arrivals.iter().find(|arrival| is_left(arrival)) else {
            assert_eq!(*exit, Exit::Done);
            return;
        };
        let at_first = followed.partition_point(|(at, _)| at < arrival);
        let lists = followed[at_first.saturating_sub(1)..].iter().map(|limits| self.followed(limits));
        let lists = lists.chain((at_first == 0).then_some(0));
        let is_bad = |list: usize| self.lists[list].1.iter().any(|limit| is_bad(limit, line));
        assert_eq!(*exit, Exit::Error, "{line} of {arrival} is left");
        assert!(lists.into_iter().any(is_bad), "{line} of {arrival} is rejected");
    }

    fn check(&self, batches: &[Batch]) {
        for (last, batch) in batches.iter().enumerate() {
            let lists = self.lists_of(batch);
            let found: Vec<_> = lists.iter().map(|list| self.flaw(*list, &batches[..=last])).collect();
            assert!(found.iter().any(Option::is_none), "{found:?}");
        }
    }

    /// What is wrong with the last release under a list.
    fn flaw(&self, list: usize, batches: &[Batch]) -> Option<String> {
        self.lists[list].1.iter().find_map(|limit| {
            let key = limit.key(&batches.last()?.release.lines[0]);
            let of_key = batches.iter().filter(|batch| limit.key(&batch.release.lines[0]) == key);
            let charged = of_key.map(|batch| Charged {
                at: batch.release.start,
                shown: batch.shown,
                cost: limit.cost(&batch.release.lines),
                list: self.lists_of(batch)[0],
            });
            let charged: Vec<_> = charged.filter(|charged| charged.cost > 0).collect();
            let is_charged = limit.cost(&batches.last()?.release.lines) > 0;
            let is_kept = !is_charged || self.is_kept(list, limit, &charged);
            (!is_kept).then(|| {
                let told: Vec<_> = charged
                    .iter()
                    .map(|one| (one.at / MILLI, one.shown / MILLI, one.cost, one.list))
                    .collect();
                format!("{limit} of list {list} is exceeded by {:?}: {told:?}", batches.last())
            })
        })
    }

    /// The highest count of a limit and of those of earlier `lists` that it goes on from, each from the nearest.
    fn most_of_predecessors(&self, limit: &Limit, lists: Range<usize>) -> u64 {
        let counts = lists.rev().filter(|list| self.in_force[*list]).scan(limit, |limit, list| {
            let alike = self.lists[list].1.iter().filter(|other| is_alike(other, limit));
            *limit = alike.min_by_key(|other| distance(other, limit))?;
            Some(limit.count)
        });
        counts.fold(limit.count, u64::max)
    }

    fn is_kept(&self, list: usize, limit: &Limit, releases: &[Charged]) -> bool {
        let [rest @ .., newest] = releases else { return true };
        if !limit.is_asked(newest.shown) {
            return true;
        }
        let alike = |at: &usize| self.lists[*at].1.iter().filter(|other| is_alike(other, limit));
        // A bucket that goes on from another keeps its level.
        let goes_on = |at: &usize| !self.in_force[*at] || alike(at).next().is_some();
        let known = (0..=list).rev().take_while(goes_on).last().expect("itself");
        let most = |number: fn(&Limit) -> u64, first: usize| {
            (first.min(list)..=list).flat_map(|at| alike(&at).map(number)).max().unwrap_or(0)
        };
        let period = limit.period * MILLI;
        if limit.algorithm == "calendar" {
            // Limits that know no periods do not know what the clock showed then.
            let shown = |one: &Charged| [one.shown, newest.shown - (newest.at - one.at)];
            let is_in_it = |one: &&Charged| {
                let has_shown = if one.list < known { &shown(one)[..] } else { &shown(one)[..1] };
                has_shown.iter().all(|shown| shown / period == newest.shown / period)
            };
            return releases.iter().filter(is_in_it).map(|one| one.cost).sum::<u64>() <= limit.count;
        }
        let mut together = newest.cost;
        rest.iter().rev().enumerate().all(|(nth, first)| {
            together += first.cost;
            let apart = newest.at - first.at;
            match limit.algorithm {
                "sliding" => apart >= period || together <= limit.count,
                "fixed" => apart >= period || together <= limit.count + most(|limit| limit.count, known),
                "interval" => {
                    // What was not known, or may have been hidden by a slot after it, counts as N.
                    let most = match first.list {
                        first if first < known => limit.count,
                        first if first < list => self.most_of_predecessors(limit, first..list),
                        _ => u64::MAX,
                    };
                    nth > 0 || apart * limit.count >= first.cost.min(most) * period
                }
                _ if first.list < known => true,
                _ => {
                    let speed = |list: usize| {
                        alike(&list).map(|limit| (limit.count, limit.period)).max_by_key(|(count, period)| {
                            u128::from(*count) * 1_000_000_000 / u128::from(*period)
                        })
                    };
                    let accrued = (first.list.min(list)..=list).filter_map(speed).map(|(count, period)| {
                        (u128::from(apart) * u128::from(count)).div_ceil(u128::from(period * MILLI))
                    });
                    let burst = most(|limit| limit.burst, first.list);
                    u128::from(together.saturating_sub(burst)) <= accrued.max().unwrap_or(0)
                }
            }
        })
    }
}

/// How far the terms of two limits lie apart: the ratio of their periods, then of their counts.
fn distance(a: &Limit, b: &Limit) -> [u128; 2] {
    let ratio = |a: u64, b: u64| (u128::from(a.max(b)) << 64) / u128::from(a.min(b));
    [ratio(a.period + MARGIN, b.period + MARGIN), ratio(a.count, b.count)]
}

/// True if the releases that both limits counted are the same, by the same rule.
fn is_alike(a: &Limit, b: &Limit) -> bool {
    (a.algorithm, a.has_cost, a.is_by_key) == (b.algorithm, b.has_cost, b.is_by_key)
}

fn check(vault: Box<dyn Vault>, has_calendar: bool, seed: u64, random: &mut Rng) {
    let end = random.u64(3_000..15_000) * MILLI;
    let mut case = Case::new(random, has_calendar, end);
    let changes = case.lists[1..].iter().map(|(at, list)| {
        let swaps = if random.bool() { usize::MAX } else { random.usize(0..5) };
        (*at, Trouble::Limits(rates(list), swaps))
    });
    let mut troubles: Vec<_> = changes.collect();
    for (at, (_, trouble)) in troubles.iter().enumerate() {
        case.in_force[at + 1] = !matches!(trouble, Trouble::Limits(_, 0));
    }
    for _ in 0..random.u8(..3) {
        let (at, length) = (random.u64(0..end), random.u64(0..1200) * MILLI);
        troubles.push((at, if random.bool() { Trouble::Stop(length) } else { Trouble::Away(length) }));
    }
    troubles.sort_by_key(|(at, _)| *at);
    let arrivals = (0..random.usize(1..6)).map(|_| {
        let mut instants: Vec<_> = (0..random.usize(1..25)).map(|_| random.u64(0..=end)).collect();
        instants.sort_unstable();
        let mut line = || format!("{} {}", random.u64(1..=MOST), random.choice(KEYS).expect("one"));
        instants.into_iter().map(|at| (at, line())).collect()
    });
    let arrivals: Vec<Arrivals> = arrivals.collect();
    let all = arrivals.clone();
    let faults = Faults { death: u64::MAX, ..super::faults(random) };
    let args: Vec<_> = case.lists[0].1.iter().map(|limit| format!("-r{}", text(limit))).collect();
    let args: Vec<_> = args.iter().map(String::as_str).chain(["-sfleet"]).collect();
    println!("{args:?} {faults:?}\n{arrivals:?}\n{troubles:?}");
    let Ran { mut batches, ends, .. } = run_over(vault, troubles.into(), &args, arrivals, end, seed, faults);
    for (process, (arrivals, end)) in all.iter().zip(&ends).enumerate() {
        let own: Vec<_> = batches.iter().filter(|batch| batch.process == process).collect();
        case.check_end(arrivals, &own, end);
    }
    batches.sort_by_key(|batch| batch.release.start);
    case.check(&batches);
}

/// As on a server, where a state that is idle for long is gone.
#[test]
fn limits_that_replace_those_of_a_state_that_is_gone_are_followed() {
    let clock = Arc::new(AtomicU64::new(100 * MILLI));
    let shown = Arc::clone(&clock);
    let vault = MemoryVault::new(move || Time(shown.load(SeqCst)), || Wall::EPOCH).evicting();
    let rates = |text: &str| vec![text.parse::<Rate>().expect("a rate")];
    let policy = Policy::new(&rates("10/s"), Reserve::LOCAL);
    let mut store = VaultStore::over(vault.clone(), policy).expect("a state");
    let mut followed = |now: u64| {
        clock.store(now * MILLI, SeqCst);
        let order = Order::new(Key::new(), [1], 1);
        store.book(&order).expect("booked").limits.map(|new| new.rates[0].count)
    };
    assert_eq!(followed(100), None);
    for (now, count) in [(10_000, 5), (20_000, 7)] {
        vault.values().clear();
        set_limits(vault.clone(), &rates(&format!("{count}/s,margin=10ms")), usize::MAX);
        assert_eq!(followed(now), Some(count));
    }
}

#[test]
fn limits_of_a_map_are_replaced() {
    // A process has not seen the limits with the longest horizon; what cost least or most is forgotten, or hidden.
    for_each_seed_of(
        seeds(40).chain([800_192, 801_326, 802_261, 804_968, 900_675, 912_495, 940_062]),
        |seed, random| {
            check(Box::new(InMemory::evicting()), true, seed, random);
        },
    );
}

#[cfg(all(feature = "redis", feature = "sqlite"))]
mod outside {
    use super::*;
    use crate::store::fleet::for_each_case;
    use crate::store::fleet::losses::{InFile, OnServer};
    use crate::store::redis::server::RedisServer;
    use crate::support::Directory;

    #[test]
    fn limits_of_a_file_are_replaced() {
        for_each_case(12, |seed, random| check(Box::new(InFile(Directory::new())), false, seed, random));
    }

    #[test]
    fn limits_on_a_server_are_replaced() {
        let Some(server) = RedisServer::start_with_clock(&[]) else { return };
        let server = Arc::new(server);
        for_each_case(12, |seed, random| {
            server.0.ask::<()>("FLUSHALL");
            let vault = OnServer { server: Arc::clone(&server), name: format!("fleet{seed}"), looks: true };
            check(Box::new(vault), false, seed, random);
        });
    }
}
