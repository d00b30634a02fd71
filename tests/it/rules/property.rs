//! Properties of any limits, arrivals and modes, in the simulated world.

mod case;
mod earliest;
mod judged;
mod laws;
mod metrics;
mod model;
mod waits;

use throttle::config::OnLimit;
use throttle::exit::Exit;
use throttle::time::SECOND;

use self::case::{Case, for_each_case};
use self::model::{Expected, expected, expected_with_waits};
use crate::simulated::{Outcome, Release, Simulation};
use crate::support::of_any_period;

/// The number of cases that take less than a second.
const CASES: u64 = 100;

fn exact(case: &Case) -> Outcome {
    Simulation::new(&case.args).run(case.singly())
}

fn found(case: &Case, outcome: &Outcome) -> Expected {
    let number = |line: &String| case.item(line).number;
    let releases = outcome.releases.iter();
    let releases = releases.map(|release| (release.start, release.lines.iter().map(number).collect()));
    Expected { releases: releases.collect(), refused: outcome.stats.refused, exit: outcome.exit }
}

#[test]
fn each_item_goes_at_the_first_instant_that_all_limits_allow() {
    for_each_case(CASES, |case| assert_eq!(found(case, &exact(case)), expected(case)));
}

#[test]
fn no_limit_is_exceeded_and_nothing_is_lost_however_late_and_slow_the_world_is() {
    for_each_case(CASES, |case| {
        let mut random = case.random.clone();
        let (late, slow) = (random.u64(0..=30), random.u64(0..=30));
        for blocks in [case.singly(), case.in_blocks()] {
            let world = Simulation::new(&case.args).late(random.u64(..), late).slow(random.u64(..), slow);
            laws::check(case, &world.run(blocks));
        }
    });
}

#[test]
fn items_that_are_read_in_one_go_are_paced_as_if_one_by_one() {
    for_each_case(CASES, |case| {
        let in_blocks = Simulation::new(&case.args).run(case.in_blocks());
        assert_eq!(found(case, &in_blocks), found(case, &exact(case)));
    });
}

/// Without the dropped items, all others leave at the same instants as before.
#[test]
fn what_is_refused_charges_nothing() {
    let is_policed = |case: &Case| {
        let starts_full = case.rates.iter().all(|rate| !rate.starts_empty);
        let queue = &case.config.queue;
        // An item that waits in vain holds up its lane.
        let is_plain = queue.max_wait.is_none() && queue.until.is_none() && queue.jitter.is_none();
        case.config.queue.on_limit == OnLimit::Drop
            && case.config.queue.batch.items.get() == 1
            && starts_full
            && is_plain
    };
    for_each_case(3 * CASES, |case| {
        if is_policed(case) {
            let all = exact(case);
            let lines = all.releases.iter().flat_map(|release| &release.lines);
            let kept: Vec<_> = lines.map(|line| case.item(line).number).collect();
            let blocks = case.singly().into_iter().zip(0..).filter(|(_, number)| kept.contains(number));
            let again = Simulation::new(&case.args).run(blocks.map(|(block, _)| block).collect());
            assert_eq!((again.releases, again.stats.refused), (all.releases, 0));
        }
    });
}

/// Statistics, summaries and metrics are based on these numbers.
#[test]
fn what_a_run_counts_is_what_happened() {
    const SCALE: u64 = 400_000_000;
    for_each_case(CASES, |case| {
        if case.is_even {
            let Outcome { releases, exit, stats, .. } = exact(&case.stretched(SCALE));
            let left = |release: &Release| release.lines.len() as u64;
            assert_eq!(stats.released, releases.iter().map(left).sum::<u64>());
            let in_second_to = |end: u64| {
                let within = releases.iter().filter(|other| other.end <= end && end - other.end < SECOND);
                within.map(left).sum()
            };
            let busiest = releases.iter().map(|release| in_second_to(release.end)).max();
            assert_eq!(stats.busiest, busiest.unwrap_or(0));
            assert_eq!(stats.times.started.0, case.items[0].arrival * SCALE);
            if let Some(last) = releases.last() {
                assert_eq!(stats.times.last.0, last.end);
            }
            let lines = releases.iter().flat_map(|release| &release.lines);
            assert_eq!(stats.bytes, lines.map(|line| line.len() as u64 + 1).sum::<u64>());
            if exit == Exit::Done && case.config.queue.until.is_none() {
                let items = case.items.len() as u64;
                assert_eq!((stats.read, stats.settled, stats.left()), (items, items, 0));
            }
        }
    });
}

#[test]
fn waits_are_counted_for_the_limit_that_the_next_release_waits_for() {
    for_each_case(CASES, |case| {
        let queue = &case.config.queue;
        // With these, more than limits is waited for.
        if queue.batch.items.get() == 1 && queue.jitter.is_none() && queue.max_wait.is_none() {
            let (found, (_, waits)) = (exact(case), expected_with_waits(case));
            if queue.until.is_none() {
                assert_eq!(found.stats.times.waited, waits.nanos);
                waits.check(&found.limits);
            }
            let refused: u64 = found.limits.iter().map(|limit| limit.refused).sum();
            match queue.on_limit {
                // Items that give way to others of the same instant need not have waited for a limit.
                OnLimit::Latest => assert!(refused <= found.stats.refused),
                _ => assert_eq!(refused, found.stats.refused),
            }
        }
    });
}

/// Where limits last for seconds, idle state is evicted along the way.
#[test]
fn the_scale_of_time_does_not_matter() {
    const SCALE: u64 = 400_000_000;
    for_each_case(CASES, |case| {
        // With `--until`, the run is over one nanosecond later on any time line.
        let queue = &case.config.queue;
        if case.is_even && queue.until.is_none() && queue.jitter.is_none() {
            let stretched = case.stretched(SCALE);
            let mut expected = found(case, &exact(case));
            expected.releases.iter_mut().for_each(|(at, _)| *at *= SCALE);
            assert_eq!(found(&stretched, &exact(&stretched)), expected);
        }
    });
}

/// The cases put all of the above to the test.
#[test]
fn the_cases_are_of_all_kinds() {
    let cases: Vec<_> = (1..=300).map(Case::new).collect();
    let algorithms = of_any_period();
    for algorithm in &algorithms {
        let has_it = |case: &&Case| case.rates.iter().any(|rate| rate.algorithm.to_string() == *algorithm);
        let (found, wanted) = (cases.iter().filter(has_it).count(), 480 / algorithms.len());
        assert!(found > wanted, "{found} of 300 cases have {algorithm}, not {wanted}: see property/case.rs");
    }
    let outcomes: Vec<_> = cases.iter().map(exact).collect();
    let count = |is_so: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is_so(outcome)).count();
    assert!(count(|outcome| outcome.exit == Exit::Done) > 100);
    assert!(count(|outcome| outcome.exit == Exit::Refused) > 20);
    assert!(count(|outcome| outcome.exit == Exit::Error) > 10);
    assert!(count(|outcome| outcome.stats.refused > 0) > 40);
    assert!(count(|outcome| outcome.releases.iter().any(|release| release.lines.len() > 1)) > 40);
}
