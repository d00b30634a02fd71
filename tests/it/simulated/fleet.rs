//! Many processes that share a store, on one simulated clock.
//!
//! Each process has its own thread, but only one runs at a time, and the clock alone decides which: all others wait for
//! an instant, and the one with the earliest instant goes on. So a seed always gives the same run.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use fastrand::Rng;
use nix::sys::signal::Signal;
use throttle::charge::Key;
use throttle::config::{Config, Rate};
use throttle::exit::Exit;
use throttle::gate::BookingTerms;
use throttle::runtime::{Event, Wait, Wake, World};
use throttle::source::Capacity;
use throttle::store::{Answer, BootClock, Order, Policy, Reserve, Slot, Store, Task};
use throttle::time::{Time, Wall};

use super::vault::{Change, InMemory, Trouble, Vault};
use super::{Recorder, Release as Left, block, drive};

/// What goes wrong; durations are the longest possible, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// The time from an order to its booking, and again from there to the answer.
    pub(crate) delay: u64,
    /// One in this many answers is lost, and the order is placed again.
    pub(crate) loss: u64,
    /// How late a process wakes up.
    pub(crate) lateness: u64,
    /// How long a write is blocked, now and then.
    pub(crate) stall: u64,
    /// How long a command takes to start; if any does, releases are commands, which end at once.
    pub(crate) start: u64,
    /// How long a batch takes to prepare.
    pub(crate) prepare: u64,
    /// One in this many processes is ended on its way, and gives back its slots.
    pub(crate) death: u64,
    /// A pause that a server asks the first process for: its start and its end.
    pub(crate) pause: Option<(u64, u64)>,
    /// The wall clock is set to anything, each time by up to this.
    pub(crate) steps: u64,
    /// About half of all requests are decided on by another process.
    pub(crate) contention: bool,
}

impl Faults {
    /// Nothing goes wrong.
    pub(crate) const NONE: Faults = Faults {
        delay: 0,
        loss: u64::MAX,
        lateness: 0,
        stall: 0,
        start: 0,
        prepare: 0,
        death: u64::MAX,
        pause: None,
        steps: 0,
        contention: false,
    };
}

/// The lines that a process reads, and when they arrive.
pub(crate) type Arrivals = VecDeque<(u64, String)>;

/// Limits that a process has followed, and when it learned of them.
pub(crate) type Followed = (u64, Vec<Rate>);

/// A release of some process, with what the wall clock showed when it began.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The limits in force, and since when; both those before and after, if they changed at this very instant. None, if
    /// they are the first.
    pub(crate) limits: Vec<Followed>,
    pub(crate) process: usize,
    pub(crate) shown: u64,
    pub(crate) release: Left,
}

/// The release of an item of some process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Release {
    pub(crate) at: u64,
    /// When the write was over.
    pub(crate) end: u64,
    /// What the wall clock showed when it began.
    pub(crate) shown: u64,
    pub(crate) process: usize,
}

/// How the wall clock is set: from each instant on, it shows as much more than the simulated clock.
#[derive(Clone)]
struct Steps(Arc<[(u64, u64)]>);

/// What the wall clock shows at the start: ten days after its origin, three seconds before noon.
const BEFORE_NOON: u64 = (10 * 86_400 + 43_197) * 1_000_000_000;

impl Steps {
    fn new(random: &mut Rng, longest: u64, span: u64) -> Self {
        let (mut steps, mut ahead) = (vec![(0, BEFORE_NOON)], BEFORE_NOON);
        while longest > 0 && random.u8(0..8) > 0 {
            // Many are about as long as slots are kept apart from the ends of periods.
            let step = if random.bool() { random.u64(0..=longest) } else { random.u64(0..=longest / 50) };
            ahead = if random.bool() { ahead + step } else { ahead - step };
            steps.push((random.u64(0..=span * 2), ahead));
        }
        steps.sort_unstable_by_key(|(at, _)| *at);
        Steps(steps.into())
    }

