//! Commands that run for a simulated time, and end as they are told to.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use nix::sys::signal::Signal;
use throttle::config::{self, Config, Run, Verb};
use throttle::exit::{End, Exit, JobEnd};
use throttle::records::JobLog;
use throttle::runtime::sim::{Sim, SimClock};
use throttle::runtime::{Event, Wait, Wake, World};
use throttle::schedule::{Schedule, Stats};
use throttle::sink::{Flushed, RunningJobs, Sent, Sink};
use throttle::source::{Batch, Block, Capacity, Delimiter, Segment, SourceError};
use throttle::time::{Time, Wall};

/// How a command behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    pub(crate) duration: u64,
    pub(crate) code: i32,
    pub(crate) retry_after: Option<u64>,
}

/// A command that has run, or runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ran {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attempt: u64,
    pub(crate) line: String,
    /// The numbers of its items, and these.
    pub(crate) items: Vec<(u64, Vec<u8>)>,
}

/// What has become of a run.
pub(crate) struct Outcome {
    pub(crate) runs: Vec<Ran>,
    pub(crate) exit: Exit,
    pub(crate) stats: Stats,
}

/// Runs `throttle` with these arguments on items that arrive in `blocks`, with commands that `behave` as told for each
/// line and attempt.
pub(crate) fn run(args: &[&str], blocks: Vec<Block>, behave: impl Fn(&str, u64) -> Behaviour) -> Outcome {
    let config = super::config(&[args, &["--", "simulated"]].concat());
    let Verb::Run(commands) = &config.action else { panic!("no command") };
    let shared = Rc::new(Shared::default());
    let sim = Sim::new(shared.clock.clone(), blocks.into_iter().map(Ok));
    let mut world = JobsWorld { sim, shared: Rc::clone(&shared) };
    let delimiter = Delimiter::new(&config.input.delimiter);
    let (jobs, printed) = (commands.jobs.get(), Vec::new());
    let mut sink = SimulatedJobs { shared: Rc::clone(&shared), behave, jobs, delimiter, printed };
    let (exit, stats) = super::drive(&config, &mut world, &mut sink, |schedule| {
        let mut schedule = schedule.with_commands(commands, 7);
        let log = open_log(&config, commands, &mut schedule);
        (schedule, log)
    });
    Outcome { runs: shared.runs.take(), exit, stats }
}

fn open_log(config: &Config, run: &Run, schedule: &mut Schedule) -> Option<JobLog> {
    let log = JobLog::open(run.log.as_deref()?, run.log_format).expect("a log");
    if let Some(resume) = run.resume {
        let mut completed = log.done(resume).expect("a log");
        schedule.skip(Box::new(move |item| completed.take(item)));
    }
    Some(if config.batch == config::BatchSize::SINGLE { log } else { log.of_batches() })
}

/// What the world and the commands share.
#[derive(Default)]
struct Shared {
    clock: SimClock,
    runs: RefCell<Vec<Ran>>,
    /// When commands end that run, their number among the runs, and how they end.
    running: RefCell<BTreeSet<(u64, usize)>>,
    endings: RefCell<Vec<JobEnd>>,
}

impl Shared {
    fn next_end(&self) -> Option<Time> {
        self.running.borrow().first().map(|(end, _)| Time(*end))
    }
}

/// The simulated world, which tells when a command ends.
struct JobsWorld<I: Iterator<Item = Result<Block, SourceError>>> {
    shared: Rc<Shared>,
    sim: Sim<I>,
}

impl<I: Iterator<Item = Result<Block, SourceError>>> World for JobsWorld<I> {
    fn now(&self) -> Time {
        self.sim.now()
    }

    fn wall(&mut self) -> Wall {
        self.sim.wall()
    }

    fn wait(&mut self, wait: Wait) -> Wake {
        assert_eq!(wait.running, self.shared.next_end().is_some(), "the scheduler knows what runs");
        let end = self.shared.next_end().filter(|end| wait.until.is_none_or(|until| *end <= until));
        match (self.sim.wait(Wait { until: end.or(wait.until), ..wait }), end) {
            (Wake::Due, Some(_)) => Wake::Event(Event::Exited),
            (wake, _) => wake,
        }
    }
}

/// Runs the simulated commands.
struct SimulatedJobs<F> {
    shared: Rc<Shared>,
    behave: F,
    jobs: usize,
    delimiter: Delimiter,
    /// What has ended, by its first item: its output is out at once.
    printed: Vec<u64>,
}

impl<F: Fn(&str, u64) -> Behaviour> Sink for SimulatedJobs<F> {
    fn capacity(&self) -> Capacity {
        let running = self.shared.running.borrow().len();
        Capacity { vacancies: self.jobs.saturating_sub(running) as u64, at_once: 1, ..Capacity::UNLIMITED }
    }

    fn send(&mut self, at: Time, batch: &Batch) -> Sent {
        let bytes: Vec<_> = batch.segments().iter().flat_map(Segment::bytes).copied().collect();
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        let numbered = |segment: &Segment| {
            let items = self.delimiter.split(segment.bytes()).map(<[u8]>::to_vec);
            (segment.first()..).zip(items).collect::<Vec<_>>()
        };
        let items = batch.segments().iter().flat_map(numbered).collect();
        let Behaviour { duration, code, retry_after } = (self.behave)(&line, batch.attempt());
        let (start, end, attempt) = (at.0, at.0 + duration, batch.attempt());
        let mut runs = self.shared.runs.borrow_mut();
        self.shared.running.borrow_mut().insert((end, runs.len()));
        runs.push(Ran { start, end, attempt, line, items });
        let end = JobEnd { first: batch.first(), end: End::Exited(code), timed_out: false, retry_after };
        self.shared.endings.borrow_mut().push(end);
        Sent::All
    }

    fn trace(&self, _: &Batch) -> Option<String> {
        None
    }

    fn jobs(&mut self) -> Option<&mut dyn RunningJobs> {
        Some(self)
    }
}

impl<F: Fn(&str, u64) -> Behaviour> RunningJobs for SimulatedJobs<F> {
    fn reap(&mut self) -> Vec<JobEnd> {
        let mut running = self.shared.running.borrow_mut();
        let still = running.split_off(&(self.shared.clock.now().0 + 1, 0));
        let endings = self.shared.endings.borrow();
        let ended = std::mem::replace(&mut *running, still);
        let ended: Vec<_> = ended.into_iter().map(|(_, number)| endings[number]).collect();
        self.printed.extend(ended.iter().map(|ended| ended.first));
        ended
    }

    fn captures(&self) -> bool {
        false
    }

    fn supersede(&mut self, _: u64) {}

    fn retire(&mut self, _: u64, _: u64) {}

    fn flush(&mut self) -> Flushed {
        Flushed { printed: std::mem::take(&mut self.printed), ..Flushed::default() }
    }

    fn signal(&mut self, _: Signal) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn enforce(&mut self, _: Time) {}
}
