//! Many processes that wake up late, drop slots and die, in virtual time.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fastrand::Rng;

use super::audit::{Release, is_kept};
use super::{for_each_seed, order};
use crate::config::Rate;
use crate::rule::Algorithm;
use crate::store::memory_store::MemoryStore;
use crate::store::{Policy, Reserve, Slot, Store, Task};
use crate::time::Time;

const RESERVE: Reserve =
    Reserve { part: 10, least: 1, dearest_part: 1, floor: 1, window_floor: 1, most: 1000, longest: 0 };

struct Habits {
    /// True if slots whose deadline has passed are dropped.
    keep_deadlines: bool,
    /// One in this many wake-ups is late by up to three deadlines, the others by up to half of one.
    late: u64,
    /// One in this many wake-ups is the last of its process; another process takes its place.
    deadly: u64,
    /// The longest time with nothing to release.
    idle: u64,
}

struct Process {
    slots: Vec<Slot>,
    wakes: u64,
}

struct History {
    releases: Vec<Release>,
    /// All slots with their costs, in the order of booking.
    booked: Vec<Release>,
    dropped: u64,
    returned: usize,
}

/// Eight processes release as much as they can.
fn crowd(random: &mut Rng, rates: &[Rate], habits: &Habits) -> History {
    let policy = Policy::new(rates, RESERVE);
    let clock = Arc::new(AtomicU64::new(0));
    let mut store = MemoryStore::new(policy.clone(), {
        let clock = Arc::clone(&clock);
        move || Time(clock.load(Relaxed))
    });
    let mut processes: Vec<_> = (0..8).map(|wakes| Process { slots: Vec::new(), wakes }).collect();
    let mut history = History { releases: Vec::new(), booked: Vec::new(), dropped: 0, returned: 0 };
    while history.releases.len() < 150 {
        let process = processes.iter_mut().min_by_key(|process| process.wakes).expect("one");
        let now = process.wakes;
        clock.store(now, Relaxed);
        let due = process.slots.partition_point(|slot| slot.at.0 <= now);
        for slot in process.slots.drain(..due) {
            if slot.until.0 < now && habits.keep_deadlines {
                history.dropped += 1;
            } else {
                history.releases.push(Release { at: now, cost: 1 });
            }
        }
        if random.u64(0..habits.deadly) == 0 {
            // Some processes are killed; others give their slots back.
            if random.bool() {
                let order = order(&vec![1; rates.len()], 1);
                store.give_back(&order.with(Task::GiveBack(process.slots.clone(), None))).expect("in memory");
                history.returned += process.slots.len();
            }
            process.slots.clear();
        }
        let mut again = None;
        if habits.idle > 0 && process.slots.is_empty() && random.bool() {
            again = Some(Time(now + random.u64(1..=habits.idle)));
        } else if process.slots.is_empty() {
            let costs = vec![1; rates.len()];
            let answer = store.book(&order(&costs, random.u64(1..=policy.span))).expect("booked");
            let in_time = |slot: &Slot| slot.at.0 >= now && slot.at.0 <= now + policy.horizon;
            assert!(answer.slots.iter().all(in_time));
            history.booked.extend(answer.slots.iter().map(|slot| Release { at: slot.at.0, cost: 1 }));
            (process.slots, again) = (answer.slots, answer.ask_again);
        }
        let next = process.slots.first().map(|slot| slot.at).or(again).expect("something to wait for");
        let late = if random.u64(0..habits.late) == 0 { 3 * policy.validity } else { policy.validity / 2 };
        process.wakes = next.0.max(now) + random.u64(0..=late);
    }
    history
}

/// The starts of the windows of a fixed limit, as far as the slots show them.
fn windows(booked: &[Release], length: u64) -> Vec<u64> {
    let mut windows: Vec<u64> = Vec::new();
    for slot in booked {
        if windows.last().is_none_or(|start| slot.at >= start + length) {
            windows.push(slot.at);
        }
    }
    windows
}

fn rate(random: &mut Rng, algorithm: Algorithm) -> Rate {
    let (count, period) = (random.u64(1..=20), random.u64(500..=2000));
    let text = format!("{count}/{period}ns,algo={algorithm}");
    let burst = random.u64(1..=20);
    let text = if algorithm == Algorithm::Bucket { format!("{text},burst={burst}") } else { text };
    text.parse().expect("a rate")
}

/// A longest idle time under which the limit is used up at times, but not always.
fn some_idleness(random: &mut Rng, rate: &Rate) -> u64 {
    random.u64(0..=40 * rate.period / rate.count)
}

fn all_are_kept(rates: &[Rate], history: &History) -> bool {
    let quotas = Policy::new(rates, RESERVE).quotas;
    rates
        .iter()
        .zip(quotas)
        .all(|(rate, quota)| is_kept(rate, &history.releases, &windows(&history.booked, quota.terms.period)))
}

const HABITS: Habits = Habits { keep_deadlines: true, late: 5, deadly: 20, idle: 0 };

#[test]
fn no_limit_is_exceeded_however_late_processes_wake_up_and_however_many_die() {
    for_each_seed(100, |random| {
        let rates: Vec<_> = (0..random.u64(1..=3))
            .map(|_| {
                let algorithm = random.choice(super::of_any_period()).expect("one");
                rate(random, algorithm)
            })
            .collect();
        let idle = some_idleness(random, &rates[0]);
        let history = crowd(random, &rates, &Habits { idle, ..HABITS });
        assert!(all_are_kept(&rates, &history), "{rates:?}: {:?}", history.releases);
    });
}

#[test]
fn slots_are_dropped_and_few_are_wasted_on_those_who_wake_up_in_time() {
    let (returned, dropped, cases) = (Cell::new(0), Cell::new(0), Cell::new(0));
    for_each_seed(100, |random| {
        let rates = [rate(random, Algorithm::Sliding)];
        let history = crowd(random, &rates, &HABITS);
        cases.set(cases.get() + 1);
        dropped.set(dropped.get() + history.dropped);
        returned.set(returned.get() + history.returned);
        let punctual = Habits { late: u64::MAX, deadly: u64::MAX, ..HABITS };
        assert_eq!(crowd(random, &rates, &punctual).dropped, 0);
    });
    assert!(returned.get() > 0 || cases.get() < 10, "nothing was given back");
    assert!(dropped.get() > 0 || cases.get() < 10, "nothing was dropped");
}

/// Shows that the audit can fail.
#[test]
fn without_deadlines_each_limit_is_exceeded() {
    for algorithm in super::of_any_period() {
        let is_exceeded = (1..=200).any(|seed| {
            let mut random = Rng::with_seed(seed);
            let rates = [rate(&mut random, algorithm)];
            let idle = if algorithm == Algorithm::Fixed { some_idleness(&mut random, &rates[0]) } else { 0 };
            let history = crowd(&mut random, &rates, &Habits { keep_deadlines: false, idle, ..HABITS });
            !all_are_kept(&rates, &history)
        });
        assert!(is_exceeded, "{algorithm} is kept all the same");
    }
}
