//! The works of `throttle`, which paces the items of a pipe.
//!
//! ```text
//! records → source → pump ───────────→ sink → stdout | command
//!                      │ ▲ verdict      │ done
//!                    limiter (pure)     ▼
//!                   world: now(), wait(until) → wake
//! ```
//!
//! One decision per release, in one loop, in [`mod@pump`]: ask, wait, send, commit. The rules are in [`limiter`],
//! which sees no clock; the clock, real or simulated, is in [`runtime`].

pub mod charge;
pub mod cli;
pub mod config;
pub mod exit;
pub mod inherited;
pub mod interrupt;
pub mod limiter;
mod pipe;
pub mod pump;
pub mod runtime;
pub mod sink;
pub mod source;
pub mod store;
pub mod time;
pub mod ui;

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Error, Result, ensure};
use nix::sys::signal::Signal;

use crate::cli::Usage;
use crate::config::{Action, Config, Rate, Report, Run, Selector, Shared};
use crate::exit::Exit;
use crate::inherited::inherited;
use crate::interrupt::Interrupt;
use crate::pump::Pump;
use crate::runtime::joblog::{Completed, JobLog};
use crate::runtime::sim::{Clock, Sim, stamped};
use crate::runtime::{Clock as RealClock, Input, Position, Real};
use crate::sink::{DryRun, Exec, Sink, Stdout};
use crate::source::{Delimiter, Reader};
use crate::store::{Policy, StoreError};
use crate::ui::progress::Display;
use crate::ui::report::Reporter;

/// Runs the program with these arguments, of which the first is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let config = match cli::parse(args) {
        Ok(config) => config,
        Err(Usage::Asked(text)) => return print(&text),
        Err(Usage::Wrong(text)) => {
            Reporter::new(Report::Normal).notice(&text);
            return Exit::Usage;
        }
    };
    let reporter = Reporter::new(config.report).with_json(config.as_json);
    execute(&config, reporter).unwrap_or_else(|error| {
        Reporter::new(Report::Normal).error(&error);
        error.downcast_ref::<StoreError>().map_or(Exit::Error, |error| error.exit)
    })
}

fn print(text: &str) -> Exit {
    if let Err(error) = inherited().check_stdout() {
        Reporter::new(Report::Normal).error(&error);
        return Exit::Error;
    }
    match io::stdout().write_all(format!("{}\n", text.trim_end()).as_bytes()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Signal(Signal::SIGPIPE as i32),
        Err(error) => {
            Reporter::new(Report::Normal)
                .error(&Error::new(error).context("cannot write to standard output"));
            Exit::Error
        }
    }
}

fn execute(config: &Config, reporter: Reporter) -> Result<Exit> {
    if let (Action::Reset, Some(shared)) = (&config.action, &config.shared) {
        store::reset(shared)?;
        return Ok(Exit::Done);
    }
    let rates = config.limits.load()?;
    reporter.limits(&rates);
    let input = Input::open(config.input.file.as_deref())?;
    let position = Position::of(&input);
    let reader = Reader::new(input, Delimiter::new(&config.input.delimiter), config.input.max_record);
    match &config.action {
        Action::DryRun { arrivals } => dry_run(config, rates, arrivals.clone(), reader, &reporter),
        Action::Pass | Action::Run(_) | Action::Reset => {
            let display = config.progress.and_then(|when| Display::new(when, position.size_left()));
            real_run(config, rates, reader, &position, &reporter.with_display(display))
        }
    }
}

fn dry_run(
    config: &Config,
    rates: Vec<Rate>,
    arrivals: Option<Selector>,
    reader: Reader<Input>,
    reporter: &Reporter,
) -> Result<Exit> {
    ensure!(rates.iter().all(|rate| rate.count > 0), "a limit of 0 pauses, so the dry run would never end");
    let delimiter = Delimiter::new(&config.input.delimiter);
    let arrivals: Box<dyn Iterator<Item = _>> = match arrivals {
        None => Box::new(reader),
        Some(selector) => Box::new(stamped(reader, delimiter, selector, config.input.separator.as_deref())),
    };
    let mut world = Sim::new(Clock::default(), arrivals);
    let mut sink = DryRun::new(Stdout::new(Arc::new(Interrupt::for_this_thread())));
    Ok(conclude(Pump::new(&mut world, &mut sink, reporter, config, rates), reporter).0)
}

fn real_run(
    config: &Config,
    rates: Vec<Rate>,
    reader: Reader<Input>,
    position: &Position,
    reporter: &Reporter,
) -> Result<Exit> {
    let log = match &config.action {
        Action::Run(run) => open_log(run)?,
        _ => None,
    };
    let clock = if config.shared.is_some() { RealClock::Boot } else { RealClock::start() };
    let mut world = Real::start(reader, clock).context("cannot start")?;
    world.watch_limits(&config.limits, &rates)?;
    let policy =
        config.shared.as_ref().map(|shared| share(shared, &rates, &mut world, reporter)).transpose()?;
    let mut sink = sink(config, &mut world, reporter)?;
    let mut pump = Pump::new(&mut world, sink.as_mut(), reporter, config, rates);
    if let Some(policy) = policy {
        pump = pump.with_bookings(policy);
    }
    if let Action::Run(run) = &config.action {
        pump = pump.with_commands(run, fastrand::u64(..));
    }
    if let Some((log, completed)) = log {
        pump = pump.with_log(log, completed);
    }
    let (exit, consumed) = conclude(pump, reporter);
    if position.is_shared() {
        position.advance(consumed);
    }
    Ok(exit)
}

fn share(shared: &Shared, rates: &[Rate], world: &mut Real, reporter: &Reporter) -> Result<Policy> {
    let (store, policy) = store::open(shared, rates, world.clock())?;
    reporter.shared(&shared.state, &policy);
    world.book_with(store)?;
    Ok(policy)
}

fn sink<'a>(config: &Config, world: &mut Real, reporter: &'a Reporter) -> Result<Box<dyn Sink + 'a>> {
    let interrupt = world.interrupt();
    if let Action::Run(run) = &config.action {
        let running = world.watch_commands()?;
        return Ok(Box::new(Exec::new((**run).clone(), reporter, running, interrupt)?));
    }
    world.sharpen();
    Ok(Box::new(Stdout::new(interrupt)))
}

fn open_log(run: &Run) -> Result<Option<(JobLog, Option<Completed>)>> {
    let Some(path) = &run.log else { return Ok(None) };
    let log = JobLog::open(path)?;
    let completed = if run.resume { Some(log.completed()?) } else { None };
    Ok(Some((log, completed)))
}

/// Runs it, and tells of it. Returns how it ended, and how many bytes of the input are done with.
fn conclude(mut pump: Pump<'_>, reporter: &Reporter) -> (Exit, u64) {
    let exit = pump.run();
    let stats = pump.stats();
    reporter.summary(&stats, pump.now(), exit);
    (exit, pump.consumed())
}
