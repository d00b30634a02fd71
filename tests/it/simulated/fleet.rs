//! Many processes that share a store, on one simulated clock.
//!
//! Each runs on a thread of its own, but only one at a time, and which one follows from the clock alone: all but one
//! wait until an instant, and the one that waits for the earliest goes on. So a seed makes the same run each time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use fastrand::Rng;
use nix::sys::signal::Signal;
use throttle::cli;
use throttle::config::Config;
use throttle::pump::{Pump, Stop, Wake, World};
use throttle::sink::{Load, SendError, Sent, Sink};
use throttle::source::Block;
use throttle::store::{Memory, Order, Policy, Reserve, Store};
use throttle::time::Time;
use throttle::ui::report::Reporter;

use super::block;

/// How unkind the world is, in nanoseconds at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// From an order to its being booked, and again to the answer.
    pub(crate) delay: u64,
    /// One in so many answers is lost, and the order is given again.
    pub(crate) loss: u64,
    /// How late a process wakes up.
    pub(crate) lateness: u64,
    /// One in so many processes dies on its way.
    pub(crate) death: u64,
}

/// A release of some process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Leave {
    pub(crate) at: u64,
    pub(crate) process: usize,
}

/// Runs `processes` with these arguments, each on items of one key of three that arrive at random within `span`, and returns what they
/// released, in the order of time.
pub(crate) fn sail(
    args: &[&str],
    processes: usize,
    items: u64,
    span: u64,
    seed: u64,
    weather: Weather,
) -> Vec<Leave> {
    let args = ["throttle"].iter().chain(args).map(Into::into);
    let config = Arc::new(cli::parse(args).expect("a command line"));
    let rates = config.limits.load().expect("limits");
    let sea = Sea::new(Policy::new(&rates, Reserve::LOCAL));
    let mut random = Rng::with_seed(seed);
    let voyages = (0..processes).map(|process| {
        let mut arrivals: Vec<_> = (0..items).map(|_| random.u64(0..=span)).collect();
        arrivals.sort_unstable();
        let item = format!("item {}", process % 3);
        let death = (random.u64(0..weather.death) == 0).then(|| random.u64(0..=span));
        let ship = Ship {
            sea: Arc::clone(&sea),
            process,
            random: random.fork(),
            weather,
            arrivals: arrivals.into_iter().map(|at| block(at, &[&item])).collect(),
            orders: VecDeque::new(),
            answers: VecDeque::new(),
            death,
            read: 0,
            has_ended: false,
        };
        sea.state().waiting.insert((0, process));
        ship
    });
    let voyages: Vec<_> = voyages.collect();
    let crews = voyages.into_iter().map(|ship| {
        let config = Arc::clone(&config);
        thread::spawn(move || ship.sail(&config))
    });
    let crews: Vec<_> = crews.collect();
    sea.set_out();
    let mut leaves: Vec<_> = crews.into_iter().flat_map(|crew| crew.join().expect("a run")).collect();
    leaves.sort_unstable();
    leaves
}

/// What all processes share.
struct Sea {
    clock: Arc<AtomicU64>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    store: Memory,
    /// Until when processes wait.
    waiting: BTreeSet<(u64, usize)>,
    /// Whose turn it is; nobody's before all are there.
    turn: Option<usize>,
}