    fn wall(&self, now: u64) -> Wall {
        let (_, ahead) = self.0[self.0.partition_point(|(at, _)| *at <= now) - 1];
        Wall::new(Time(0), Time(ahead))
    }
}

/// Runs `processes` with these arguments, each with items of one of three keys that arrive at random within `span`.
/// Returns their releases, in order of time.
pub(crate) fn run(
    args: &[&str],
    processes: usize,
    items: u64,
    span: u64,
    seed: u64,
    faults: Faults,
) -> Vec<Release> {
    run_with_slots(args, processes, items, span, seed, faults).0
}

/// What became of the slots of a fleet.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pub(crate) booked: u64,
    pub(crate) returned: u64,
    /// The instants of those that were given back and that nobody asked for in time.
    pub(crate) unused: Vec<u64>,
}

/// As [`run`]; also returns what became of the slots.
pub(crate) fn run_with_slots(
    args: &[&str],
    processes: usize,
    items: u64,
    span: u64,
    seed: u64,
    faults: Faults,
) -> (Vec<Release>, Slots) {
    let mut random = Rng::with_seed(seed);
    let arrivals = (0..processes).map(|process| {
        let mut arrivals: Vec<_> = (0..items).map(|_| random.u64(0..=span)).collect();
        arrivals.sort_unstable();
        arrivals.into_iter().map(|at| (at, format!("item {}", process % 3))).collect()
    });
    let (batches, slots) = run_lines(args, arrivals.collect(), span, seed, faults);
    let each = |Batch { process, shown, release: Left { start: at, end, lines }, .. }| {
        vec![Release { at, end, shown, process }; lines.len()]
    };
    let mut releases: Vec<_> = batches.into_iter().flat_map(each).collect();
    releases.sort_unstable();
    (releases, slots)
}

/// Runs a process for each of `arrivals`, which come within `span`. Returns the releases of each, one process after the
/// other, and what became of the slots.
pub(crate) fn run_lines(
    args: &[&str],
    arrivals: Vec<Arrivals>,
    span: u64,
    seed: u64,
    faults: Faults,
) -> (Vec<Batch>, Slots) {
    let vault = if faults.contention { InMemory::contended() } else { InMemory::default() };
    run_over(Box::new(vault), VecDeque::new(), args, arrivals, span, seed, faults).without_errors()
}

/// What a fleet has done.
pub(crate) struct Ran {
    /// The releases of each process, one process after the other.
    pub(crate) batches: Vec<Batch>,
    pub(crate) slots: Slots,
    /// How each process ended, and the limits that it had followed.
    pub(crate) ends: Vec<(Exit, Vec<Followed>)>,
}

impl Ran {
    /// The releases and slots of processes none of which has failed.
    pub(crate) fn without_errors(self) -> (Vec<Batch>, Slots) {
        for (process, (exit, _)) in self.ends.iter().enumerate() {
            assert_ne!(*exit, Exit::Error, "process {process}");
        }
        (self.batches, self.slots)
    }
}

/// As [`run_lines`], with the state in this vault, which has these troubles, each at an instant.
pub(crate) fn run_over(
    vault: Box<dyn Vault>,
    troubles: VecDeque<(u64, Trouble)>,
    args: &[&str],
    arrivals: Vec<Arrivals>,
    span: u64,
    seed: u64,
    faults: Faults,
) -> Ran {
    let config = Arc::new(super::config(args));
    let rates = shared_limits(&config);
    let mut random = Rng::with_seed(!seed);
    let steps = Steps::new(&mut random, faults.steps, span);
    let fleet = Fleet::new(vault, troubles, &Policy::new(&rates, Reserve::LOCAL), arrivals.len(), steps);
    let runs = arrivals.into_iter().enumerate().map(|(process, arrivals)| {
        let death = (random.u64(0..faults.death) == 0).then(|| random.u64(0..=span));
        let member = Member {
            fleet: Arc::clone(&fleet),
            process,
            random: random.fork(),
            faults,
            arrivals,
            orders: VecDeque::new(),
            answers: VecDeque::new(),
            pause_of_store: FIRST_PAUSE,
            death,
            pause: faults.pause.filter(|_| process == 0),
            has_ended: false,
            followed: Vec::new(),
        };
        fleet.state().waiting.insert((0, process));
        member
    });
    let runs: Vec<_> = runs.collect();
    let threads = runs.into_iter().map(|member| {
        let config = Arc::clone(&config);
        thread::spawn(move || member.run(&config))
    });
    let threads: Vec<_> = threads.collect();
    fleet.start();
    let ran = threads.into_iter().map(|thread| thread.join().expect("a run"));
    let (batches, ends): (Vec<_>, _) = ran.unzip();
    let slots = std::mem::take(&mut fleet.state().slots);
    Ran { batches: batches.into_iter().flatten().collect(), slots, ends }
}

