//! The works of `throttle`, which paces the items of a pipe.
//!
//! ```text
//!                  events                    actions
//! source ─ items ─▶ ┌────────────────────────┐ ─ Send(batch) ─▶ sink: stdout | command
//! jobs ─── ends ──▶ │ schedule  (pure)       │ ─ Book(order) ─▶ store
//! store ── slots ─▶ │  queue · batch · limits│ ─ Wait(until) ─▶ clock
//! signals, files ─▶ └────────────────────────┘ ─ Tell ────────▶ ui
//! ```
//!
//! The scheduler in [`schedule`] decides, and knows no clock, thread or descriptor; the rules are in [`limiter`]. The one
//! loop, which asks the scheduler what to do and does it, is [`runtime::Driver`].

pub mod charge;
pub mod cli;
pub mod config;
pub mod exit;
pub mod inherited;
pub mod interrupt;
pub mod limiter;
mod pipe;
pub mod runtime;
pub mod schedule;
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
use crate::config::{Action, Config, Rate, Report, Run, Selector, Shared, format_duration};
use crate::exit::Exit;
use crate::inherited::inherited;
use crate::interrupt::Interrupt;
use crate::runtime::joblog::{Completed, JobLog};
use crate::runtime::sim::{Clock, Sim, stamped};
use crate::runtime::{Clock as RealClock, Count, Driver, Input, Position, RealWorld, World};
use crate::schedule::{BookingTerms, Schedule};
use crate::sink::{Commands, DryRun, Sink, Stdout};
use crate::source::{Capacity, Delimiter, Reader};
use crate::store::{Quota, StoreError};
use crate::ui::hints::Log;
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
    config.warnings().for_each(|warning| reporter.notice(&warning));
    let rates = config.limits.load()?;
    reporter.limits(&rates);
    let input = Input::open(config.input.file.as_deref())?;
    if config.input.file.is_none() {
        reporter.reads_terminal();
    }
    let position = Position::of(&input);
    let reader = Reader::new(input, Delimiter::new(&config.input.delimiter), config.input.max_record);
    match &config.action {
        Action::DryRun { arrivals, .. } => dry_run(config, rates, arrivals.clone(), reader, &reporter),
        Action::Pass | Action::Run(_) | Action::Reset => {
            let log = config.command().and_then(Log::of);
            let reporter = reporter.with_display(display(config, &reader, &position)).with_log(log);
            real_run(config, &rates, reader, &position, &reporter)
        }
    }
}

fn display(config: &Config, reader: &Reader<Input>, position: &Position) -> Option<Display> {
    let count = Arc::new(Count::default());
    let counted = Arc::clone(&count);
    let display = Display::new(config.progress?, move || counted.total())?;
    let delimiter = Delimiter::new(&config.input.delimiter);
    count.start(reader.input(), position, delimiter, config.input.max_record);
    Some(display)
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
    let separator = config.input.separator.as_deref();
    let has_arrivals = arrivals.is_some();
    let arrivals: Box<dyn Iterator<Item = _>> = match arrivals {
        None => Box::new(reader),
        Some(selector) => {
            let skip_blank = config.input.cleaning.skip_blank;
            Box::new(stamped(reader, delimiter.clone(), selector, separator, skip_blank))
        }
    };
    let mut world = Sim::new(Clock::default(), arrivals);
    let stdout = Stdout::new(delimiter.clone(), Arc::new(Interrupt::for_this_thread()));
    let capacity = config.command().map_or(Capacity::UNLIMITED, Commands::capacity_of);
    let template = config.command().and_then(Commands::line_of);
    let mut sink = DryRun::new(stdout, delimiter.clone(), capacity, template);
    let mut schedule = Schedule::new(config, rates, world.now());
    let mut driver = Driver { world: &mut world, sink: &mut sink, reporter, delimiter, log: None };
    let exit = driver.run(&mut schedule);
    reporter.dry_summary(&schedule, world.now(), exit, has_arrivals);
    Ok(exit)
}

fn real_run(
    config: &Config,
    rates: &[Rate],
    reader: Reader<Input>,
    position: &Position,
    reporter: &Reporter,
) -> Result<Exit> {
    let clock = if config.shared.is_some() { RealClock::Boot } else { RealClock::start() };
    let log = config.command().map(open_log).transpose()?.flatten();
    let mut world = RealWorld::start(reader, clock).context("cannot start")?;
    world.watch_limits(&config.limits, rates)?;
    let mut schedule = Schedule::new(config, rates.to_vec(), world.now());
    if let Some(shared) = &config.shared {
        schedule = schedule.with_bookings(share(shared, rates, &mut world, reporter)?);
    }
    if let Some(run) = config.command() {
        schedule = schedule.with_commands(run, fastrand::u64(..));
    }
    let log = log.map(|(log, completed)| {
        if let Some(mut completed) = completed {
            schedule.skip(Box::new(move |item| completed.take(item)));
        }
        log
    });
    let mut sink = sink(config, &mut world)?;
    let delimiter = Delimiter::new(&config.input.delimiter);
    let exit = Driver { world: &mut world, sink: sink.as_mut(), reporter, delimiter, log }.run(&mut schedule);
    reporter.summary(&schedule, world.now(), exit);
    if position.is_shared() {
        position.advance(schedule.consumed());
    }
    Ok(exit)
}

fn share(
    shared: &Shared,
    rates: &[Rate],
    world: &mut RealWorld,
    reporter: &Reporter,
) -> Result<BookingTerms> {
    let clock = world.clock();
    let (store, policy) = store::open(shared, rates, move || clock.now())?;
    let deadline = format_duration(policy.deadline);
    reporter.detail(&format_args!("shared by {}, slots are good for {deadline}", shared.state));
    world.book_with(store)?;
    Ok(BookingTerms { span: policy.span, most: policy.quotas.iter().map(Quota::most).collect() })
}

fn sink(config: &Config, world: &mut RealWorld) -> Result<Box<dyn Sink>> {
    let (interrupt, delimiter) = (world.interrupt(), Delimiter::new(&config.input.delimiter));
    if let Some(run) = config.command() {
        world.watch_commands()?;
        return Ok(Box::new(Commands::new(run.clone(), delimiter, interrupt)?));
    }
    world.sharpen();
    Ok(Box::new(Stdout::new(delimiter, interrupt)))
}

fn open_log(run: &Run) -> Result<Option<(JobLog, Option<Completed>)>> {
    let Some(path) = &run.log else { return Ok(None) };
    let log = JobLog::open(path)?;
    let completed = if run.resume { Some(log.completed()?) } else { None };
    Ok(Some((log, completed)))
}
