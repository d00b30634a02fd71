//! The state of each limit that a run shows, compared with the model, in the middle of waits.

use std::collections::BTreeMap;

use fastrand::Rng;
use throttle::config::OnLimit;
use throttle::gate::Availability;
use throttle::schedule::{Action, Schedule};
use throttle::source::Capacity;
use throttle::time::{Time, Wall};

use super::case::{Case, Item, for_each_case};
use super::model::{Charge, allows, before, grains, level};
use crate::simulated::block;

const CASES: u64 = 100;

/// What was released, and what waits, in lanes.
struct Past<'a> {
    case: &'a Case,
    start: u64,
    lanes: BTreeMap<Vec<String>, (u64, Vec<&'a Item>)>,
    /// By limit and key.
    charges: BTreeMap<(usize, String), Vec<Charge>>,
}

impl<'a> Past<'a> {
    fn new(case: &'a Case, items: &[&'a Item]) -> Self {
        let start = items[0].arrival;
        let mut past = Past { case, start, lanes: BTreeMap::new(), charges: BTreeMap::new() };
        for item in items {
            past.lanes.entry(case.lane(item)).or_insert((start, Vec::new())).1.push(*item);
        }
        past
    }

    fn release(&mut self, at: u64, item: &Item) {
        let (since, waiting) = self.lanes.get_mut(&self.case.lane(item)).expect("a lane");
        assert_eq!(waiting.remove(0).number, item.number);
        let since = std::mem::replace(since, at);
        for (limit, rate) in self.case.rates.iter().enumerate() {
            let cost = item.charge(rate);
            if cost > 0 {
                let mut charges = self.of(limit, &item.key(rate));
                let level = level(rate, &charges, at, since, cost) - grains(rate, cost);
                charges.push(Charge { at, cost, level });
                self.charges.insert((limit, item.key(rate)), charges);
            }
        }
    }

    fn of(&self, limit: usize, key: &str) -> Vec<Charge> {
        let known = self.charges.get(&(limit, key.to_owned())).cloned();
        known.unwrap_or_else(|| before(&self.case.rates[limit], self.start))
    }

    /// The number of releases of cost 1 that a limit allows at once.
    fn available(&self, limit: usize, now: u64) -> u64 {
        let (rate, mut charges) = (&self.case.rates[limit], self.of(limit, ""));
        let mut count = 0;
        while allows(rate, &charges, now, now, 1) {
            let level = level(rate, &charges, now, now, 1) - grains(rate, 1);
            charges.push(Charge { at: now, cost: 1, level });
            count += 1;
        }
        count
    }
}

fn check(past: &Past, schedule: &Schedule, now: u64) {
    for (limit, metrics) in schedule.metrics(Time(now)).limits.into_iter().enumerate() {
        let rate = &past.case.rates[limit];
        match metrics.standing.expect("a limit of this run") {
            Availability::Keyed { .. } => assert!(rate.key.is_some()),
            // The one history of a limit for a single key is that of the key.
            Availability::Common { .. } if rate.only.is_some() => {}
            Availability::Common { available } => {
                assert_eq!(available, past.available(limit, now), "{rate} at {now}");
            }
        }
    }
}

/// Releases all items, which arrive together, and checks the metrics at some instant of each wait.
fn run(case: &Case, random: &mut Rng) {
    let items: Vec<_> = case.items.iter().take_while(|item| !item.is_too_dear(&case.rates)).collect();
    if items.is_empty() {
        return;
    }
    let mut past = Past::new(case, &items);
    let mut now = past.start;
    let mut schedule = Schedule::new(&case.config, case.rates.clone(), Time(now), Wall::EPOCH);
    let lines: Vec<_> = items.iter().map(|item| item.line()).collect();
    schedule.input(block(now, &lines));
    schedule.end_of_input(Time(now), None);
    loop {
        match schedule.poll(Time(now), Capacity::UNLIMITED) {
            Action::Send(admission) => {
                for segment in admission.batch().segments() {
                    for line in String::from_utf8_lossy(segment.bytes()).lines() {
                        past.release(now, case.item(line));
                    }
                }
                let items = admission.batch().items();
                schedule.sent(Time(now), admission, items);
            }
            Action::Wait { until: Some(until), .. } => {
                check(&past, &schedule, random.u64(now..=until.0));
                now = until.0;
                schedule.due();
            }
            Action::Finish(_) => return,
            Action::Notify(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_state_of_each_limit_is_that_of_the_model() {
    for_each_case(CASES, |case| {
        let queue = &case.config.queue;
        let is_plain =
            queue.on_limit == OnLimit::Wait && queue.batch.items.get() == 1 && queue.jitter.is_none();
        if is_plain && queue.max_wait.is_none() && queue.until.is_none() && queue.lookahead.get() >= 40 {
            run(case, &mut case.random.clone());
        }
    });
}