fn shared_limits(config: &Config) -> Vec<Rate> {
    super::limits(config).into_iter().filter(|rate| !rate.is_local()).collect()
}

/// What all processes share.
struct Fleet {
    clock: Arc<AtomicU64>,
    steps: Steps,
    state: Mutex<State>,
    /// Wakes the process with this index when its turn has come.
    turns: Vec<Condvar>,
}

struct State {
    vault: Box<dyn Vault>,
    /// One for each process.
    stores: Vec<Box<dyn Store>>,
    troubles: VecDeque<(u64, Trouble)>,
    /// Until when the vault is stopped, and until when it refuses everything.
    stopped: u64,
    away: u64,
    /// When each process had its last answer; the end of time for those that have ended.
    heard: Vec<u64>,
    /// Since when something is booked that what was moved away lacks, and what was copied.
    lacking: [Option<u64>; 2],
    slots: Slots,
    /// The instants that processes wait for.
    waiting: BTreeSet<(u64, usize)>,
    /// The process whose turn it is; `None` until all are there.
    turn: Option<usize>,
}

impl Fleet {
    fn new(
        mut vault: Box<dyn Vault>,
        troubles: VecDeque<(u64, Trouble)>,
        policy: &Policy,
        processes: usize,
        steps: Steps,
    ) -> Arc<Self> {
        let clock = Arc::new(AtomicU64::new(0));
        vault.pass(0);
        let open = |_| {
            let [shown, of_wall] = [(); 2].map(|()| Arc::clone(&clock));
            let set = steps.clone();
            let wall = move || set.wall(of_wall.load(SeqCst));
            vault.open(policy.clone(), Box::new(move || Time(shown.load(SeqCst))), Box::new(wall))
        };
        let stores = (0..processes).map(open).collect();
        let state = State {
            vault,
            stores,
            troubles,
            stopped: 0,
            away: 0,
            heard: vec![0; processes],
            lacking: [None; 2],
            slots: Slots::default(),
            waiting: BTreeSet::new(),
            turn: None,
        };
        let turns = (0..processes).map(|_| Condvar::new()).collect();
        Arc::new(Fleet { clock, steps, state: Mutex::new(state), turns })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no process has failed")
    }

    fn now(&self) -> u64 {
        self.clock.load(SeqCst)
    }

    fn start(&self) {
        self.pass_on(self.state());
    }

    /// Gives the turn to the process that waits for the earliest instant, which has come.
    fn pass_on(&self, mut state: MutexGuard<State>) {
        let next = state.waiting.pop_first();
        state.turn = next.map(|(_, process)| process);
        if let Some((at, process)) = next {
            while let Some((when, trouble)) = pop_due(&mut state.troubles, |(when, _)| *when <= at) {
                self.go_to(&state, when);
                let clock = Arc::clone(&self.clock);
                state.suffer(when, trouble, Box::new(move || Time(clock.load(SeqCst))));
            }
            self.go_to(&state, at);
            drop(state);
            self.turns[process].notify_one();
        }
    }

    fn go_to(&self, state: &State, at: u64) {
        self.clock.store(at.max(self.now()), SeqCst);
        state.vault.pass(self.now());
    }

