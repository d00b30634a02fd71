//! Many processes share their limits in the simulated world: no window is exceeded, whoever is late or dead and
//! whatever is lost.

mod changes;
mod lines;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod losses;

use std::cell::Cell;
use std::collections::BTreeMap;

use fastrand::Rng;

use crate::simulated::fleet::{
    Arrivals, Batch, Faults, Release, Slots, run, run_lines, run_over, run_with_slots,
};
use crate::simulated::vault::{InMemory, Trouble};
use crate::simulated::{MILLI, Simulation, block};
use crate::support::seeds;

fn for_each_case(cases: u64, check: impl Fn(u64, &mut Rng)) {
    for_each_seed_of(seeds(cases), check);
}

fn for_each_seed_of(seeds: impl IntoIterator<Item = u64>, check: impl Fn(u64, &mut Rng)) {
    for seed in seeds {
        println!("seed {seed}");
        check(seed, &mut Rng::with_seed(seed));
    }
}

fn faults(random: &mut Rng) -> Faults {
    Faults {
        delay: [0, MILLI, 5 * MILLI, 50 * MILLI][random.usize(0..4)],
        loss: [10, 100, u64::MAX][random.usize(0..3)],
        lateness: [0, MILLI, 3 * MILLI, 30 * MILLI][random.usize(0..4)],
        death: [3, 10, u64::MAX][random.usize(0..3)],
        contention: random.bool(),
        ..Faults::NONE
    }
}

/// The most releases in any half-open window of `period`.
fn most_within(releases: &[Release], period: u64) -> usize {
    let window = |first: &Release| {
        releases.iter().filter(|leave| leave.at >= first.at && leave.at - first.at < period).count()
    };
    releases.iter().map(window).max().unwrap_or(0)
}

#[test]
fn no_window_is_exceeded_whatever_is_late_or_lost_or_dead() {
    for_each_case(20, |seed, random| {
        let (count, period) = (random.u64(1..30), random.u64(20..300));
        let rate = format!("-r{count}/{period}ms");
        let releases =
            run(&[&rate], random.usize(1..9), random.u64(1..60), 1000 * MILLI, seed, faults(random));
        let most = most_within(&releases, period * MILLI);
        assert!(most as u64 <= count, "{most} in {period} ms, {count} are allowed");
    });
}

#[test]
fn gaps_and_buckets_are_kept_together() {
    for_each_case(30, |seed, random| {
        let (count, period) = (random.u64(1..30), random.u64(100..300));
        let burst = random.u64(1..20);
        let rates = [
            (format!("-r{count}/{period}ms,algo=interval"), 1),
            (format!("-r{count}/{period}ms,algo=bucket,burst={burst}"), burst),
        ];
        for (rate, burst) in rates {
            let releases =
                run(&[&rate], random.usize(1..6), random.u64(1..30), 500 * MILLI, seed, faults(random));
            for (first, early) in releases.iter().enumerate() {
                for (more, late) in releases[first..].iter().enumerate() {
                    let beyond = (more as u64 + 1).saturating_sub(burst);
                    assert!(
                        (late.at - early.at) * count >= beyond * period * MILLI,
                        "{rate}: {early:?} {late:?}"
                    );
                }
            }
        }
    });
}

/// How long after a late end other processes may not know of it: the report takes a delay, an answer may be under way,
/// and they ask again only after two leads. Each step may be late, as nothing happens before a process wakes up.
fn learned_after(faults: &Faults) -> u64 {
    let answer = 2 * (faults.delay + faults.lateness);
    faults.delay + faults.lateness + answer + 2 * (50 * MILLI + answer) + faults.lateness
}

/// The late releases with no release of another process from their end until they could be known.
fn known_to_be_late(releases: &[Release], faults: &Faults) -> Vec<Release> {
    let is_known = |late: &&Release| {
        let until = late.end + learned_after(faults);
        let is_other = |other: &&Release| other.process != late.process;
        let mut others = releases.iter().filter(is_other);
        late.end > late.at && !others.any(|other| other.at <= until && other.end >= late.end)
    };
    releases.iter().filter(is_known).copied().collect()
}

