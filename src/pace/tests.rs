//! Those who wait, by a clock of the test's own. Each does what a thread would do: it sleeps until the instant that it
//! was told, or until it is woken, and then asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use fastrand::Rng;

use super::limits::{Limits, Waiting};
use super::queue::{Queue, Standing, Woken};
use super::values::Values;
use crate::config::{Defaults, parse_limits};
use crate::random::for_each_seed;
use crate::time::{Time, Wall};

/// Counts how often someone was woken; remembers whether this one was.
#[derive(Default)]
struct Bell {
    is_rung: AtomicU64,
    count: Arc<AtomicUsize>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.is_rung.store(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

struct Sleeper {
    key: u8,
    item: Waiting,
    bell: Arc<Bell>,
    until: Option<Time>,
}

/// All that a [`SharedPace`](super::shared::SharedPace) has, without its lock.
struct World {
    values: Values,
    limits: Limits,
    queue: Queue,
    now: Time,
    sleepers: BTreeMap<u64, Sleeper>,
    /// Those admitted, and not ended yet, and when they were.
    admitted: Vec<(Waiting, Time)>,
    order: Vec<(u64, u8)>,
    wakes: Arc<AtomicUsize>,
}

impl World {
    fn new(limits: &str) -> Self {
        let rates = parse_limits(limits, &Defaults::default()).unwrap();
        World {
            values: Values::new(&rates),
            limits: Limits::new(rates, Wall::EPOCH),
            queue: Queue::default(),
            now: Time::ZERO,
            sleepers: BTreeMap::new(),
            admitted: Vec::new(),
            order: Vec::new(),
            wakes: Arc::default(),
        }
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Self, &mut Woken) -> T) -> T {
        let mut woken = Woken::new();
        let result = change(self, &mut woken);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    fn arrive(&mut self, key: u8, cost: u64) {
        let charges = self.values.of(&[key], cost).unwrap();
        let item = Waiting { eligible_at: self.now, charges, mark: None };
        let now = self.now;
        let answer = self.change(|world, woken| {
            world
                .queue
                .admit(&item, &mut world.limits, (now, false), woken)
                .map_err(|blocked| world.queue.join(item.clone(), blocked, &world.limits, now))
        });
        match answer {
            Ok(at) => self.admitted.push((item, at)),
            Err(ticket) => {
                let bell = Arc::new(Bell { is_rung: AtomicU64::new(1), count: Arc::clone(&self.wakes) });
                self.sleepers.insert(ticket, Sleeper { key, item, bell, until: None });
                self.ask(ticket);
            }
        }
    }

    /// True if it was admitted.
    fn ask(&mut self, ticket: u64) -> bool {
        let (now, sleeper) = (self.now, &self.sleepers[&ticket]);
        let (bell, key) = (Arc::clone(&sleeper.bell), sleeper.key);
        bell.is_rung.store(0, Ordering::Relaxed);
        let answer = self.change(|world, woken| {
            let standing = &world.queue.ask(ticket, &mut world.limits, now, woken).unwrap().standing;
            let answer = match standing {
                Standing::Admitted(at) => Ok(*at),
                Standing::First(_, until) => Err(*until),
                Standing::Behind(_) => Err(None),
            };
            match answer {
                Ok(at) => _ = world.queue.leave(ticket, &mut world.limits, at, woken),
                Err(_) => _ = world.queue.watch(ticket, Waker::from(bell)),
            }
            answer
        });
        match answer {
            Ok(at) => {
                let sleeper = self.sleepers.remove(&ticket).unwrap();
                // What costs nothing waits for the end of a pause alone.
                if sleeper.item.charges.costs[0] > 0 {
                    self.order.push((ticket, key));
                }
                self.admitted.push((sleeper.item, at));
            }
            Err(until) => self.sleepers.get_mut(&ticket).unwrap().until = until,
        }
        answer.is_ok()
    }

    /// Lets all go on who were woken or have slept long enough.
    fn settle(&mut self) {
        loop {
            let is_up = |sleeper: &Sleeper| {
                let is_rung = sleeper.bell.is_rung.load(Ordering::Relaxed) > 0;
                is_rung || sleeper.until.is_some_and(|until| until <= self.now)
            };
            let next = self.sleepers.iter().find(|(_, sleeper)| is_up(sleeper)).map(|(ticket, _)| *ticket);
            let Some(ticket) = next else { return };
            self.ask(ticket);
        }
    }

    fn end(&mut self, random: &mut Rng) {
        let (item, at) = self.admitted.swap_remove(random.usize(..self.admitted.len()));
        let now = self.now;
        let is_canceled = random.u8(..4) == 0;
        self.change(|World { limits, queue, .. }, woken| {
            match is_canceled {
                true => limits.withdraw(&item, now),
                false => limits.finish(&item, at, now),
            }
            queue.advance_for(&item, limits, now, woken);
        });
    }

    fn give_up(&mut self, random: &mut Rng) {
        let ticket = *self.sleepers.keys().nth(random.usize(..self.sleepers.len())).unwrap();
        self.sleepers.remove(&ticket);
        let now = self.now;
        self.change(|World { limits, queue, .. }, woken| {
            let waiter = queue.leave(ticket, limits, now, woken).unwrap();
            if matches!(waiter.standing, Standing::Admitted(_)) {
                limits.withdraw(&waiter.item, now);
                queue.advance_for(&waiter.item, limits, now, woken);
            }
        });
    }

    /// No one who waits could go, except behind one who waits longer and is charged by a limit that it shares.
    fn check(&mut self) {
        let mut earlier: Vec<&Waiting> = Vec::new();
        for sleeper in self.sleepers.values() {
            let item = &sleeper.item;
            let is_passed = earlier.iter().any(|other| shares_a_limit(other, item, &self.limits));
            let may_go = self.limits.earliest(item, self.now) == Some(self.now);
            assert!(is_passed || !may_go, "{item:?} could go at {:?}", self.now);
            earlier.push(item);
        }
    }
}

fn shares_a_limit(one: &Waiting, other: &Waiting, limits: &Limits) -> bool {
    let lines = |item: &Waiting| item.obstacles().skip(1).map(|by| limits.line(by, item)).collect::<Vec<_>>();
    let others = lines(other);
    lines(one).iter().any(|line| others.contains(line))
}

#[test]
fn property_all_who_wait_go_as_soon_as_they_may_and_those_of_a_key_in_turn() {
    for_each_seed(400, |random| {
        let limits = [
            "2/9ns",
            "3/20ns\n1/9ns,key=col:1",
            "1/9ns,key=col:1\n3/20ns",
            "4/9ns,algo=bucket,burst=5\n2/30ns,key=col:1",
            "9/9ns,algo=interval\n3/12ns,algo=fixed,key=col:1\n5/40ns",
        ];
        let mut world = World::new(random.choice(limits).unwrap());
        let mut arrivals = 60;
        while arrivals > 0 || !world.sleepers.is_empty() || !world.admitted.is_empty() {
            match random.u8(..8) {
                0..=2 if arrivals > 0 => {
                    arrivals -= 1;
                    let cost = if random.u8(..4) == 0 { random.u64(..2) } else { 1 };
                    world.arrive(random.u8(..4), cost);
                }
                3 if !world.sleepers.is_empty() && random.bool() => world.give_up(random),
                4 if random.u8(..9) == 0 => world.limits.pause(Time(world.now.0 + random.u64(..30))),
                4..=6 if !world.admitted.is_empty() => world.end(random),
                _ => world.now = Time(world.now.0 + random.u64(..4)),
            }
            world.settle();
            world.check();
            assert!(world.now < Time(1_000_000), "someone waits for ever");
        }
        for key in 0..4 {
            let of_key = world.order.iter().filter(|(_, other)| *other == key).map(|(ticket, _)| ticket);
            assert!(of_key.is_sorted(), "{:?}", world.order);
        }
    });
}

/// As it would be if the system's clock were set.
#[test]
fn no_period_of_the_calendar_has_more_if_the_clock_is_set() {
    let rates = parse_limits("1/h,algo=calendar,tz=UTC", &Defaults::default()).unwrap();
    let mut limits = Limits::new(rates, Wall::EPOCH);
    let second = |second: u64| Time(second * crate::time::SECOND);
    let one = || Waiting {
        charges: super::values::Charges { costs: [1].into_iter().collect(), ..Default::default() },
        ..Waiting::default()
    };
    limits.follow(second(0), second(3598), 0);
    assert!(limits.admit(&one(), second(0), true).is_ok());
    // By an instant that is read late, it was not set.
    limits.follow(second(1), Time(second(3599).0 - 50_000), 0);
    assert_eq!(limits.earliest(&one(), second(1)), Some(second(2)));
    // Set back by half an hour, it shows the same hour for longer.
    limits.follow(second(3), second(1801), 0);
    assert_eq!(limits.earliest(&one(), second(3)), Some(second(1802)));
    limits.follow(second(4), second(3601), 0);
    assert_eq!(limits.earliest(&one(), second(4)), Some(second(4)));
}

/// However many wait, one that ends wakes the one that goes and the one that is first after it.
#[test]
fn an_end_wakes_few_of_thousands_who_wait() {
    const WAITING: usize = 2000;
    for (limits, keys) in [("1/9ns", 1), ("1/9ns,key=col:1", 200), ("5/9ns\n1/30ns,key=col:1", 200)] {
        let mut world = World::new(limits);
        (0..keys).cycle().take(WAITING).for_each(|key| world.arrive(key, 1));
        world.wakes.store(0, Ordering::Relaxed);
        let (mut random, mut steps) = (Rng::with_seed(1), 0);
        while !world.sleepers.is_empty() {
            while !world.admitted.is_empty() {
                world.end(&mut random);
            }
            world.now = Time(world.now.0 + 3);
            world.settle();
            steps += 1;
        }
        let wakes = world.wakes.load(Ordering::Relaxed);
        assert!(wakes <= 4 * WAITING + 2 * steps, "{wakes} in {steps} steps under {limits}");
    }
}