    /// Waits until `at`, while others go on.
    fn wait(&self, process: usize, at: u64) {
        let mut state = self.state();
        state.waiting.insert((at, process));
        self.pass_on(state);
        self.take_turn(process);
    }

    fn take_turn(&self, process: usize) {
        let is_due = self.turns[process].wait_while(self.state(), |state| state.turn != Some(process));
        drop(is_due.expect("no process has failed"));
    }
}

impl State {
    fn suffer(&mut self, now: u64, trouble: Trouble, clock: BootClock) {
        match trouble {
            Trouble::Stop(length) => self.stopped = now + length,
            Trouble::Away(length) => self.away = now + length,
            Trouble::Change(change) => self.change(change),
            Trouble::Limits(rates, swaps) => self.vault.set_limits(&rates, clock, swaps),
        }
    }
}

impl State {
    fn change(&mut self, change: Change) {
        let [aside, copied] = self.lacking.map(|since| since.unwrap_or(0));
        let is_known = |since| self.heard.iter().all(|heard| *heard > since);
        match change {
            // To a process that has not asked since, nothing is lacking.
            Change::PutBack if !is_known(aside) => {}
            Change::Restore if !is_known(copied) => {}
            Change::SetAside if self.vault.change(change) => self.lacking[0] = None,
            Change::Copy if self.vault.change(change) => self.lacking[1] = None,
            Change::SetAside | Change::Copy => {}
            _ => _ = self.vault.change(change),
        }
    }

    /// A process had an answer.
    fn hear(&mut self, now: u64, process: usize) {
        self.heard[process] = now;
        self.lacking.iter_mut().for_each(|since| _ = since.get_or_insert(now));
    }
}

/// A store that is refused tries again after a pause, which grows.
const FIRST_PAUSE: u64 = 50_000_000;
const LONGEST_PAUSE: u64 = 2_000_000_000;

/// The world of one process.
struct Member {
    fleet: Arc<Fleet>,
    process: usize,
    random: Rng,
    faults: Faults,
    arrivals: Arrivals,
    /// Orders and returned slots on their way to the store, and when they arrive.
    orders: VecDeque<(u64, Order)>,
    /// Answers on their way, and when they arrive.
    answers: VecDeque<(u64, Event)>,
    /// The next pause of a store that is refused.
    pause_of_store: u64,
    death: Option<u64>,
    pause: Option<(u64, u64)>,
    has_ended: bool,
    /// The changes of limits that it has followed.
    followed: Vec<Followed>,
}

impl Member {
    fn run(mut self, config: &Config) -> (Vec<Batch>, (Exit, Vec<Followed>)) {
        let (fleet, process) = (Arc::clone(&self.fleet), self.process);
        fleet.take_turn(process);
        let rates = shared_limits(config);
        let policy = Policy::new(&rates, Reserve::LOCAL);
        let (Faults { stall, start, .. }, mut random) = (self.faults, self.random.fork());
        let mut sink = Recorder::new(|| {
            if start > 0 {
                fleet.wait(process, fleet.now() + random.u64(start / 4..=start));
            }
            if stall > 0 && random.u8(0..4) == 0 {
                fleet.wait(process, fleet.now() + random.u64(0..=stall));
            }
            fleet.now()
        });
        if start > 0 {
            sink.capacity = Capacity { vacancies: 8, at_once: 1, ..Capacity::UNLIMITED };
        }
        if self.faults.prepare > 0 {
            let (fleet, prepare) = (Arc::clone(&fleet), self.faults.prepare);
            sink.prepare = Some(Box::new(move || fleet.wait(process, fleet.now() + prepare)));
        }
        let (patience, answers_within) = (2 * self.faults.delay, self.faults.delay);
        let terms = BookingTerms { patience, answers_within, ..policy.booking_terms(0) };
        let (exit, _) = drive(config, &mut self, &mut sink, |schedule| (schedule.with_bookings(terms), None));
        self.close();
        fleet.state().heard[process] = u64::MAX;
        fleet.pass_on(fleet.state());
        let shown = |release: &Left| fleet.steps.wall(release.start).shows(Time(release.start)).0;
        let releases = sink.releases.take().into_iter();
        let limits = |release: &Left| {
            let before = self.followed.iter().rposition(|(at, _)| *at < release.start);
            let until = self.followed.partition_point(|(at, _)| *at <= release.start);
            self.followed[before.unwrap_or(0)..until].to_vec()
        };
        let batch = |release| Batch { limits: limits(&release), process, shown: shown(&release), release };
        (releases.map(batch).collect(), (exit, self.followed))
    }