/// A limit that is checked against pairs of instants: when a release starts, and when it counts.
struct Kept {
    count: u64,
    period: u64,
    /// `None` for a sliding window.
    burst: Option<u64>,
}

impl Kept {
    fn check(&self, releases: &[(u64, u64)]) {
        for (number, (at, _)) in releases.iter().enumerate() {
            let mut charged: Vec<_> = releases[..number].iter().map(|(_, charged)| *charged).collect();
            charged.sort_unstable();
            for (between, before) in charged.iter().rev().enumerate() {
                let (together, apart) = (between as u64 + 2, at.saturating_sub(*before));
                let is_kept = match self.burst {
                    None => together <= self.count || apart >= self.period,
                    Some(burst) => apart * self.count >= together.saturating_sub(burst) * self.period,
                };
                assert!(is_kept, "{together} releases within {apart} ns, the last at {at}");
            }
        }
    }
}

/// A release whose write blocks counts from its end; for other processes, from when they can know of it.
#[test]
fn a_slow_reader_brings_no_releases_closer_together() {
    for_each_case(30, |seed, random| {
        let stall = random.u64(1..3000) * MILLI;
        let faults = faults(random);
        // Answers that take longer than the lead come too late for their slot.
        let (delay, lateness) = (faults.delay.min(5 * MILLI), faults.lateness.min(3 * MILLI));
        let faults = Faults { delay, lateness, stall, ..Faults::NONE };
        let (count, period) = (random.u64(1..12), random.u64(300..2000));
        let (burst, processes) = (random.u64(1..9), random.usize(1..4));
        let (burst, algorithm) = [
            (None, "sliding".to_owned()),
            (Some(1), "interval".to_owned()),
            (Some(burst), format!("bucket,burst={burst}")),
        ][random.usize(0..3)]
        .clone();
        let rate = format!("-r{count}/{period}ms,algo={algorithm}");
        println!("{rate} {faults:?}");
        let kept = Kept { count, period: period * MILLI, burst };
        let releases = run(&[&rate], processes, random.u64(1..30), 3000 * MILLI, seed, faults);
        for process in 0..processes {
            let own = releases.iter().filter(|release| release.process == process);
            kept.check(&own.map(|release| (release.at, release.end)).collect::<Vec<_>>());
        }
        kept.check(&releases.iter().map(|release| (release.at, release.at)).collect::<Vec<_>>());
        for late in known_to_be_late(&releases, &faults) {
            let after = releases.iter().filter(|release| release.at > late.end);
            let after = after.map(|release| (release.at, release.at));
            kept.check(&[(late.at, late.end)].into_iter().chain(after).collect::<Vec<_>>());
        }
    });
}

/// Each process has items of one key; two processes share a key.
#[test]
fn keys_have_slots_of_their_own() {
    for_each_case(20, |seed, random| {
        let (count, period) = (random.u64(1..10), random.u64(50..300));
        let rate = format!("-r{count}/{period}ms,key=col:2");
        let releases = run(&[&rate], 6, 20, 300 * MILLI, seed, faults(random));
        for key in 0..3 {
            let of_key: Vec<_> = releases.iter().filter(|leave| leave.process % 3 == key).copied().collect();
            let most = most_within(&of_key, period * MILLI);
            assert!(most as u64 <= count, "{most} of key {key} in {period} ms, {count} are allowed");
        }
    });
}

#[test]
fn without_faults_all_goes_at_the_full_rate() {
    let releases = run(&["-r20/100ms"], 8, 50, 0, 7, Faults::NONE);
    assert_eq!(releases.len(), 400);
    // Twenty at once; again after each period plus the millisecond for which a slot is good.
    let last = releases.last().expect("some").at;
    assert_eq!(last, 19 * 101 * MILLI);
    for process in 0..8 {
        assert_eq!(releases.iter().filter(|leave| leave.process == process).count(), 50);
    }
}

