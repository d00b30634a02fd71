//! Commands that run for a simulated time and end as they are told to.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use nix::sys::signal::Signal;
use throttle::config::{self, Config, Output, Run};
use throttle::exit::{End, JobEnd};
use throttle::records::{Completed, JobLog};
use throttle::runtime::sim::SimClock;
use throttle::schedule::Schedule;
use throttle::sink::{Ends, Flushed, Pipes, RunningJobs, Sent, Sink};
use throttle::source::{Batch, Capacity, Delimiter, Segment};
use throttle::time::Time;

pub(crate) use super::Outcome;
use super::Simulation;

/// How a command behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    pub(crate) duration: u64,
    pub(crate) code: i32,
    pub(crate) http: Option<u16>,
    pub(crate) retry_after: Option<u64>,
}

/// A command that has run, or runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ran {
    /// The instant that was checked, before.
    pub(crate) start: u64,
    /// The instant that was charged, after.
    pub(crate) started: u64,
    pub(crate) end: u64,
    pub(crate) attempt: u64,
    pub(crate) line: String,
    /// Its items, each with its number.
    pub(crate) items: Vec<(u64, Vec<u8>)>,
}

/// Runs `throttle` with these arguments on items that arrive in `blocks`. `behave` tells how the command for each line
/// and attempt behaves.
pub(crate) fn run(args: &[&str], blocks: Vec<Segment>, behave: impl Fn(&str, u64) -> Behaviour) -> Outcome {
    of_commands(args).run_commands(blocks, behave)
}

/// A run with commands to simulate, without the margin for commands, so that instants are round. Half of them get their
/// items on stdin, which need not be looked at one by one.
pub(crate) fn of_commands(args: &[&str]) -> Simulation {
    let is_piped = args.concat().len() % 2 == 0 && !args.contains(&"--pipe");
    let feed: &[&str] = if is_piped { &["--pipe"] } else { &[] };
    Simulation::new(&[args, feed, &["--margin=0", "--", "simulated"]].concat())
}

impl Simulation {
    /// Runs to the end. `behave` tells how the command for each line and attempt behaves.
    pub(crate) fn run_commands(
        mut self,
        blocks: Vec<Segment>,
        behave: impl Fn(&str, u64) -> Behaviour,
    ) -> Outcome {
        let config = Rc::clone(&self.config);
        let Some(run) = &config.command else { panic!("no command") };
        let mut sink = SimulatedJobs {
            clock: self.clock.clone(),
            start: self.sends(),
            commands: Rc::clone(&self.commands),
            behave,
            jobs: run.jobs.get(),
            delimiter: Delimiter::new(&config.input.delimiter),
            outputs: Outputs::new(run.output == Output::InOrder),
        };
        self.run_into(blocks, &mut sink, Rc::default(), |schedule| {
            let mut schedule = schedule.with_commands(run, 7);
            let log = open_log(&config, run, &mut schedule);
            (schedule, log)
        })
    }
}

fn open_log(config: &Config, run: &Run, schedule: &mut Schedule) -> Option<JobLog> {
    let lists = config.queue.batch != config::BatchSize::SINGLE;
    let path = run.log.as_deref()?;
    let log = JobLog::open(path, run.log_format, lists).expect("a log");
    if let Some(resume) = run.resume {
        let mut completed = Completed::look(path, resume).expect("a log");
        schedule.skip(Box::new(move |item| completed.take(item)));
    }
    Some(log)
}

/// The commands of a run, shared by the world and the sink.
#[derive(Default)]
pub(super) struct Commands {
    pub(super) runs: RefCell<Vec<Ran>>,
    /// When each running command ends, and its index in `runs`.
    running: RefCell<BTreeSet<(u64, usize)>>,
    endings: RefCell<Vec<JobEnd>>,
}

impl Commands {
    pub(super) fn next_end(&self) -> Option<Time> {
        self.running.borrow().first().map(|(end, _)| Time(*end))
    }
}

/// Runs the simulated commands.
struct SimulatedJobs<S, F> {
    clock: SimClock,
    /// Lets the time of a start pass, and returns when that is over.
    start: S,
    commands: Rc<Commands>,
    behave: F,
    jobs: usize,
    delimiter: Delimiter,
    outputs: Outputs,
}

/// The number of outputs that may wait for their turn.
const MAX_WAITING: usize = 3;

