//! Runs in the simulated world, in this process, with the instants of everything that happens.
//!
//! By default the world is exact. It can be made to wake late, to send slowly, and to have events happen, also with
//! commands.

pub(crate) mod commands;
mod dying;
pub(crate) mod fleet;
pub(crate) mod vault;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;

use anyhow::Error;
use fastrand::Rng;
use throttle::cli;
use throttle::config::{Config, Rate, parse_limits};
use throttle::exit::Exit;
use throttle::records::JobLog;
use throttle::runtime::sim::{Sim, SimClock};
use throttle::runtime::{Driver, Event, TextFile, Wait, Wake, World};
use throttle::schedule::{LimitStats, Schedule, Stats};
use throttle::sink::{Sent, Sink};
use throttle::source::{Batch, Capacity, Segment};
use throttle::time::{SECOND, Time, Wall};
use throttle::ui::report::Reporter;

use self::commands::{Commands, Ran};

pub(crate) const MILLI: u64 = SECOND / 1000;

/// The configuration that these arguments give.
pub(crate) fn config(args: &[impl AsRef<str>]) -> Config {
    let args = ["throttle"].into_iter().chain(args.iter().map(AsRef::as_ref));
    cli::parse(args.map(Into::into)).expect("a command line")
}

/// The limits of a run, first those that it shares, if it shares any.
pub(crate) fn limits(config: &Config) -> Vec<Rate> {
    let mut rates = config.limits.given().expect("limits");
    if config.shared.is_some() {
        rates.sort_by_key(Rate::is_local);
    }
    rates
}

/// Drives a run in this world to its end. Before that, `ready` is called, which may open a job log.
fn drive(
    config: &Config,
    world: &mut dyn World,
    sink: &mut dyn Sink,
    ready: impl FnOnce(Schedule) -> (Schedule, Option<JobLog>),
) -> (Exit, Schedule) {
    let (mut schedule, log) = ready(Schedule::new(config, limits(config), world.now(), world.wall()));
    let metrics =
        config.metrics.as_ref().map(|path| TextFile::create(path, &schedule, world.now(), world.wall()));
    let metrics = metrics.transpose().expect("a file");
    let reporter = Reporter::default();
    let exit = Driver::new(world, sink, &reporter).noting(log, metrics, None).run(&mut schedule);
    (exit, schedule)
}

/// A run to simulate.
pub(crate) struct Simulation {
    config: Rc<Config>,
    clock: SimClock,
    lateness: Delay,
    slowness: Delay,
    events: VecDeque<(u64, Event)>,
    /// When the wall clock is set, and to what.
    settings: VecDeque<(u64, u64)>,
    commands: Rc<Commands>,
    on_wait: Box<dyn FnMut()>,
}

/// The outcome of a run.
pub(crate) struct Outcome {
    /// What left on standard output.
    pub(crate) releases: Vec<Release>,
    pub(crate) runs: Vec<Ran>,
    /// Changes of limits.
    pub(crate) changes: Vec<Change>,
    pub(crate) exit: Exit,
    pub(crate) stats: Stats,
    pub(crate) limits: Vec<LimitStats>,
}

/// A change of limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at: u64,
    /// The number of releases before it.
    pub(crate) releases: usize,
}

/// Lines that left together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Release {
    /// The instant that was checked, before.
    pub(crate) start: u64,
    /// The instant that was charged, after.
    pub(crate) end: u64,
    pub(crate) lines: Vec<String>,
}

impl Simulation {
    pub(crate) fn new(args: &[impl AsRef<str>]) -> Self {
        Simulation {
            config: Rc::new(config(args)),
            clock: SimClock::default(),
            lateness: Delay::none(),
            slowness: Delay::none(),
            events: VecDeque::new(),
            settings: VecDeque::new(),
            commands: Rc::default(),
            on_wait: Box::new(|| ()),
        }
    }