/// Items that are too late for their slot get another one: late wake-ups cost throughput, but lose nothing.
#[test]
fn nothing_is_lost_by_being_late() {
    let late = Faults { delay: MILLI, loss: 10, lateness: 3 * MILLI, ..Faults::NONE };
    let releases = run(&["-r20/100ms"], 4, 100, 0, 7, late);
    assert_eq!(releases.len(), 400);
    assert!(most_within(&releases, 100 * MILLI) <= 20);
}

const CALM: Faults = Faults { delay: MILLI, lateness: MILLI / 2, ..Faults::NONE };

/// For `processes` that always have something to release: the number of releases of each from the second second to the
/// end of `seconds`, and the longest time any of them is without one. The first second is left out, because the burst
/// goes to whoever comes first.
fn shares(rate: &str, processes: usize, seconds: u64) -> (Vec<usize>, u64) {
    let (start, end) = (1000 * MILLI, seconds * 1000 * MILLI);
    let items = 45 * seconds;
    let releases = run(&[&format!("-r{rate}")], processes, items, 0, 3, CALM);
    let of = |process| {
        releases.iter().filter(move |leave| leave.process == process && (start..end).contains(&leave.at))
    };
    let pause = |process| {
        let instants: Vec<_> =
            [start].into_iter().chain(of(process).map(|leave| leave.at)).chain([end]).collect();
        instants.windows(2).map(|pair| pair[1] - pair[0]).max().expect("two")
    };
    (
        (0..processes).map(|process| of(process).count()).collect(),
        (0..processes).map(pause).max().expect("one"),
    )
}

#[test]
fn all_get_the_same() {
    // Slots fit within the horizon, or there are turns beyond it.
    for (rate, processes, seconds, pause) in [
        ("10/100ms", 5, 4, 1),
        ("100/200ms", 40, 4, 2),
        ("1/s", 12, 60, 14),
        ("100/s,algo=interval", 4, 4, 1),
        ("200/s,algo=bucket,burst=20", 6, 4, 1),
    ] {
        let (shares, longest) = shares(rate, processes, seconds);
        let (least, most) = (shares.iter().min().expect("one"), shares.iter().max().expect("one"));
        println!("{rate}: {shares:?}, {longest} ns");
        assert!(least * 10 >= most * 7 || most - least <= 1, "{rate}: {shares:?}");
        assert!(longest <= pause * 1000 * MILLI, "{rate}: nothing for {longest} ns");
    }
}

/// By Jain's index, which is 1 if all have the same.
#[test]
fn no_few_of_many_get_more_for_long() {
    for (rate, processes) in [("1000/s", 40), ("400/s", 15)] {
        let (shares, _) = shares(rate, processes, 6);
        let (sum, squares) =
            shares.iter().fold((0, 0), |(sum, squares), share| (sum + share, squares + share * share));
        assert!(100 * sum * sum >= 97 * squares * processes, "{rate}: {shares:?}");
    }
}

/// All of them find their slots over when it answers again, 5 s after the start.
#[test]
fn the_full_rate_is_reached_soon_after_a_store_has_kept_all_waiting() {
    for rate in ["20/500ms", "100/s", "1000/s", "100/s,algo=interval", "300/s,algo=bucket,burst=9"] {
        let arrivals = vec![vec![(0, "x".to_owned()); 3000].into(); 3];
        let stops = [(2000 * MILLI, Trouble::Stop(3000 * MILLI))].into();
        let args = [&format!("-r{rate}")[..]];
        let (batches, _) =
            run_over(Box::new(InMemory::default()), stops, &args, arrivals, 0, 3, CALM).without_errors();
        let in_second = |second: u64| {
            let of_second = |batch: &&Batch| batch.release.start / (1000 * MILLI) == second;
            batches.iter().filter(of_second).map(|batch| batch.release.lines.len()).sum::<usize>()
        };
        let rates = [1, 6, 7, 8, 9].map(in_second);
        assert!(rates.iter().all(|after| after * 10 >= rates[0] * 8), "{rate}: {rates:?}");
    }
}