    /// Everything that was asked of the store still gets there.
    fn close(&mut self) {
        if let Some((at, _)) = self.pause {
            self.fleet.wait(self.process, at);
            self.tell_pause();
        }
        while let Some((at, order)) = self.orders.pop_front() {
            self.fleet.wait(self.process, at);
            if let Some(order) = self.unless_refused(order) {
                match &order.task {
                    Task::GiveBack(slots, _) => self.take_back(&order, slots),
                    _ => _ = self.fleet.state().stores[self.process].book(&order),
                }
            }
        }
    }

    /// An order that the vault takes now. Others are put off.
    fn unless_refused(&mut self, order: Order) -> Option<Order> {
        let (now, state) = (self.fleet.now(), self.fleet.state());
        let (stopped, away) = (state.stopped, state.away);
        drop(state);
        if stopped <= now && away <= now {
            self.pause_of_store = FIRST_PAUSE;
            return Some(order);
        }
        let again = if stopped > now {
            stopped
        } else {
            let pause = self.pause_of_store;
            self.pause_of_store = (pause * 2).min(LONGEST_PAUSE);
            now + self.random.u64(pause / 2..=pause)
        };
        // Slots are given back once.
        if stopped > now || !matches!(order.task, Task::GiveBack(..)) {
            self.orders.push_front((again, order));
        }
        None
    }

    fn tell_pause(&mut self) {
        if let Some((_, until)) = self.pause.take() {
            let hold = Order::new(Key::new(), [1], 0).with(Task::Hold(Time(until)));
            self.fleet.state().stores[self.process].book(&hold).expect("told");
        }
    }

    fn take_back(&self, order: &Order, slots: &[Slot]) {
        let mut state = self.fleet.state();
        state.stores[self.process].give_back(order).expect("taken back");
        state.slots.returned += slots.len() as u64;
        state.slots.unused.extend(slots.iter().map(|slot| slot.at.0));
    }

    /// An event that has happened by now, if there is one.
    fn event(&mut self, accepting: bool) -> Option<Wake> {
        let now = self.fleet.now();
        if self.death.take_if(|death| *death <= now).is_some() {
            return Some(Wake::Event(Event::Stop(Exit::Signal(Signal::SIGTERM as i32))));
        }
        if self.pause.is_some_and(|(at, _)| at <= now) {
            self.tell_pause();
        }
        while let Some((_, order)) = pop_due(&mut self.orders, |(at, _)| *at <= now) {
            let Some(order) = self.unless_refused(order) else { continue };
            if let Task::GiveBack(slots, _) = &order.task {
                self.take_back(&order, slots);
                continue;
            }
            let due = |(at, order): &(u64, Order)| *at <= now && !matches!(order.task, Task::GiveBack(..));
            let others = std::iter::from_fn(|| Some(pop_due(&mut self.orders, due)?.1));
            let orders = [order].into_iter().chain(others).collect();
            self.deliver(orders);
        }
        if let Some((_, answer)) = pop_due(&mut self.answers, |(at, _)| *at <= now) {
            if let Event::Booked(answers) = &answer {
                let limits = answers.iter().filter_map(|(_, answer)| answer.limits.as_ref());
                self.followed.extend(limits.map(|limits| (now, limits.rates.clone())));
            }
            return Some(Wake::Event(answer));
        }
        if !accepting || self.has_ended {
            return None;
        }
        if self.arrivals.is_empty() {
            self.has_ended = true;
            return Some(Wake::End(None));
        }
        let (arrival, line) = pop_due(&mut self.arrivals, |(arrival, _)| *arrival <= now)?;
        Some(Wake::Input(block(arrival, &[line])))
    }