/// Prints outputs as commands end, or in the order of their items.
struct Outputs {
    in_order: bool,
    /// The first items of commands that were started and are not done.
    open: BTreeSet<u64>,
    /// Those of commands whose output waits.
    waiting: BTreeSet<u64>,
    /// It is the turn of the items before this one.
    next: u64,
}

impl Outputs {
    fn new(in_order: bool) -> Self {
        let next = if in_order { 0 } else { u64::MAX };
        Outputs { in_order, open: BTreeSet::new(), waiting: BTreeSet::new(), next }
    }

    /// The number of the first item that may not be started.
    fn bound(&self) -> u64 {
        let is_full = self.in_order && self.waiting.len() >= MAX_WAITING;
        let first = self.waiting.union(&self.open).next().filter(|_| is_full);
        first.map_or(u64::MAX, |first| first + 1)
    }

    fn retire(&mut self, first: u64, next: u64) {
        self.open.remove(&first);
        if self.in_order {
            self.next = self.open.first().map_or(next, |open| next.min(*open));
        }
    }

    /// Takes out those whose turn it is.
    fn printed(&mut self) -> Vec<u64> {
        let still = self.waiting.split_off(&self.next);
        std::mem::replace(&mut self.waiting, still).into_iter().collect()
    }
}

impl<S: FnMut() -> u64, F: Fn(&str, u64) -> Behaviour> Sink for SimulatedJobs<S, F> {
    fn capacity(&self) -> Capacity {
        let running = self.commands.running.borrow().len();
        let vacancies = self.jobs.saturating_sub(running) as u64;
        Capacity { vacancies, at_once: 1, before: self.outputs.bound(), ..Capacity::UNLIMITED }
    }

    fn send(&mut self, at: Time, batch: &Batch, _: &mut dyn FnMut()) -> Sent {
        assert!(batch.first() < self.outputs.bound(), "{} is beyond the bound", batch.first());
        self.outputs.open.insert(batch.first());
        let bytes: Vec<_> = batch.segments().iter().flat_map(Segment::bytes).copied().collect();
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        let numbered = |segment: &Segment| {
            let items = self.delimiter.split(segment.bytes()).map(<[u8]>::to_vec);
            (segment.first()..).zip(items).collect::<Vec<_>>()
        };
        let items = batch.segments().iter().flat_map(numbered).collect();
        let Behaviour { duration, code, http, retry_after } = (self.behave)(&line, batch.attempt());
        let (start, started, attempt) = (at.0, (self.start)(), batch.attempt());
        let (mut runs, end) = (self.commands.runs.borrow_mut(), started + duration);
        self.commands.running.borrow_mut().insert((end, runs.len()));
        runs.push(Ran { start, started, end, attempt, line, items });
        let end = JobEnd { http, retry_after, ..JobEnd::new(batch.first(), End::Exited(code)) };
        self.commands.endings.borrow_mut().push(end);
        Sent::All
    }

    fn jobs(&mut self) -> Option<&mut dyn RunningJobs> {
        Some(self)
    }
}

impl<S: FnMut() -> u64, F: Fn(&str, u64) -> Behaviour> RunningJobs for SimulatedJobs<S, F> {
    fn has_started(&mut self, _: Time) {}

    fn reap(&mut self, _: Time) -> Ends {
        let mut running = self.commands.running.borrow_mut();
        let still = running.split_off(&(self.clock.now().0 + 1, 0));
        let endings = self.commands.endings.borrow();
        let ended = std::mem::replace(&mut *running, still);
        let ended: Ends = ended.into_iter().map(|(_, number)| endings[number].clone()).collect();
        self.outputs.waiting.extend(ended.iter().map(|ended| ended.first));
        ended
    }

    fn captures(&self) -> bool {
        false
    }

    fn outputs(&self) -> Pipes<'_> {
        Pipes::new()
    }

    fn supersede(&mut self, _: u64) {}

    fn retire(&mut self, first: u64, next: u64) {
        self.outputs.retire(first, next);
    }

    fn flush(&mut self, _: &mut dyn FnMut() -> Time) -> Flushed {
        Flushed { printed: self.outputs.printed().into(), ..Flushed::default() }
    }

    fn signal(&mut self, _: Signal) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn finish(&mut self, _: Time) {}

    fn enforce(&mut self, _: Time) {}
}