/// Runs that end leave no gaps: the others use their slots, except those that are due before anybody asks.
#[test]
fn what_is_given_back_is_used_by_others() {
    for_each_case(8, |seed, _| {
        let faults = Faults { delay: MILLI / 10, death: 2, ..Faults::NONE };
        let (releases, Slots { unused, .. }) =
            run_with_slots(&["-r20/100ms"], 8, 150, 500 * MILLI, seed, faults);
        let last = releases.last().expect("some").at;
        let unused = unused.iter().filter(|at| **at < last).count();
        // There is always more to release than the limit allows, so this is the minimum number of periods. The first
        // twenty releases went as they came.
        let periods = ((releases.len() + unused) as u64).div_ceil(20) - 1;
        let bound = releases[19].at + periods * 101 * MILLI;
        assert!(last <= bound, "{} and {unused} unused in {last} ns, not {bound} ns", releases.len());
    });
}

/// Slots of different costs are booked in the order of the items, so none is over before those ahead of it have left.
#[test]
fn a_run_with_items_of_all_costs_reaches_its_limit_however_slow_the_store() {
    for_each_case(20, |seed, random| {
        let (count, dearest) = (random.u64(50..200), random.u64(2..10));
        let rate = format!("-r{count}/100ms,cost=col:1,margin=20ms");
        let costs: Vec<_> = (0..600).map(|_| random.u64(1..=dearest)).collect();
        let arrivals = costs.iter().map(|cost| (0, cost.to_string())).collect();
        let faults = Faults { delay: random.u64(0..8) * MILLI, ..Faults::NONE };
        let (batches, slots) = run_lines(&[&rate], vec![arrivals], 0, seed, faults);
        let released = batches.iter().map(|batch| batch.release.lines.len() as u64).sum::<u64>();
        assert_eq!(released, 600);
        let wasted = slots.booked - slots.returned - released;
        assert!(wasted <= 6, "{rate}, {faults:?}: {wasted} wasted");
        // What is left of a period is less than the next item costs.
        let periods = costs.iter().sum::<u64>() / (count - dearest + 1);
        let last = batches.iter().map(|batch| batch.release.end).max().expect("some");
        let longest = (periods * 120 + 60) * MILLI;
        assert!(last <= longest, "{rate}, {faults:?}: {last}, not {longest}");
    });
}

/// Each slot is at an instant of its own, so what follows in a lane loses its slots, too, until the item whose slot was
/// over has another.
#[test]
fn a_run_that_loses_slots_of_other_costs_books_fewer_ahead() {
    for_each_case(20, |seed, random| {
        let count = random.u64(200..1000);
        let gap = 1000 * MILLI / count;
        let margin = gap / 10;
        let rate = format!("-r{count}/s,algo=interval,cost=col:1,margin={margin}ns");
        let costs: Vec<_> = (0..600).map(|_| random.choice([0, 1, 3]).expect("one")).collect();
        let arrivals = costs.iter().map(|cost| (0, cost.to_string())).collect();
        // One in twenty wakes up too late.
        let faults = Faults { lateness: margin * 9 / 8, delay: 2 * MILLI, ..Faults::NONE };
        let (batches, _) = run_lines(&[&rate], vec![arrivals], 0, seed, faults);
        let released = batches.iter().map(|batch| batch.release.lines.len() as u64).sum::<u64>();
        assert_eq!(released, 600);
        let ideal = costs.iter().sum::<u64>() * (gap + margin);
        let last = batches.iter().map(|batch| batch.release.end).max().expect("some");
        assert!(last <= ideal * 3 / 2, "{rate}: {last}, not {ideal}");
    });
}