    /// Calls `on_wait` each time the run waits.
    pub(crate) fn on_wait(self, on_wait: impl FnMut() + 'static) -> Self {
        Simulation { on_wait: Box::new(on_wait), ..self }
    }

    /// Sets the wall clock to `shown` at the instant `at`, which must be later than in all such calls so far.
    pub(crate) fn wall_set(mut self, at: u64, shown: u64) -> Self {
        self.settings.push_back((at, shown));
        self
    }

    /// Makes the world late by up to `most` each time it wakes.
    pub(crate) fn late(self, seed: u64, most: u64) -> Self {
        Simulation { lateness: Delay::new(seed, most), ..self }
    }

    /// Makes each send and each start of a command take up to `most`.
    pub(crate) fn slow(self, seed: u64, most: u64) -> Self {
        Simulation { slowness: Delay::new(seed, most), ..self }
    }

    /// Changes the limits to `rates`, as in a file, at the instant `at`, which must be later than in all such calls so
    /// far.
    pub(crate) fn relimited(mut self, at: u64, rates: &[&str]) -> Self {
        let rates = parse_limits(&rates.join("\n"), &self.config.limits.defaults).expect("limits");
        self.events.push_back((at, Event::Limits(Ok(rates))));
        self
    }

    /// Runs to the end, to standard output.
    pub(crate) fn run(mut self, blocks: Vec<Segment>) -> Outcome {
        let mut sink = Recorder::new(self.sends());
        let releases = Rc::clone(&sink.releases);
        self.run_into(blocks, &mut sink, releases, |schedule| (schedule, None))
    }

    /// Returns a function that lets the time of a send pass, and returns when that is over.
    fn sends(&mut self) -> impl FnMut() -> u64 + use<> {
        let (clock, mut slowness) = (self.clock.clone(), mem::replace(&mut self.slowness, Delay::none()));
        move || {
            slowness.pass(&clock);
            clock.now().0
        }
    }

    fn run_into(
        self,
        blocks: Vec<Segment>,
        sink: &mut dyn Sink,
        releases: Rc<RefCell<Vec<Release>>>,
        ready: impl FnOnce(Schedule) -> (Schedule, Option<JobLog>),
    ) -> Outcome {
        let config = Rc::clone(&self.config);
        let sim = Sim::new(self.clock.clone(), blocks.into_iter().map(Ok));
        let mut world = Simulated { sim, run: self, releases, changes: Vec::new(), waits: 0 };
        let (exit, schedule) = drive(&config, &mut world, sink, ready);
        let (releases, runs) = (world.releases.take(), world.run.commands.runs.take());
        let (stats, limits) = (schedule.stats(), schedule.limit_stats().to_vec());
        Outcome { releases, runs, changes: world.changes, exit, stats, limits }
    }
}

/// Lines that arrive together.
pub(crate) fn block(at: u64, lines: &[impl AsRef<str>]) -> Segment {
    let text: String = lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
    Segment::of(text.into_bytes(), lines.len() as u64, Time(at))
}

/// A random delay, every now and then.
struct Delay {
    random: Rng,
    most: u64,
}

impl Delay {
    fn none() -> Self {
        Delay::new(0, 0)
    }

    fn new(seed: u64, most: u64) -> Self {
        Delay { random: Rng::with_seed(seed), most }
    }

    fn pass(&mut self, clock: &SimClock) {
        if self.random.bool() {
            clock.reach(Time(clock.now().0 + self.random.u64(0..=self.most)));
        }
    }
}

/// The simulated world of a run.
struct Simulated<I: Iterator<Item = Result<Segment, Error>>> {
    sim: Sim<I>,
    run: Simulation,
    releases: Rc<RefCell<Vec<Release>>>,
    changes: Vec<Change>,
    waits: u32,
}

