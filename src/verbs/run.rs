//! A run: releases items as the limits admit them.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;

use super::drawing::{Drawing, after_drawing};
use super::{Setup, done};
use crate::config::{BatchSize, Config, Output, Rate, Run, Shared, State, rounded_duration};
use crate::exit::Exit;
use crate::gate::BookingTerms;
use crate::inherited::stdin;
use crate::output::Target;
use crate::pipe::is_pipe;
use crate::records::{FailedItems, JobLog};
use crate::runtime::{self, Clock, Driver, ItemCounter, RealWorld, TextFile, World};
use crate::schedule::Schedule;
use crate::sink::{Commands, Sink, Stdout, Workers};
use crate::source::Delimiter;
use crate::store::{Admin, Policy, Store};
use crate::time::SECOND;
use crate::ui::progress::Display;
use crate::ui::report::Reporter;

/// Releases items to standard output or commands.
pub(crate) fn run(setup: Setup) -> Result<Exit> {
    let (position, mut consumed) = (setup.position, 0);
    let exit = release(setup, &mut consumed);
    // What was read ahead is left for others, even if the run failed.
    if position.is_shared() {
        position.advance(consumed);
    }
    exit
}

/// Sets `consumed` to the number of bytes of the input that were used, even if it fails after that.
fn release(setup: Setup, consumed: &mut u64) -> Result<Exit> {
    let Setup { config, files, rates, reader, position, reporter } = setup;
    let display = config.progress.and_then(|when| Display::new(when, mixing(config)));
    let count = (display.is_some() || reporter.counts_rest)
        .then(|| ItemCounter::of_rest(reader.input(), &position, &config.input));
    let total = move |patience| count.as_ref()?.within(patience);
    let reporter = reporter.with_progress(display, total);
    let clock = if config.shared.is_some() { Clock::Boot } else { Clock::start() };
    let (log, done) = (open_log(config)?, done(config)?);
    let shared = shared_among(&rates);
    let store = config.shared.as_ref().map(|state| open(state, shared, clock)).transpose()?;
    let mut world = RealWorld::start(reader, clock)?;
    world.watch_reader()?;
    world.watch_limits(files, &rates)?;
    let mut schedule = Schedule::new(config, rates.clone(), world.now(), world.wall());
    if let Some((state, store)) = config.shared.as_ref().zip(store) {
        schedule = schedule.with_bookings(share(state, shared, store, &mut world, &reporter)?);
    }
    if let Some(run) = &config.command {
        schedule = schedule.with_commands(run, fastrand::u64(..));
    }
    done.into_iter().for_each(|done| schedule.skip(done));
    let drawing = Drawing::begin(config, &rates, world.wall(), &mut schedule);
    let mut sink = sink_for(config, &mut world)?;
    let metrics =
        config.metrics.as_ref().map(|path| TextFile::create(path, &schedule, world.now(), world.wall()));
    let metrics = metrics.transpose()?;
    // Timeouts are enforced even while nobody reads the outputs of commands.
    let is_timed = |run: &Run| run.timeout.is_some() && run.output != Output::Shared;
    if metrics.is_some() || config.command.as_deref().is_some_and(is_timed) {
        world.attend_while_writing()?;
    }
    let failed = config.command.as_ref().and_then(|run| run.failed.as_deref());
    let failed = failed.map(|path| FailedItems::create(path, config.input.separator.as_ref())).transpose()?;
    let driver = Driver::new(&mut world, sink.as_mut(), &reporter);
    let exit = driver.noting(log, metrics, failed).run(&mut schedule);
    *consumed = config.input.head_length() + schedule.consumed();
    // An empty pipe is no mistake.
    let takes_stdin = config.input.file.is_none() && config.command.is_some();
    if exit == Exit::Done && schedule.stats().read == 0 && takes_stdin && !is_pipe(stdin()) {
        reporter.notice(&"no items on standard input");
    }
    let ended = world.now();
    reporter.summary(&schedule, ended, exit);
    let drawn = drawing.map_or(Ok(()), |drawing| drawing.draw(world.interrupt()));
    let exit = after_drawing(exit, world.last_stop(), drawn).unwrap_or_else(|error| reporter.end_by(&error));
    reporter.json(&schedule, ended, exit);
    Ok(exit)
}