/// Commands start one after the other, so of the slots at one instant only a few can be used before they are over.
#[test]
fn commands_that_take_time_to_start_lose_few_slots() {
    for_each_case(10, |seed, random| {
        let (count, period) = (random.u64(8..40), random.u64(80..300));
        let (rate, validity) = (format!("-r{count}/{period}ms"), period * MILLI / 100);
        let processes = random.usize(1..4);
        let start = validity / random.u64(2..4);
        let delay = validity * random.choice([1, 10, 40]).expect("one") / 40;
        let faults = Faults { delay, start, ..Faults::NONE };
        let items = 1200 / processes as u64;
        let (releases, slots) = run_with_slots(&[&rate], processes, items, 1, seed, faults);
        assert_eq!(releases.len() as u64, processes as u64 * items);
        assert!(most_within(&releases, period * MILLI) as u64 <= count, "{rate}, {faults:?}");
        let wasted = slots.booked - slots.returned - releases.len() as u64;
        let last = releases.iter().map(|release| release.end).max().expect("some");
        let ideal = 1200 / count * (period * MILLI + validity);
        assert!(
            last <= ideal * 13 / 10,
            "{rate}, {processes}, {faults:?}: {last}, not {ideal}, {wasted} wasted"
        );
    });
}

/// What is prepared when its slot is over goes in the next one, and batches stay as large as they were.
#[test]
fn a_batch_that_takes_longer_to_prepare_than_its_slot_is_good_leaves_whole() {
    for_each_case(10, |seed, random| {
        let (size, period) = (random.u64(1..9), random.u64(80..300));
        let (rate, validity) = (format!("-r9/{period}ms"), period * MILLI / 100);
        let arrivals = vec![(0, "x".to_owned()); 40];
        let faults = Faults { prepare: validity * random.u64(2..5), start: validity / 10, ..Faults::NONE };
        let (batches, _) = run_lines(&[&rate, &format!("-B{size}")], vec![arrivals.into()], 0, seed, faults);
        let sizes: Vec<_> = batches.iter().map(|batch| batch.release.lines.len() as u64).collect();
        assert_eq!(sizes.iter().sum::<u64>(), 40);
        assert_eq!(sizes.len() as u64, 40u64.div_ceil(size), "{size}, {faults:?}: {sizes:?}");
    });
}

/// None is booked that could not be used, as a limit of the run alone is shut.
#[test]
fn no_slot_is_wasted_on_what_a_local_limit_holds_up() {
    for_each_case(30, |seed, random| {
        let (count, period) = (random.u64(1..20), random.u64(20..200));
        let (of_each, span) = (random.u64(1..5), random.u64(20..300));
        let algorithm = random.choice(["sliding", "interval", "fixed", "bucket"]).expect("one");
        let args = [format!("-r{count}/{period}ms"), format!("-r{of_each}/{span}ms,algo={algorithm},local")];
        let (processes, items) = (random.usize(1..6), random.u64(1..40));
        let args = args.each_ref().map(String::as_str);
        let (releases, slots) = run_with_slots(&args, processes, items, 1000 * MILLI, seed, Faults::NONE);
        assert_eq!(releases.len() as u64, processes as u64 * items, "{args:?}");
        assert_eq!(slots.booked - slots.returned, releases.len() as u64, "{args:?}");
        assert!(most_within(&releases, period * MILLI) as u64 <= count, "{args:?}");
        for process in 0..processes {
            let own = releases.iter().filter(|release| release.process == process).copied();
            let most = most_within(&own.collect::<Vec<_>>(), span * MILLI) as u64;
            let may_double = ["fixed", "bucket"].contains(&algorithm);
            assert!(most <= of_each * if may_double { 2 } else { 1 }, "{args:?}: {most} of {process}");
        }
    });
}

/// A run that is alone on a shared limit drops what a run with its own limit drops.
#[test]
fn a_shared_limit_drops_what_any_other_would() {
    let dropped = Cell::new(0);
    for_each_case(20, |seed, random| {
        let (count, period) = (random.u64(1..9), random.u64(20..200));
        let args = [format!("-r{count}/{period}ms,margin=1ms"), "--on-limit=drop".to_owned()];
        let shared = run(&args.each_ref().map(String::as_str), 1, 60, 1000 * MILLI, seed, Faults::NONE);
        let shared: Vec<_> = shared.iter().map(|release| release.at).collect();
        let mut arrivals = Rng::with_seed(seed);
        let mut arrivals: Vec<_> = (0..60).map(|_| arrivals.u64(0..=1000 * MILLI)).collect();
        arrivals.sort_unstable();
        let alone = Simulation::new(&args).run(arrivals.iter().map(|&at| block(at, &["item 0"])).collect());
        let alone: Vec<_> = alone.releases.iter().map(|release| release.start).collect();
        assert_eq!(shared, alone, "{args:?}");
        dropped.set(dropped.get() + 60 - shared.len());
    });
    assert!(dropped.get() > 0);
}