impl<I: Iterator<Item = Result<Segment, Error>>> Simulated<I> {
    /// What happens next before the end of a wait, apart from arrivals, and when.
    fn next(&self, wait: &Wait) -> Option<(Time, fn(&mut Self) -> Wake)> {
        let set = self.run.settings.front().map(|(at, _)| Time(*at));
        let set = set.filter(|at| wait.by_wall && wait.until > Some(*at));
        let limits = self.run.events.front().map(|(at, _)| Time(*at));
        let happens: [(_, fn(&mut Self) -> Wake); 3] = [
            (set, |_| Wake::Soon),
            (self.run.commands.next_end(), |_| Wake::Event(Event::Exited)),
            (limits, Self::limits_change),
        ];
        let next = happens.into_iter().filter_map(|(at, what)| Some((at?, what))).min_by_key(|(at, _)| *at);
        next.filter(|(at, _)| wait.until.is_none_or(|until| *at <= until))
    }

    fn limits_change(&mut self) -> Wake {
        self.changes.push(Change { at: self.run.clock.now().0, releases: self.releases.borrow().len() });
        Wake::Event(self.run.events.pop_front().expect("an event").1)
    }
}

impl<I: Iterator<Item = Result<Segment, Error>>> World for Simulated<I> {
    fn now(&self) -> Time {
        self.sim.now()
    }

    fn wall(&mut self) -> Wall {
        while let Some(&(_, shown)) = self.run.settings.front().filter(|(at, _)| Time(*at) <= self.sim.now())
        {
            self.sim.set_wall(Time(shown));
            self.run.settings.pop_front();
        }
        self.sim.wall()
    }

    fn wait(&mut self, wait: Wait) -> Wake {
        self.waits += 1;
        (self.run.on_wait)();
        assert!(self.waits < 1_000_000, "it waits again and again, and releases nothing");
        assert_eq!(wait.running, self.run.commands.next_end().is_some(), "the scheduler knows what runs");
        let next = self.next(&wait);
        let until = next.map(|(at, _)| at).or(wait.until);
        let wake = self.sim.wait(Wait { until, ..wait });
        self.run.lateness.pass(&self.run.clock);
        match (wake, next) {
            (Wake::Due, Some((_, happens))) => happens(self),
            (wake, _) => wake,
        }
    }
}

/// Records what leaves, and when.
struct Recorder<F> {
    /// Lets the time of a write pass, and returns when that is over.
    write: F,
    capacity: Capacity,
    /// Lets the time pass that it takes to prepare a batch, once.
    prepare: Option<Box<dyn Fn()>>,
    /// The first item of the batch that was prepared last, and its number of items.
    prepared: (u64, u64),
    releases: Rc<RefCell<Vec<Release>>>,
}

impl<F: FnMut() -> u64> Recorder<F> {
    fn new(write: F) -> Self {
        Recorder {
            write,
            capacity: Capacity::UNLIMITED,
            prepare: None,
            prepared: (0, 0),
            releases: Rc::default(),
        }
    }
}

impl<F: FnMut() -> u64> Sink for Recorder<F> {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn prepare(&mut self, batch: &Batch) {
        let batch = (batch.first(), batch.items());
        if std::mem::replace(&mut self.prepared, batch) != batch {
            self.prepare.iter().for_each(|prepare| prepare());
        }
    }

    fn send(&mut self, at: Time, batch: &Batch, _: &mut dyn FnMut()) -> Sent {
        let (start, end) = (at.0, (self.write)());
        let bytes: Vec<_> = batch.segments().iter().flat_map(Segment::bytes).copied().collect();
        let lines: Vec<_> = str::from_utf8(&bytes).expect("text").lines().map(str::to_owned).collect();
        assert_eq!(lines.len() as u64, batch.items(), "as many lines as are said to be sent");
        let mut left = &lines[..];
        for size in batch.sizes() {
            let (lines, rest) = left.split_at(usize::try_from(size).expect("a small number"));
            self.releases.borrow_mut().push(Release { start, end, lines: lines.to_vec() });
            left = rest;
        }
        Sent::All
    }
}
