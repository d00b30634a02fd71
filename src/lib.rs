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
//! which sees no clock; the clock, real or simulated, is in [`world`].

pub mod cli;
pub mod exit;
pub mod found;
pub mod interrupt;
pub mod limiter;
pub mod pump;
pub mod report;
pub mod sink;
pub mod source;
pub mod spec;
pub mod stats;
pub mod time;
pub mod world;

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Error, Result};
use nix::sys::signal::Signal;

use crate::cli::Usage;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::pump::{Pump, World};
use crate::report::Reporter;
use crate::sink::{DryRun, Exec, Sink, Stdout, Template};
use crate::source::{Delimiter, Reader};
use crate::spec::{Action, Rate, Report, Selector, Spec};
use crate::world::real::{Input, Position, Real};
use crate::world::sim::{Clock, Sim, stamped};

/// Runs the program with these arguments, of which the first is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let spec = match cli::parse(args) {
        Ok(spec) => spec,
        Err(Usage::Asked(text)) => return print(&text),
        Err(Usage::Wrong(text)) => {
            Reporter::new(Report::Normal).notice(&text);
            return Exit::Usage;
        }
    };
    let reporter = Reporter::new(spec.report);
    execute(&spec, &reporter).unwrap_or_else(|error| {
        reporter.error(&error);
        Exit::Error
    })
}

fn print(text: &str) -> Exit {
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

fn execute(spec: &Spec, reporter: &Reporter) -> Result<Exit> {
    let rates = spec.limits.load()?;
    reporter.limits(&rates);
    let input = Input::open(spec.input.file.as_deref())?;
    let delimiter = Delimiter::new(&spec.input.delimiter);
    let reader = Reader::new(input, delimiter, spec.input.max_record);
    match &spec.action {
        Action::DryRun { arrivals } => Ok(dry_run(spec, rates, arrivals.clone(), reader, reporter)),
        Action::Pass | Action::Run { .. } => real_run(spec, rates, reader, reporter),
    }
}

fn dry_run(
    spec: &Spec,
    rates: Vec<Rate>,
    arrivals: Option<Selector>,
    reader: Reader<Input>,
    reporter: &Reporter,
) -> Exit {
    let arrivals: Box<dyn Iterator<Item = _>> = match arrivals {
        None => Box::new(reader),
        Some(selector) => Box::new(stamped(
            reader,
            Delimiter::new(&spec.input.delimiter),
            selector,
            spec.input.separator.as_deref(),
        )),
    };
    let mut world = Sim::new(Clock::default(), arrivals);
    let mut sink = DryRun::new(Stdout::new(Arc::new(Interrupt::for_this_thread())));
    pump(spec, rates, &mut world, &mut sink, reporter).0
}

fn real_run(spec: &Spec, rates: Vec<Rate>, reader: Reader<Input>, reporter: &Reporter) -> Result<Exit> {
    let position = Position::of_stdin();
    let mut world = Real::start(reader).context("cannot start")?;
    world.watch_limits(&spec.limits, &rates)?;
    let mut sink: Box<dyn Sink> = match &spec.action {
        Action::Run { command, placeholder } => {
            let template = Template::new(command.clone(), placeholder.clone());
            let share_stdin = spec.input.file.is_some();
            Box::new(Exec::new(template, share_stdin, reporter, world.watch_commands()?))
        }
        Action::Pass | Action::DryRun { .. } => Box::new(Stdout::new(world.interrupt())),
    };
    let (exit, consumed) = pump(spec, rates, &mut world, sink.as_mut(), reporter);
    if spec.input.file.is_none() && position.is_known() {
        world.stop_reading();
        position.advance(consumed);
    }
    Ok(exit)
}

/// Returns how it ended, and how many bytes of the input are done with.
fn pump(
    spec: &Spec,
    rates: Vec<Rate>,
    world: &mut dyn World,
    sink: &mut dyn Sink,
    reporter: &Reporter,
) -> (Exit, u64) {
    let mut pump = Pump::new(world, sink, reporter, spec, rates);
    let exit = pump.run();
    let (stats, consumed) = (pump.stats(), pump.consumed());
    reporter.left(exit, &stats);
    reporter.summary(&stats, world.now());
    (exit, consumed)
}