/// Also if slots are good for less time than answers take.
#[test]
fn what_comes_when_a_shared_limit_is_free_is_never_refused() {
    for_each_case(40, |seed, random| {
        let (delay, gap) = (random.u64(50..3000), random.u64(200..20_000));
        let algorithm = random.choice(["sliding", "interval", "bucket", "fixed"]).expect("one");
        let mode = random.choice(["drop", "fail"]).expect("one");
        let args = [format!("-r1/{gap}us,margin=50us,algo={algorithm}"), format!("--on-limit={mode}")];
        let mut at = 0;
        let mut next = || {
            // A slot may be as far ahead as an answer takes.
            at += gap + 2 * 50 + 3 * delay + random.u64(0..500);
            (at * MILLI / 1000, "item".to_owned())
        };
        let arrivals: Arrivals = (0..40).map(|_| next()).collect();
        let faults = Faults { delay: delay * MILLI / 1000, ..Faults::NONE };
        let args = args.each_ref().map(String::as_str);
        let (batches, _) = run_lines(&args, vec![arrivals], at * MILLI / 1000, seed, faults);
        assert_eq!(batches.len(), 40, "{args:?} {faults:?}");
    });
}

/// It came too late for its slot, so that counts, although nobody has used it.
#[test]
fn what_does_not_wait_gets_another_slot_for_one_that_was_lost() {
    for_each_case(20, |seed, random| {
        let (gap, margin) = (random.u64(1..50), random.u64(200..2000));
        let mode = random.choice(["drop", "fail"]).expect("one");
        let args = [format!("-r1/{gap}ms,margin={margin}us"), format!("--on-limit={mode}")];
        let faults = Faults { delay: margin * MILLI / 2000, lateness: margin * MILLI / 500, ..Faults::NONE };
        let mut at = 0;
        let mut next = || {
            at += 12 * (gap * MILLI + margin * MILLI / 100);
            (at, "item".to_owned())
        };
        let arrivals: Arrivals = (0..40).map(|_| next()).collect();
        let args = args.each_ref().map(String::as_str);
        let (batches, slots) = run_lines(&args, vec![arrivals], at, seed, faults);
        assert_eq!(batches.len(), 40, "{args:?} {faults:?}");
        assert!(slots.booked > 40, "none was lost");
    });
}

/// All processes share one limit; one of them also has another limit.
#[test]
fn a_limit_for_some_items_holds_up_no_others() {
    let args = ["-r20/100ms", "-r1/100ms,key=col:2,only=0"];
    let releases = run(&args, 2, 40, 0, 5, Faults::NONE);
    assert!(most_within(&releases, 100 * MILLI) <= 20);
    let (some, others): (Vec<_>, Vec<_>) = releases.iter().partition(|release| release.process == 0);
    assert_eq!(most_within(&some, 100 * MILLI), 1);
    // The other process's items, with one item of the first process in each earlier window.
    assert!(others.last().expect("some").at <= 3 * 102 * MILLI, "{:?}", others.last());
    assert!(some.last().expect("some").at <= 39 * 102 * MILLI, "{:?}", some.last());
}

#[test]
fn batches_that_cost_what_their_items_do_keep_the_limit() {
    for_each_case(20, |seed, random| {
        let (count, period) = (random.u64(6..30), random.u64(50..200));
        let args = [&format!("-r{count}/{period}ms,cost=2"), "-B3"];
        let releases = run(&args, random.usize(1..6), 30, 300 * MILLI, seed, faults(random));
        let most = most_within(&releases, period * MILLI);
        assert!(2 * most as u64 <= count, "{most} of cost 2 in {period} ms, {count} is allowed");
    });
}

