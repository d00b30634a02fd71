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

pub mod audit;
pub mod charge;
pub mod cli;
pub mod config;
pub mod exit;
pub mod inherited;
pub mod interrupt;
pub mod limiter;
mod pipe;
mod printable;
pub mod records;
pub mod runtime;
pub mod schedule;
pub mod sink;
pub mod source;
pub mod store;
pub mod time;
pub mod ui;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use nix::sys::signal::Signal;

use crate::cli::Usage;
use crate::config::{Action, Arrivals, Config, Rate, Report, Run, Shared, State, format_duration};
use crate::exit::Exit;
use crate::inherited::inherited;
use crate::interrupt::Interrupt;
use crate::records::{Completed, JobLog, stamped};
use crate::runtime::sim::{Clock, Sim};
use crate::runtime::{
    Clock as RealClock, Count, Driver, Input, Listener, Position, RealWorld, Review, TextFile, Watched,
    World, clock,
};
use crate::schedule::{BookingTerms, Schedule};
use crate::sink::{Commands, DryRun, Sink, Stdout, Text};
use crate::source::{Capacity, Delimiter, Reader};
use crate::store::{Policy, Quota, StoreError};
use crate::time::SECOND;
use crate::ui::audit::AuditReport;
use crate::ui::plot;
use crate::ui::progress::Display;
use crate::ui::report::{Log, Reporter};

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
    match (&config.action, &config.shared) {
        (Action::List, _) => return Ok(print(&names())),
        (Action::Status, Some(shared)) => return status(shared),
        _ => {}
    }
    if let (Action::Reset, Some(shared)) = (&config.action, &config.shared) {
        store::reset(shared)?;
        return Ok(Exit::Done);
    }
    config.plot.as_deref().map(plot::check).transpose()?;
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
        Action::DryRun { arrivals, .. } => dry_run(config, rates, arrivals.as_ref(), reader, &reporter),
        Action::Audit(arrivals) => audit_run(config, &rates, arrivals, reader),
        Action::Pass | Action::Run(_) | Action::Reset | Action::Status | Action::List => {
            let log = config.command().and_then(Log::of);
            let reporter = reporter.with_display(display(config, &reader, &position)).with_log(log);
            real_run(config, &rates, reader, &position, &reporter)
        }
    }
}

/// The names of all states, a line each.
fn names() -> String {
    store::names().iter().map(|name| printable::escaped(name)).collect::<Vec<_>>().join("\n")
}

fn display(config: &Config, reader: &Reader<Input>, position: &Position) -> Option<Display> {
    let count = Arc::new(Count::default());
    let counted = Arc::clone(&count);
    let display = Display::new(config.progress?, move || counted.total())?;
    let delimiter = Delimiter::new(&config.input.delimiter);
    count.start(reader.input(), position, delimiter, config.input.max_record);
    Some(display)
}

fn status(shared: &Shared) -> Result<Exit> {
    let status = store::status(&shared.state, RealClock::Boot.now())?;
    let text = status.map_or_else(
        || printable::escaped(&format!("there is no state {}", shared.state)),
        |status| ui::state::describe(&status),
    );
    Ok(print(&text))
}

fn dry_run(
    config: &Config,
    rates: Vec<Rate>,
    arrivals: Option<&Arrivals>,
    reader: Reader<Input>,
    reporter: &Reporter,
) -> Result<Exit> {
    ensure!(rates.iter().all(|rate| rate.count > 0), "a limit of 0 pauses, so the dry run would never end");
    let delimiter = Delimiter::new(&config.input.delimiter);
    let separator = config.input.separator.as_deref();
    let stamped: Box<dyn Iterator<Item = _>> = match arrivals {
        None => Box::new(reader),
        Some(arrivals) => {
            let skip_blank = config.input.cleaning.skip_blank;
            Box::new(stamped(reader, delimiter.clone(), arrivals, separator, skip_blank))
        }
    };
    let mut world = Sim::new(Clock::default(), stamped);
    if !world.is_dated() {
        world.set_wall(clock::shown());
    }
    let wall = (arrivals.is_none() || world.is_dated()).then(|| world.wall());
    let stdout = Stdout::new(delimiter.clone(), Arc::new(Interrupt::for_this_thread()));
    let capacity = config.command().map_or(Capacity::UNLIMITED, Commands::capacity_of);
    let template = config.command().and_then(Commands::line_of);
    let sink: Box<dyn Sink> = Box::new(DryRun::new(stdout, delimiter.clone(), capacity, template));
    let mut sink = Observed::new(sink, config, &rates, None);
    let mut schedule = Schedule::new(config, rates, world.now());
    let mut driver =
        Driver { world: &mut world, sink: sink.sink(), reporter, delimiter, log: None, metrics: None };
    let exit = driver.run(&mut schedule);
    reporter.dry_summary(&schedule, world.now(), exit, wall);
    sink.draw()?;
    Ok(exit)
}