/// `None` unless output goes to the terminal that shows progress; then, whether it ends lines.
fn mixing(config: &Config) -> Option<bool> {
    match &config.command {
        Some(run) => (run.output == Output::Shared).then_some(true),
        None => Target::Stdout.fd().is_terminal().then(|| config.input.delimiter.ends_with(b"\n")),
    }
}

/// Nanoseconds that the end of a run waits for an answer from the store, and again to return slots. A signal ends a run
/// within 100 ms.
const FILE_LAST_WAIT: u64 = SECOND / 50;
const SERVER_LAST_WAIT: u64 = SECOND / 25;
/// Nanoseconds within which a file mostly answers.
const FILE_ANSWER: u64 = SECOND / 500;
const _: () = assert!(2 * SERVER_LAST_WAIT < SECOND / 10);

/// The limits that are shared if any are. They are the first.
pub(super) fn shared_among(rates: &[Rate]) -> &[Rate] {
    &rates[..rates.iter().take_while(|rate| !rate.is_local()).count()]
}

/// Opens the store of shared limits. Called before signals are caught, as it may wait for the lock of a file.
pub(super) fn open(shared: &Shared, rates: &[Rate], clock: Clock) -> Result<(Box<dyn Store>, Policy)> {
    Ok(Admin::of(shared)?.open(rates, Box::new(move || clock.now()))?)
}

pub(super) fn share(
    shared: &Shared,
    rates: &[Rate],
    (store, policy): (Box<dyn Store>, Policy),
    world: &mut RealWorld,
    reporter: &Reporter,
) -> Result<BookingTerms> {
    reporter.detail(&format_args!("shared by {}", shared.state));
    let is_on_server = matches!(shared.state, State::Server(_));
    // Where margins are to be chosen, the store reports what they cost, if that is much; on a server, they follow from
    // its distance.
    let is_chosen = rates.iter().any(|rate| rate.margin == 0);
    if !(is_on_server && is_chosen) {
        reporter.detail(&format_args!("slots are good for {}", rounded_duration(policy.validity)));
        let untold = policy.reach(rates).filter(|reach| !(is_chosen && reach.is_low()));
        untold.for_each(|reach| reporter.reach(&reach));
    }
    // A margin that is chosen for a server covers its distance.
    let (patience, answers_within) =
        if is_on_server { (SERVER_LAST_WAIT, 0) } else { (FILE_LAST_WAIT, FILE_ANSWER) };
    world.book_with(store, Duration::from_nanos(patience))?;
    Ok(BookingTerms { patience, answers_within, ..policy.booking_terms(0) })
}

fn sink_for(config: &Config, world: &mut RealWorld) -> Result<Box<dyn Sink>> {
    let (interrupt, input) = (world.interrupt(), &config.input);
    if let Some(run) = &config.command {
        world.watch_commands()?;
        let run = Run::clone(run);
        return Ok(match run.worker {
            Some(answers) => Box::new(Workers::new(run, answers, input, interrupt)?),
            None => Box::new(Commands::new(run, input, interrupt)?),
        });
    }
    runtime::sharpen();
    Ok(Box::new(Stdout::new(Delimiter::of(input), interrupt).with_header(input)))
}

fn open_log(config: &Config) -> Result<Option<JobLog>> {
    let log = config.command.as_ref().and_then(|run| Some((run.log.as_ref()?, run.log_format)));
    let lists = config.queue.batch != BatchSize::SINGLE;
    log.map(|(path, format)| JobLog::open(path, format, lists)).transpose()
}
