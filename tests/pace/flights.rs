//! Releases that take time, compared with a list of them.

use std::time::{Duration, Instant};

use fastrand::Rng;
use throttle::pace::{Admission, Pace};

use crate::admitted;
use crate::random::seeds;

const KEYS: usize = 3;

/// A release as the model sees it. It may have happened at any instant between its start and its end.
#[derive(Clone, Copy, Debug)]
struct Flight {
    key: usize,
    cost: u64,
    start: u64,
    /// `None` while it is under way.
    end: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    algorithm: &'static str,
    count: u64,
    period: u64,
    burst: u64,
    is_keyed: bool,
}

impl Limit {
    fn draw(random: &mut Rng) -> Self {
        let algorithm = random.choice(["sliding", "bucket", "interval", "fixed"]).unwrap();
        let (count, period) = (random.u64(1..6), random.u64(1..40));
        Limit { algorithm, count, period, burst: random.u64(3..7), is_keyed: random.bool() }
    }

    fn text(&self) -> String {
        let Limit { algorithm, count, period, burst, .. } = self;
        let burst = if *algorithm == "bucket" { format!(",burst={burst}") } else { String::new() };
        let key = if self.is_keyed { ",key=col:1" } else { "" };
        format!("{count}/{period}ns,algo={algorithm}{burst}{key}")
    }

    /// True if one more may begin at `now`, however long those under way have yet to go.
    fn admits(&self, flights: &[Flight], key: usize, cost: u64, now: u64) -> bool {
        let mine: Vec<_> = flights.iter().filter(|flight| !self.is_keyed || flight.key == key).collect();
        let running = mine.iter().filter(|flight| flight.end.is_none());
        let running: u64 = running.map(|flight| flight.cost).sum();
        let mut ended: Vec<_> = mine.iter().filter_map(|flight| Some((flight.end?, flight.cost))).collect();
        ended.sort_by_key(|(end, _)| *end);
        match self.algorithm {
            "sliding" => {
                let recent = ended.iter().filter(|(end, _)| end + self.period > now);
                recent.map(|(_, cost)| cost).sum::<u64>() + running + cost <= self.count
            }
            "interval" => {
                let gap = |cost: u64| (cost * self.period).div_ceil(self.count);
                running == 0 && ended.last().is_none_or(|(end, cost)| end + gap(*cost) <= now)
            }
            "fixed" => {
                let (mut start, mut used) = (None, 0);
                for (end, cost) in ended {
                    if start.is_none_or(|start| end >= start + self.period) {
                        (start, used) = (Some(end), 0);
                    }
                    used += cost;
                }
                let used = if start.is_some_and(|start| now < start + self.period) { used } else { 0 };
                used + running + cost <= self.count
            }
            _ => {
                // In units of 1/period.
                let full = self.burst * self.period;
                let (mut level, mut at) = (full, 0);
                for (end, cost) in ended {
                    level = (level + (end - at) * self.count).min(full);
                    level = level.checked_sub(cost * self.period).expect("it is never too early");
                    at = end;
                }
                let level = (level + (now - at) * self.count).min(full);
                level >= (running + cost) * self.period
            }
        }
    }

    fn most_cost(&self) -> u64 {
        if self.algorithm == "bucket" { self.burst.min(3) } else { self.count.min(3) }
    }

    /// The most in any window, by instants at which releases may have happened.
    fn check(&self, flights: &[Flight], random: &mut Rng) {
        for key in 0..KEYS {
            let mine = flights.iter().filter(|flight| !self.is_keyed || flight.key == key);
            let mut happened: Vec<_> = mine
                .map(|flight| (random.u64(flight.start..=flight.end.unwrap_or(flight.start)), flight.cost))
                .collect();
            happened.sort_unstable();
            for (first, (from, _)) in happened.iter().enumerate() {
                let mut sum = 0;
                for (at, cost) in &happened[first..] {
                    sum += cost;
                    let allowed = match self.algorithm {
                        "sliding" if at - from < self.period => self.count,
                        "bucket" => self.burst + ((at - from) * self.count) / self.period,
                        _ => u64::MAX,
                    };
                    assert!(sum <= allowed, "{self:?}: {happened:?}");
                }
            }
        }
    }
}

/// Many under way at once, ended, dropped or canceled in any order, asked about by clocks that disagree.
#[test]
fn property_what_is_under_way_counts_until_it_ends_and_then_as_of_its_end() {
    for seed in seeds(1000) {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let limits: Vec<_> = (0..random.usize(1..4)).map(|_| Limit::draw(&mut random)).collect();
        let text: Vec<_> = limits.iter().map(Limit::text).collect();
        println!("{text:?}");
        let dearest = limits.iter().map(Limit::most_cost).min().unwrap();
        let origin = Instant::now();
        let at = |nanos: u64| origin + Duration::from_nanos(nanos);
        let pace = Pace::new(&text.join("\n"), origin).unwrap();
        let (mut flights, mut running) = (Vec::<Flight>::new(), Vec::<(usize, Admission)>::new());
        // Nothing can happen before the latest event.
        let (mut now, mut latest) = (0, 0);
        for _ in 0..80 {
            now += random.u64(..6);
            // An instant that was read some time ago.
            let told = if random.u8(..4) == 0 { now - random.u64(..=now.min(9)) } else { now };
            let happens = told.max(latest);
            match random.u8(..4) {
                0 if !running.is_empty() => {
                    let (flight, admission) = running.swap_remove(random.usize(..running.len()));
                    match random.u8(..6) {
                        0 => {
                            admission.cancel(at(told));
                            flights[flight] = Flight { cost: 0, end: Some(0), ..flights[flight] };
                        }
                        1 => {
                            drop(admission);
                            // By the next instant that is told.
                            pace.earliest(("", 1), at(told)).unwrap();
                            flights[flight].end = Some(happens);
                            latest = happens;
                        }
                        _ => {
                            admission.commit(at(told));
                            flights[flight].end = Some(happens);
                            latest = happens;
                        }
                    }
                }
                _ => {
                    let (key, cost) = (random.usize(..KEYS), random.u64(1..=dearest));
                    let known: Vec<_> = flights.iter().filter(|flight| flight.cost > 0).copied().collect();
                    let admits = |now| limits.iter().all(|limit| limit.admits(&known, key, cost, now));
                    let name = key.to_string();
                    let answer = pace.admit((&name, cost), at(told));
                    assert_eq!(answer.is_ok(), admits(happens), "at {told}, after {latest}: {answer:?}");
                    match answer {
                        Ok(admission) => {
                            running.push((flights.len(), admission));
                            flights.push(Flight { key, cost, start: happens, end: None });
                            latest = happens;
                        }
                        refused => match admitted(&refused).unwrap_err() {
                            Some(until) => {
                                let until = u64::try_from((until - origin).as_nanos()).unwrap();
                                assert!(until > happens && admits(until) && !admits(until - 1));
                            }
                            None => assert!(
                                !running.is_empty() && (0..1000).all(|later| !admits(happens + later))
                            ),
                        },
                    }
                }
            }
        }
        let happened: Vec<_> = flights.into_iter().filter(|flight| flight.cost > 0).collect();
        limits.iter().for_each(|limit| limit.check(&happened, &mut random));
    }
}

#[test]
fn what_is_leaked_counts_for_ever() {
    let now = Instant::now();
    let pace = Pace::new("1/s", now).unwrap();
    std::mem::forget(pace.admit(("", 1), now).unwrap());
    assert_eq!(admitted(&pace.admit(("", 1), now + Duration::from_secs(9))), Err(None));
}
