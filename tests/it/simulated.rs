//! Runs on the simulated world, in this process, with the instants of all that happens.
//!
//! On its own the world is exact. It can be made to wake late, what is sent to take its time, and events to happen.

pub(crate) mod commands;
pub(crate) mod fleet;

use std::collections::VecDeque;

use fastrand::Rng;
use throttle::cli;
use throttle::config::Config;
use throttle::exit::Exit;
use throttle::pump::{Pump, Wake, World};
use throttle::runtime::sim::{Clock, Sim};
use throttle::sink::{Load, SendError, Sent, Sink};
use throttle::source::{Block, SourceError};
use throttle::time::Time;
use throttle::ui::report::Reporter;
use throttle::ui::stats::Stats;

/// A run that is to be.
pub(crate) struct Simulation {
    config: Config,
    clock: Clock,
    lateness: Delay,
    slowness: Delay,
    events: VecDeque<(u64, Wake)>,
}

/// What has become of it.
pub(crate) struct Outcome {
    pub(crate) releases: Vec<Release>,
    pub(crate) exit: Exit,
    pub(crate) stats: Stats,
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
        let args = ["throttle"].into_iter().chain(args.iter().map(AsRef::as_ref));
        Simulation {
            config: cli::parse(args.map(Into::into)).expect("a command line"),
            clock: Clock::default(),
            lateness: Delay::none(),
            slowness: Delay::none(),
            events: VecDeque::new(),
        }
    }

    /// Each time the world wakes, it is up to `most` late.
    pub(crate) fn late(self, seed: u64, most: u64) -> Self {
        Simulation { lateness: Delay::new(seed, most), ..self }
    }

    /// What is sent has left after up to `most`.
    pub(crate) fn slow(self, seed: u64, most: u64) -> Self {
        Simulation { slowness: Delay::new(seed, most), ..self }
    }

    /// The limits change to those of `rates` at the instant `at`. Later than all such changes so far.
    pub(crate) fn relimited(mut self, at: u64, rates: &[&str]) -> Self {
        let args: Vec<_> = rates.iter().flat_map(|rate| ["-r", rate]).collect();
        let rates = Simulation::new(&args).config.limits.load().expect("limits");
        self.events.push_back((at, Wake::Limits(rates)));
        self
    }

    /// Runs to the end.
    pub(crate) fn run(self, blocks: Vec<Block>) -> Outcome {
        let Simulation { config, clock, lateness, slowness, events } = self;
        let rates = config.limits.load().expect("limits");
        let sim = Sim::new(clock.clone(), blocks.into_iter().map(Ok));
        let mut world = Staged { sim, clock: clock.clone(), lateness, events, waits: 0 };
        let one_by_one = config.batch.items.get() == 1;
        let mut sink = Recorder { clock, slowness, one_by_one, releases: Vec::new() };
        let reporter = Reporter::silent();
        let mut pump = Pump::new(&mut world, &mut sink, &reporter, &config, rates);
        let exit = pump.run();
        let stats = pump.stats();
        Outcome { releases: sink.releases, exit, stats }
    }
}

/// Lines that arrive together.
pub(crate) fn block(at: u64, lines: &[impl AsRef<str>]) -> Block {
    let text: String = lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
    Block::of(text.into_bytes(), lines.len() as u64, Time(at))
}

/// A random stretch of time, every now and then.
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

    fn pass(&mut self, clock: &Clock) {
        if self.random.bool() {
            clock.reach(Time(clock.now().0 + self.random.u64(0..=self.most)));
        }
    }
}

/// The simulated world with delays and events.
struct Staged<I: Iterator<Item = Result<Block, SourceError>>> {
    sim: Sim<I>,
    clock: Clock,
    lateness: Delay,
    events: VecDeque<(u64, Wake)>,
    waits: u32,
}

impl<I: Iterator<Item = Result<Block, SourceError>>> World for Staged<I> {
    fn now(&self) -> Time {
        self.sim.now()
    }

    fn wait(&mut self, until: Option<Time>, accepting: bool) -> Wake {
        self.waits += 1;
        assert!(self.waits < 1_000_000, "it waits again and again, and releases nothing");
        let event = self.events.front().map(|(at, _)| Time(*at));
        let event = event.filter(|event| until.is_none_or(|until| *event <= until));
        let wake = match (self.sim.wait(event.or(until), accepting), event) {
            (Wake::Due, Some(_)) => self.events.pop_front().expect("an event").1,
            (wake, _) => wake,
        };
        self.lateness.pass(&self.clock);
        wake
    }

    fn items_read(&self) -> u64 {
        self.sim.items_read()
    }
}

/// Notes what leaves, and when.
struct Recorder {
    clock: Clock,
    slowness: Delay,
    /// Lines that are sent in one go are a release each.
    one_by_one: bool,
    releases: Vec<Release>,
}

impl Sink for Recorder {
    fn send(&mut self, at: Time, load: &Load) -> Result<Sent, SendError> {
        self.slowness.pass(&self.clock);
        let (start, end) = (at.0, self.clock.now().0);
        let lines: Vec<_> = str::from_utf8(load.bytes).expect("text").lines().map(str::to_owned).collect();
        assert_eq!(lines.len() as u64, load.records, "as many lines as are said to be sent");
        let size = if self.one_by_one { 1 } else { lines.len() };
        let release = |lines: &[String]| Release { start, end, lines: lines.to_vec() };
        self.releases.extend(lines.chunks(size).map(release));
        Ok(Sent::Released)
    }
}
