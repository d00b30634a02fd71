//! The theorem in `src/rule/earliest.md` that no conforming schedule releases any item sooner, checked against all
//! schedules.

use fastrand::Rng;
use throttle::rule::Algorithm;

use crate::simulated::{Simulation, block};
use crate::support::seeds;

struct Limit {
    algorithm: Algorithm,
    count: u64,
    period: u64,
    burst: u64,
    is_keyed: bool,
}

#[derive(Clone, Debug)]
struct Item {
    arrival: u64,
    key: char,
    /// One for each limit.
    costs: Vec<u64>,
}

/// Items in the order of their releases, with the instants.
type Schedule<'a> = Vec<(&'a Item, u64)>;

impl Limit {
    fn new(algorithm: Algorithm, count: u64, period: u64) -> Self {
        Limit { algorithm, count, period, burst: count, is_keyed: false }
    }

    /// The limit as an option; its costs are in a column of their own.
    fn arg(&self, index: usize) -> String {
        let Limit { algorithm, count, period, burst, is_keyed } = self;
        let burst = if *algorithm == Algorithm::Bucket { format!(",burst={burst}") } else { String::new() };
        let key = if *is_keyed { ",key=col:1" } else { "" };
        format!("-r{count}/{period}ns,algo={algorithm},cost=col:{}{burst}{key}", index + 2)
    }

    /// Whether the last release keeps to the limit, provided that all earlier ones do.
    fn is_kept(&self, index: usize, schedule: &Schedule) -> bool {
        let Some((last, now)) = schedule.last() else { return true };
        let concerns = |item: &Item| item.costs[index] > 0 && (!self.is_keyed || item.key == last.key);
        let charged: Vec<(u64, u64)> = (schedule.iter().filter(|(item, _)| concerns(item)))
            .map(|(item, at)| (*at, item.costs[index]))
            .collect();
        if !concerns(last) {
            return true;
        }
        if self.algorithm == Algorithm::Fixed {
            return self.fits_its_window(&charged);
        }
        (0..charged.len()).all(|first| {
            let (at, cost) = charged[first];
            let (passed, sum) = (now - at, charged[first..].iter().map(|(_, cost)| cost).sum::<u64>());
            match self.algorithm {
                Algorithm::Sliding => passed >= self.period || sum <= self.count,
                Algorithm::Interval => {
                    first + 1 == charged.len() || passed * self.count >= cost * self.period
                }
                _ => passed * self.count >= sum.saturating_sub(self.burst) * self.period,
            }
        })
    }

    fn fits_its_window(&self, charged: &[(u64, u64)]) -> bool {
        let mut window = (0, 0);
        for &(at, cost) in charged {
            let is_over = window.1 == 0 || at - window.0 >= self.period;
            window = if is_over { (at, cost) } else { (window.0, window.1 + cost) };
        }
        window.1 <= self.count
    }
}

/// Limits, and items for them.
struct Problem {
    limits: Vec<Limit>,
    items: Vec<Item>,
}

impl Problem {
    fn random(random: &mut Rng) -> Self {
        let algorithms = [Algorithm::Sliding, Algorithm::Sliding, Algorithm::Bucket, Algorithm::Interval];
        let limits: Vec<_> = (0..random.u8(1..=3))
            .map(|_| {
                let algorithm = random.choice(algorithms).expect("one");
                Limit::new(algorithm, random.u64(1..=4), random.u64(1..=5))
            })
            .collect();
        let mut arrival = 0;
        let items = (0..random.u8(2..=5)).map(|_| {
            arrival += random.u64(0..=2);
            let costs = limits.iter().map(|limit| random.u64(0..=limit.count)).collect();
            Item { arrival, key: 'A', costs }
        });
        Problem { items: items.collect(), limits }
    }