    /// Orders have reached the store. It may answer only the first of them.
    fn deliver(&mut self, mut orders: Vec<Order>) {
        let answers = self.fleet.state().stores[self.process].book_some(&orders);
        let arrives = self.fleet.now() + self.random.u64(0..=self.faults.delay);
        let answers = match answers {
            Ok(answers) => answers,
            Err(refusal) => return self.answers.push_back((arrives, Event::BookingFailed(refusal))),
        };
        let now = self.fleet.now();
        let rest = orders.split_off(answers.len());
        rest.into_iter().rev().for_each(|order| self.orders.push_front((now, order)));
        let mut heard = Vec::new();
        for (order, answer) in orders.into_iter().zip(answers) {
            self.note(&order, &answer);
            if self.random.u64(0..self.faults.loss) == 0 {
                self.orders.push_back((arrives + self.faults.delay, order));
            } else {
                heard.push((order, answer));
            }
        }
        self.answers.push_back((arrives, Event::Booked(heard)));
    }

    /// Notes what became of slots.
    fn note(&self, order: &Order, answer: &Answer) {
        let (now, mut state) = (self.fleet.now(), self.fleet.state());
        state.hear(now, self.process);
        state.slots.booked += answer.slots.len() as u64;
        let mut wanted = order.wanted().unwrap_or_default().count;
        state.slots.unused.sort_unstable();
        state.slots.unused.retain(|&at| {
            let is_wanted = wanted > 0 && at >= now;
            wanted -= u64::from(is_wanted);
            !is_wanted
        });
    }

    /// When something happens next.
    fn next(&self, accepting: bool) -> Option<u64> {
        let arrival = self.arrivals.front().map_or(0, |(at, _)| *at);
        let arrival = (accepting && !self.has_ended).then_some(arrival);
        let order = self.orders.front().map(|(at, _)| *at);
        let answer = self.answers.front().map(|(at, _)| *at);
        let pause = self.pause.map(|(at, _)| at);
        [self.death, pause, arrival, order, answer].into_iter().flatten().min()
    }
}

impl World for Member {
    fn now(&self) -> Time {
        Time(self.fleet.now())
    }

    fn wall(&mut self) -> Wall {
        self.fleet.steps.wall(self.fleet.now())
    }

    fn wait(&mut self, wait: Wait) -> Wake {
        let Wait { until, accepting, by_wall, .. } = wait;
        let look = Time(self.fleet.now() + 1_000_000_000);
        if by_wall && until.is_none_or(|until| until > look) {
            let wake = self.wait(Wait { until: Some(look), by_wall: false, ..wait });
            return if let Wake::Due = wake { Wake::Soon } else { wake };
        }
        loop {
            if let Some(event) = self.event(accepting) {
                return event;
            }
            if until.is_some_and(|until| until.0 <= self.fleet.now()) {
                return Wake::Due;
            }
            let next = [until.map(|until| until.0), self.next(accepting)].into_iter().flatten().min();
            let late = if self.random.bool() { self.random.u64(0..=self.faults.lateness) } else { 0 };
            self.fleet.wait(self.process, next.expect("something to wait for") + late);
        }
    }

    fn give_store(&mut self, orders: Vec<Order>) {
        let before = self.orders.back().map_or(0, |(at, _)| *at);
        let arrives = before.max(self.fleet.now() + self.random.u64(0..=self.faults.delay));
        self.orders.extend(orders.into_iter().map(|order| (arrives, order)));
    }
}

/// Takes the first element if it is due.
fn pop_due<T>(queue: &mut VecDeque<T>, is_due: impl Fn(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(is_due) { queue.pop_front() } else { None }
}
