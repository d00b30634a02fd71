//! Commands that run for a simulated time, and end as they are told to.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use throttle::cli;
use throttle::config::{Action, Config, Run};
use throttle::exit::End;
use throttle::exit::Exit;
use throttle::pump::{Pump, Wake, World};
use throttle::runtime::sim::{Clock, Sim};
use throttle::sink::{Ended, Load, Reaped, SendError, Sent, Sink};
use throttle::source::{Block, SourceError};
use throttle::time::Time;
use throttle::ui::report::Reporter;
use throttle::ui::stats::Stats;

/// How a command behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act {
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
}

/// What has become of a run.
pub(crate) struct Played {
    pub(crate) runs: Vec<Ran>,
    pub(crate) exit: Exit,
    pub(crate) stats: Stats,
}

/// Runs `throttle` with these arguments on lines that arrive in `blocks`, with commands that `act` as told for each
/// line and attempt.
pub(crate) fn play(args: &[&str], blocks: Vec<Block>, act: impl Fn(&str, u64) -> Act) -> Played {
    let args = [&["throttle"], args, &["--", "simulated"]].concat();
    let config = cli::parse(args.into_iter().map(Into::into)).expect("a command line");
    let Action::Run(run) = &config.action else { panic!("no command") };
    let stage = Rc::new(Stage::default());
    let sim = Sim::new(stage.clock.clone(), blocks.into_iter().map(Ok));
    let mut world = Theatre { sim, stage: Rc::clone(&stage) };
    let mut sink = Troupe { stage: Rc::clone(&stage), act, jobs: run.jobs.get() };
    let (exit, stats) = perform(&mut world, &mut sink, &config, run);
    Played { runs: stage.runs.take(), exit, stats }
}

fn perform(world: &mut dyn World, sink: &mut dyn Sink, config: &Config, run: &Run) -> (Exit, Stats) {
    let rates = config.limits.load().expect("limits");
    let reporter = Reporter::silent();
    let mut pump = Pump::new(world, sink, &reporter, config, rates).with_commands(run, 7);
    (pump.run(), pump.stats())
}

/// What the world and the commands share.
#[derive(Default)]
struct Stage {
    clock: Clock,
    runs: RefCell<Vec<Ran>>,
    /// When commands end that run, their number among the runs, and how they end.
    running: RefCell<BTreeSet<(u64, usize)>>,
    endings: RefCell<Vec<Ended>>,
}

impl Stage {
    fn next_end(&self) -> Option<Time> {
        self.running.borrow().first().map(|(end, _)| Time(*end))
    }
}

/// The simulated world, which tells when a command ends.
struct Theatre<I: Iterator<Item = Result<Block, SourceError>>> {
    stage: Rc<Stage>,
    sim: Sim<I>,
}

impl<I: Iterator<Item = Result<Block, SourceError>>> World for Theatre<I> {
    fn now(&self) -> Time {
        self.sim.now()
    }

    fn wait(&mut self, until: Option<Time>, accepting: bool) -> Wake {
        let end = self.stage.next_end().filter(|end| until.is_none_or(|until| *end <= until));
        match (self.sim.wait(end.or(until), accepting), end) {
            (Wake::Due, Some(_)) => Wake::Exited,
            (wake, _) => wake,
        }
    }

    fn items_read(&self) -> u64 {
        self.sim.items_read()
    }
}

/// Runs the simulated commands.
struct Troupe<F> {
    stage: Rc<Stage>,
    act: F,
    jobs: usize,
}

impl<F: Fn(&str, u64) -> Act> Sink for Troupe<F> {
    fn send(&mut self, at: Time, load: &Load) -> Result<Sent, SendError> {
        let line = str::from_utf8(load.bytes).expect("text").trim_end().to_owned();
        let Act { duration, code, retry_after } = (self.act)(&line, load.attempt);
        let (start, end, attempt) = (at.0, at.0 + duration, load.attempt);
        let mut runs = self.stage.runs.borrow_mut();
        self.stage.running.borrow_mut().insert((end, runs.len()));
        runs.push(Ran { start, end, attempt, line });
        self.stage.endings.borrow_mut().push(Ended {
            first: load.first,
            end: End::Exited(code),
            retry_after,
        });
        Ok(Sent::Released)
    }

    fn span(&self) -> u64 {
        1
    }

    fn vacancies(&self) -> u64 {
        self.jobs.saturating_sub(self.running()) as u64
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn running(&self) -> usize {
        self.stage.running.borrow().len()
    }

    fn reap(&mut self, now: Time) -> Reaped {
        let mut running = self.stage.running.borrow_mut();
        let still = running.split_off(&(now.0 + 1, 0));
        let endings = self.stage.endings.borrow();
        let ended = std::mem::replace(&mut *running, still);
        Reaped { ended: ended.into_iter().map(|(_, number)| endings[number]).collect(), cause: None }
    }
}