    /// The program's schedule: the instant of each item, in input order.
    fn greedy(&self) -> Vec<u64> {
        let args: Vec<_> = self.limits.iter().enumerate().map(|(index, limit)| limit.arg(index)).collect();
        let line = |(number, item): (usize, &Item)| {
            let costs: Vec<_> = item.costs.iter().map(ToString::to_string).collect();
            block(item.arrival, &[format!("{} {} {number}", item.key, costs.join(" "))])
        };
        let outcome = Simulation::new(&args).run(self.items.iter().enumerate().map(line).collect());
        let mut instants = vec![None; self.items.len()];
        for release in outcome.releases {
            for line in release.lines {
                let number: usize = line.rsplit(' ').next().expect("a field").parse().expect("a number");
                instants[number] = Some(release.start);
            }
        }
        instants.into_iter().map(|at| at.expect("released")).collect()
    }

    /// The soonest that any conforming schedule up to `last` releases each item, in input order, and the soonest end of
    /// all items.
    fn soonest(&self, last: u64) -> (Vec<Option<u64>>, Option<u64>) {
        let mut search = Search { problem: self, last, soonest: vec![None; self.items.len()], end: None };
        search.extend(&mut Vec::new(), 0);
        (search.soonest, search.end)
    }
}

struct Search<'a> {
    problem: &'a Problem,
    last: u64,
    soonest: Vec<Option<u64>>,
    end: Option<u64>,
}

impl<'a> Search<'a> {
    /// Tries all continuations. `released` has a bit for each released item.
    fn extend(&mut self, schedule: &mut Schedule<'a>, released: u32) {
        let now = schedule.last().map_or(0, |(_, at)| *at);
        let items = &self.problem.items;
        if schedule.len() == items.len() {
            self.end = Some(self.end.map_or(now, |end| end.min(now)));
        }
        for (number, item) in items.iter().enumerate().filter(|(number, _)| released & (1 << number) == 0) {
            let is_next =
                (0..number).all(|other| released & (1 << other) != 0 || items[other].key != item.key);
            for at in now.max(item.arrival)..=self.last {
                schedule.push((item, at));
                let limits = self.problem.limits.iter().enumerate();
                if is_next && limits.into_iter().all(|(index, limit)| limit.is_kept(index, schedule)) {
                    self.soonest[number] = Some(self.soonest[number].map_or(at, |soonest| soonest.min(at)));
                    self.extend(schedule, released | 1 << number);
                }
                schedule.pop();
            }
        }
    }
}

#[test]
fn no_conforming_schedule_releases_any_item_sooner() {
    for seed in seeds(200) {
        println!("seed {seed}");
        let problem = Problem::random(&mut Rng::with_seed(seed));
        let greedy = problem.greedy();
        let (soonest, end) = problem.soonest(greedy[greedy.len() - 1]);
        assert_eq!(soonest, greedy.iter().copied().map(Some).collect::<Vec<_>>(), "{:?}", problem.items);
        assert_eq!(end, greedy.last().copied());
    }
}

/// The example in `earliest.md`: 1/s for all and 1/10s for each key, where B has only one item.
#[test]
fn with_keys_the_earliest_choice_may_end_later() {
    let item = |key| Item { arrival: 0, key, costs: vec![1, 1] };
    let per_key = Limit { is_keyed: true, ..Limit::new(Algorithm::Sliding, 1, 10) };
    let problem = Problem {
        limits: vec![Limit::new(Algorithm::Sliding, 1, 1), per_key],
        items: ['B', 'A', 'A'].map(item).to_vec(),
    };
    assert_eq!(problem.greedy(), [0, 1, 11]);
    assert_eq!(problem.soonest(11).1, Some(10));
}

/// A window that starts later ends later, and so may hold a burst.
#[test]
fn with_fixed_windows_the_earliest_choice_may_end_later() {
    let item = |arrival| Item { arrival, key: 'A', costs: vec![1] };
    let problem = Problem {
        limits: vec![Limit::new(Algorithm::Fixed, 2, 10)],
        items: [0, 10, 10, 10].map(item).to_vec(),
    };
    assert_eq!(problem.greedy(), [0, 10, 10, 20]);
    assert_eq!(problem.soonest(20).1, Some(11));
}