impl Sea {
    fn new(policy: Policy) -> Arc<Self> {
        let clock = Arc::new(AtomicU64::new(0));
        let shown = Arc::clone(&clock);
        let store = Memory::new(policy, move || Time(shown.load(SeqCst)));
        let state = State { store, waiting: BTreeSet::new(), turn: None };
        Arc::new(Sea { clock, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no process has failed")
    }

    fn now(&self) -> u64 {
        self.clock.load(SeqCst)
    }

    fn set_out(&self) {
        self.pass_on(&mut self.state());
    }

    /// The turn is that of whoever waits for the earliest instant, which has come.
    fn pass_on(&self, state: &mut State) {
        state.turn = state.waiting.pop_first().map(|(at, process)| {
            self.clock.store(at.max(self.now()), SeqCst);
            process
        });
        self.changed.notify_all();
    }

    /// Waits until `at`, while others go on.
    fn wait(&self, process: usize, at: u64) {
        let mut state = self.state();
        state.waiting.insert((at, process));
        self.pass_on(&mut state);
        self.take_turn(process, state);
    }

    fn take_turn(&self, process: usize, state: MutexGuard<State>) {
        drop(
            self.changed
                .wait_while(state, |state| state.turn != Some(process))
                .expect("no process has failed"),
        );
    }
}

/// The world of one process.
struct Ship {
    sea: Arc<Sea>,
    process: usize,
    random: Rng,
    weather: Weather,
    arrivals: VecDeque<Block>,
    /// Orders on their way, and when they arrive.
    orders: VecDeque<(u64, Order)>,
    /// Answers on their way, and when they arrive.
    answers: VecDeque<(u64, Wake)>,
    death: Option<u64>,
    read: u64,
    has_ended: bool,
}

impl Ship {
    fn sail(mut self, config: &Config) -> Vec<Leave> {
        let (sea, process) = (Arc::clone(&self.sea), self.process);
        sea.take_turn(process, sea.state());
        let rates = config.limits.load().expect("limits");
        let policy = Policy::new(&rates, Reserve::LOCAL);
        let reporter = Reporter::silent();
        let mut log = Log { sea: Arc::clone(&sea), process, leaves: Vec::new() };
        Pump::new(&mut self, &mut log, &reporter, config, rates).with_bookings(policy).run();
        sea.pass_on(&mut sea.state());
        log.leaves
    }

    /// What happens by now, if anything.
    fn event(&mut self, accepting: bool) -> Option<Wake> {
        let now = self.sea.now();
        if self.death.take_if(|death| *death <= now).is_some() {
            return Some(Wake::Stop(Stop::Signal(Signal::SIGTERM)));
        }
        while let Some((_, order)) = pop_due(&mut self.orders, |(at, _)| *at <= now) {
            self.deliver(order);
        }
        if let Some((_, answer)) = pop_due(&mut self.answers, |(at, _)| *at <= now) {
            return Some(answer);
        }
        if !accepting || self.has_ended {
            return None;
        }
        if self.arrivals.is_empty() {
            self.has_ended = true;
            return Some(Wake::End(None));
        }
        let block = pop_due(&mut self.arrivals, |block| block.arrival().0 <= now)?;
        self.read += 1;
        Some(Wake::Input(block))
    }

    /// An order has reached the store.
    fn deliver(&mut self, order: Order) {
        let answer = self.sea.state().store.book(&order);
        let arrives = self.sea.now() + self.random.u64(0..=self.weather.delay);
        if self.random.u64(0..self.weather.loss) == 0 {
            self.orders.push_back((arrives + self.weather.delay, order));
        } else {
            self.answers.push_back((arrives, Wake::Booked(order, answer)));
        }
    }

    /// When something happens next.
    fn next(&self, accepting: bool) -> Option<u64> {
        let arrival = self.arrivals.front().map_or(0, |block| block.arrival().0);
        let arrival = (accepting && !self.has_ended).then_some(arrival);
        let order = self.orders.front().map(|(at, _)| *at);
        let answer = self.answers.front().map(|(at, _)| *at);
        [self.death, arrival, order, answer].into_iter().flatten().min()
    }
}

impl World for Ship {
    fn now(&self) -> Time {
        Time(self.sea.now())
    }

    fn wait(&mut self, until: Option<Time>, accepting: bool) -> Wake {
        loop {
            if let Some(event) = self.event(accepting) {
                return event;
            }
            if until.is_some_and(|until| until.0 <= self.sea.now()) {
                return Wake::Due;
            }
            let next = [until.map(|until| until.0), self.next(accepting)].into_iter().flatten().min();
            let late = if self.random.bool() { self.random.u64(0..=self.weather.lateness) } else { 0 };
            self.sea.wait(self.process, next.expect("something to wait for") + late);
        }
    }

    fn items_read(&self) -> u64 {
        self.read
    }

    fn book(&mut self, order: Order) {
        let arrives = self.sea.now() + self.random.u64(0..=self.weather.delay);
        self.orders.push_back((arrives, order));
    }
}

/// Notes what leaves, and when.
struct Log {
    sea: Arc<Sea>,
    process: usize,
    leaves: Vec<Leave>,
}

impl Sink for Log {
    fn send(&mut self, _: Time, load: &Load) -> Result<Sent, SendError> {
        let leave = Leave { at: self.sea.now(), process: self.process };
        self.leaves.extend((0..load.records).map(|_| leave));
        Ok(Sent::Released)
    }
}

/// Takes the first, if it is due.
fn pop_due<T>(queue: &mut VecDeque<T>, is_due: impl Fn(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(is_due) { queue.pop_front() } else { None }
}