/// A pause that one process hears of holds all, from when they can know of it until it is over. Then everything goes
/// on.
#[test]
fn nobody_releases_anything_in_a_pause_that_all_can_know_of() {
    for_each_case(40, |seed, random| {
        let (count, period) = (random.u64(1..30), random.u64(20..300));
        let algorithm = *random.choice(&["sliding", "interval", "bucket", "fixed"]).expect("one");
        let rate = format!("-r{count}/{period}ms,algo={algorithm}");
        let at = random.u64(0..1000) * MILLI;
        let until = at + random.u64(1..3000) * MILLI;
        let pause = Some((at, until));
        let faults = Faults { loss: u64::MAX, death: u64::MAX, pause, ..faults(random) };
        let (processes, items) = (random.usize(1..6), random.u64(1..20));
        println!("{rate}, {processes} processes, {items} items, a pause from {at} to {until}, {faults:?}");
        let releases = run(&[&rate], processes, items, 1000 * MILLI, seed, faults);
        assert_eq!(releases.len() as u64, items * processes as u64, "all is released");
        let known = at + learned_after(&faults);
        let in_pause = |process| {
            let of = releases.iter().filter(move |release| release.process == process);
            of.map(|release| release.at).filter(|at| (known..until).contains(at))
        };
        for process in 0..processes {
            // It asks in time for an answer that takes no longer than the ones before, and then uses no more slots.
            let (first, last) = (in_pause(process).min(), in_pause(process).max());
            let answer = 2 * (faults.delay + faults.lateness);
            let took = last.zip(first).map_or(0, |(last, first)| last - first);
            assert!(took <= answer, "{process}: from {first:?} to {last:?} in a pause known from {known} on");
        }
    });
}

/// Whoever notices first that the clock is set.
#[test]
fn a_wall_clock_that_is_set_opens_no_period_again() {
    for_each_case(80, |seed, random| {
        let (count, seconds) = (random.u64(1..6), random.u64(1..4));
        let rate = format!("-r{count}/{seconds}s,algo=calendar,tz=UTC");
        let releases = run_while_the_clock_is_set(&rate, seed, random);
        let mut periods = BTreeMap::new();
        for release in &releases {
            *periods.entry(release.shown / (seconds * 1000 * MILLI)).or_insert(0) += 1;
        }
        assert!(periods.values().all(|used| *used <= count), "{rate}: {periods:?}");
    });
}

#[test]
fn a_wall_clock_that_is_set_lets_no_more_go_in_the_hours_of_a_limit() {
    const NOON: u64 = 12 * 3600 * 1000 * MILLI;
    for_each_case(80, |seed, random| {
        let (count, millis, is_morning) = (random.u64(1..6), random.u64(100..2000), random.bool());
        let hours = if is_morning { "00:00-12:00" } else { "12:00-24:00" };
        let rate = format!("-r{count}/{millis}ms,during={hours},tz=UTC");
        let releases = run_while_the_clock_is_set(&rate, seed, random);
        let is_asked = |release: &&Release| (release.shown % (2 * NOON) < NOON) == is_morning;
        for release in releases.iter().filter(is_asked) {
            let is_close =
                |other: &&Release| (0..millis * MILLI).contains(&(release.at.wrapping_sub(other.at)));
            let close = releases.iter().filter(is_close).count() as u64;
            assert!(close <= count, "{rate}: {close} in {millis} ms up to {release:?}");
        }
    });
}

fn run_while_the_clock_is_set(rate: &str, seed: u64, random: &mut Rng) -> Vec<Release> {
    let margin = random.choice(["", ",margin=20ms", ",margin=100ms"]).expect("one");
    let steps = random.choice([20, 500, 5000, 60_000]).expect("one") * MILLI;
    let (processes, items) = (random.usize(1..6), random.u64(1..30));
    let faults = Faults { steps, ..faults(random) };
    run(&[&format!("{rate}{margin}")], processes, items, 6000 * MILLI, seed, faults)
}