fn audit_run(config: &Config, rates: &[Rate], arrivals: &Arrivals, reader: Reader<Input>) -> Result<Exit> {
    ensure!(rates.iter().all(|rate| rate.count > 0), "a limit of 0 pauses, so there is nothing to audit");
    let counts_exits = rates.iter().any(|rate| rate.from == config::From::Exit);
    ensure!(!counts_exits, "an audit knows only when items were released: leave out from=exit");
    let mut review = Review::new(rates, arrivals, &config.input);
    if config.plot.is_some() {
        review = review.traced();
    }
    let mut listener = Listener::start(config.report != Report::Quiet)?;
    let stdout = Text::new(listener.interrupt());
    let mut report = AuditReport::new(config.report, stdout.clone());
    match review.run(reader, &mut listener, &mut report) {
        Ok(exit) => {
            if let Some(path) = &config.plot {
                plot::draw(review.audit(), path, stdout)?;
            }
            if config.as_json {
                let json = ui::audit::json(review.audit(), exit).to_string();
                ui::stderr::tell(&format!("{}\n", printable::escaped_json(&json)));
            }
            Ok(exit)
        }
        Err(error) if is_broken_pipe(&error) => Ok(Exit::Signal(Signal::SIGPIPE as i32)),
        Err(error) => Err(error),
    }
}

fn is_broken_pipe(error: &Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn real_run(
    config: &Config,
    rates: &[Rate],
    reader: Reader<Input>,
    position: &Position,
    reporter: &Reporter,
) -> Result<Exit> {
    let may_change = config.limits.files().next().is_some();
    ensure!(
        config.plot.is_none() || !may_change,
        "--plot is for limits that stay as they are: give them with -r"
    );
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
    let mut sink = Observed::new(sink(config, &mut world)?, config, rates, Some(clock));
    let delimiter = Delimiter::new(&config.input.delimiter);
    let metrics =
        config.metrics.as_ref().map(|path| TextFile::create(path, &schedule, world.now(), world.wall()));
    let metrics = metrics.transpose()?;
    let mut driver = Driver { world: &mut world, sink: sink.sink(), reporter, delimiter, log, metrics };
    let exit = driver.run(&mut schedule);
    reporter.summary(&schedule, world.now(), exit);
    sink.draw()?;
    if position.is_shared() {
        position.advance(schedule.consumed());
    }
    Ok(exit)
}

/// A sink, which is watched if its releases are to be drawn.
enum Observed<'a> {
    No(Box<dyn Sink>),
    Yes(Box<Watched<Box<dyn Sink>>>, &'a Path),
}

impl<'a> Observed<'a> {
    fn new(sink: Box<dyn Sink>, config: &'a Config, rates: &[Rate], clock: Option<RealClock>) -> Self {
        match &config.plot {
            None => Observed::No(sink),
            Some(path) => Observed::Yes(Box::new(Watched::new(sink, config, rates, clock)), path),
        }
    }

    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Observed::No(sink) => sink.as_mut(),
            Observed::Yes(sink, _) => sink.as_mut(),
        }
    }

    fn draw(&self) -> Result<()> {
        match self {
            Observed::No(_) => Ok(()),
            Observed::Yes(sink, path) => plot::draw(sink.audit(), path, io::stderr().lock()),
        }
    }
}

/// How long the end of a run waits for an answer of the store, and again for it to take back slots, in nanoseconds.
const FILE_PATIENCE: u64 = SECOND / 50;
const SERVER_PATIENCE: u64 = SECOND / 5;

fn share(
    shared: &Shared,
    rates: &[Rate],
    world: &mut RealWorld,
    reporter: &Reporter,
) -> Result<BookingTerms> {
    let clock = world.clock();
    let (store, policy) = store::open(shared, rates, move || clock.now())?;
    reporter.detail(&format_args!("shared by {}", shared.state));
    let is_on_server = matches!(shared.state, State::Server(_));
    // How far a server is decides on margins that are not given; then the store tells.
    if !is_on_server || rates.iter().all(|rate| rate.margin > 0) {
        reporter.detail(&format_args!("slots are good for {}", format_duration(policy.deadline)));
        policy.reach(rates).for_each(|reach| reporter.reach(&reach));
    }
    let patience = if is_on_server { SERVER_PATIENCE } else { FILE_PATIENCE };
    world.book_with(store, Duration::from_nanos(patience))?;
    let most = policy.quotas.iter().map(Quota::most).collect();
    Ok(BookingTerms { span: policy.span, longest_span: Policy::longest_span(rates), most, patience })
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
    let log = JobLog::open(path, run.log_format)?;
    let completed = if run.resume { Some(log.completed()?) } else { None };
    Ok(Some((log, completed)))
}
