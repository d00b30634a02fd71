//! Running a command for each release.

mod job;
mod output;
mod retry_after;
mod shortage;
mod spool;
mod template;
mod too_long;
mod wait;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Error, Result, anyhow};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;

pub use self::retry_after::parse as parse_retry_after;
pub use self::template::Template;

use self::job::{Job, Parent};
use self::output::{Capture, Outputs};
use self::shortage::{Next, Shortage};
use self::spool::Spool;
use super::writer::Writer;
use super::{Cause, Ended, Load, Reaped, SendError, Sent, Sink};
use crate::config::{Feed, Output, Run};
use crate::exit::{End, Exit, signal_name};
use crate::inherited::inherited;
use crate::interrupt::Interrupt;
use crate::runtime::Running;
use crate::time::{SECOND, Time};
use crate::ui::report::Reporter;

/// The most bytes of items in one command line with several: as xargs, well under every system's limit.
const MOST_BYTES: usize = 128 << 10;

/// The most that a pipe is sure to take without anybody reading it.
const PIPE: usize = 4096;

/// Runs commands.
pub struct Exec<'a> {
    template: Template,
    run: Run,
    reporter: &'a Reporter,
    /// Whether the world has to tell of the ends of commands.
    running: Running,
    parent: Parent,
    jobs: Vec<Job>,
    /// Which slots are taken, of those that ever were.
    slots: Vec<bool>,
    spool: Spool,
    outputs: Outputs,
    shortage: Shortage,
    /// Where commands say when to try again, a file for each slot.
    advice: Option<TempDir>,
}

impl<'a> Exec<'a> {
    /// Runs the command of `run` for what is released. As long as `running` is set, [`Sink::reap`] has to be called when
    /// a command has ended. Printing ends early once `interrupt` is raised.
    ///
    /// # Errors
    /// Standard output was closed, or there is no place for temporary files.
    pub fn new(
        run: Run,
        reporter: &'a Reporter,
        running: Running,
        interrupt: Arc<Interrupt>,
    ) -> Result<Self> {
        inherited().check_stdout()?;
        let advice = match run.retry.times {
            0 => None,
            _ => Some(
                TempDir::with_prefix("throttle-").context("cannot make a directory for temporary files")?,
            ),
        };
        Ok(Exec {
            template: Template::new(run.command.clone(), run.placeholder.clone()),
            reporter,
            running,
            parent: Parent::new(run.timeout.is_some()),
            jobs: Vec::new(),
            slots: Vec::new(),
            spool: Spool::default(),
            shortage: Shortage::default(),
            outputs: Outputs::new(Writer::new(interrupt), run.output == Output::InOrder),
            advice,
            run,
        })
    }

    /// Starts the command for `load` in a slot.
    fn start(&mut self, at: Time, load: &Load, slot: usize) -> Result<(), Trouble> {
        let mut command = self.command(load).map_err(Trouble::Spool)?;
        command.env("THROTTLE_SEQ", load.first.to_string());
        command.env("THROTTLE_ATTEMPT", load.attempt.to_string());
        command.env("THROTTLE_SLOT", (slot + 1).to_string());
        // Always set: there are programs that do not survive an empty file name.
        let advice = self.advice(slot).unwrap_or_else(|| "/dev/null".into());
        command.env("THROTTLE_RETRY_AFTER", advice);
        let capture = match self.run.output {
            Output::Shared => None,
            Output::Whole | Output::InOrder => {
                Some(Capture::of(&mut command, &mut self.spool).map_err(Trouble::Spool)?)
            }
        };
        match self.parent.start(command) {
            Ok(pid) => {
                let deadline = self.run.timeout.and_then(|timeout| at.checked_add(timeout.into()));
                self.jobs.push(Job { pid, first: load.first, slot, capture, deadline, is_overdue: false });
                Ok(())
            }
            Err(error) => {
                capture.into_iter().for_each(|capture| capture.discard(&mut self.spool));
                Err(Trouble::Command(error))
            }
        }
    }

    fn command(&mut self, load: &Load) -> io::Result<Command> {
        let line: Vec<OsString> = match self.run.stdin {
            Feed::Items => self.template.bare(),
            Feed::Nothing | Feed::Ours => {
                self.template.expand(&load.delimiter.split(load.bytes).collect::<Vec<_>>())
            }
        };
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        match self.run.stdin {
            Feed::Nothing => _ = command.stdin(Stdio::null()),
            Feed::Ours => {}
            Feed::Items => _ = command.stdin(stdin_of(load.bytes)?),
        }
        Ok(command)
    }

    fn advice(&self, slot: usize) -> Option<PathBuf> {
        self.advice.as_ref().map(|directory| directory.path().join((slot + 1).to_string()))
    }

    /// What the command in a slot said about when to try again.
    fn take_advice(&self, slot: usize) -> Option<u64> {
        let path = self.advice(slot)?;
        retry_after::take(&path, SystemTime::now())
    }

    /// A command that could not be started: can others be?
    fn refuse(&mut self, at: Time, load: &Load, trouble: Trouble) -> Result<Sent, SendError> {
        if is_passing(trouble.error()) {
            return self.put_off(at, trouble);
        }
        let name = self.template.name();
        let fatal = |exit, error: Error| Err(SendError { written: 0, cause: Cause::Unable(exit, error) });
        let error = match trouble {
            Trouble::Spool(error) => {
                let error = Error::new(error)
                    .context("cannot make a temporary file: set TMPDIR to where there is room");
                return fatal(Exit::Error, error);
            }
            Trouble::Command(error) => error,
        };
        let why = match error.kind() {
            ErrorKind::InvalidInput => {
                "it holds a NUL byte, which no argument can: use --null input, or filter it out"
            }
            ErrorKind::ArgumentListTooLong => &error.to_string(),
            ErrorKind::NotFound => {
                return fatal(Exit::NotFound, Error::new(error).context(format!("cannot run {name}")));
            }
            _ => return fatal(Exit::CannotRun, Error::new(error).context(format!("cannot run {name}"))),
        };
        let last = load.first + load.records - 1;
        match load.records {
            1 => self.reporter.error(&anyhow!("item {last}: not run: {why}")),
            _ => self.reporter.error(&anyhow!("items {} to {last}: not run: {why}", load.first)),
        }
        Ok(Sent::Refused)
    }

    /// The system is short of something: not now, but perhaps later.
    fn put_off(&mut self, at: Time, trouble: Trouble) -> Result<Sent, SendError> {
        let next = self.shortage.persists(at, !self.jobs.is_empty());
        let error = || {
            let what = format!("cannot run {}", self.template.name());
            Error::new(trouble.into_error()).context(what)
        };
        match next {
            Next::Again(pause) => Ok(Sent::Later(pause)),
            Next::Tell(pause) => {
                self.reporter.notice(&format_args!("{:#}: trying again for a while", error()));
                Ok(Sent::Later(pause))
            }
            Next::GiveUp => {
                let error = error().context(format!("tried for {} s", shortage::PATIENCE / SECOND));
                Err(SendError { written: 0, cause: Cause::Unable(Exit::CannotRun, error) })
            }
        }
    }

    /// A child has ended; it may be none of ours.
    fn end(&mut self, pid: Pid, end: End, reaped: &mut Reaped) {
        let Some(at) = self.jobs.iter().position(|job| job.pid == pid) else { return };
        let job = self.jobs.swap_remove(at);
        self.slots[job.slot] = false;
        if job.is_overdue {
            // What it had started and left behind; the group's number is taken as long as there is any.
            self.parent.signal(job.pid, Signal::SIGKILL);
        }
        let end = if job.is_overdue { End::Killed(Signal::SIGTERM as i32) } else { end };
        self.tell(&job, end);
        let retry_after = self.take_advice(job.slot);
        reaped.ended.push(Ended { first: job.first, end, retry_after });
        if let Some(capture) = job.capture
            && let Err(cause) =
                self.reporter.make_way(|| self.outputs.take(job.first, capture, &mut self.spool))
        {
            reaped.cause.get_or_insert(cause);
        }
    }

    /// Tells of ends that are not plain failures, as xargs does.
    fn tell(&self, job: &Job, end: End) {
        let (item, name) = (job.first, self.template.name());
        match end {
            End::Killed(_) if job.is_overdue => {
                self.reporter
                    .notice(&format_args!("item {item}: {name} ran longer than --timeout and was ended"));
            }
            End::Killed(number) => {
                let signal = signal_name(number);
                self.reporter.notice(&format_args!("item {item}: {name} was killed by {signal}"));
            }
            End::Exited(255) => {
                self.reporter
                    .notice(&format_args!("item {item}: {name} exited with 255, which ends the run"));
            }
            End::Exited(_) => {}
        }
    }
}

/// A stdin that holds `bytes`. Nobody has to feed it, so nobody minds if it is not read.
fn stdin_of(bytes: &[u8]) -> io::Result<Stdio> {
    if bytes.len() <= PIPE {
        let (read, mut write) = io::pipe()?;
        io::Write::write_all(&mut write, bytes)?;
        return Ok(read.into());
    }
    // Not from the shelf: the command, or what it leaves behind, may go on reading it.
    Ok(Spool::default().take_with(bytes)?.into())
}

/// Why a command was not started.
enum Trouble {
    /// There is no file for what it is given or prints.
    Spool(io::Error),
    /// The system would not start it.
    Command(io::Error),
}

impl Trouble {
    fn error(&self) -> &io::Error {
        let (Trouble::Spool(error) | Trouble::Command(error)) = self;
        error
    }

    fn into_error(self) -> io::Error {
        let (Trouble::Spool(error) | Trouble::Command(error)) = self;
        error
    }
}

/// Whether it is for want of something that commands which end give back.
fn is_passing(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE))
}

impl Sink for Exec<'_> {
    fn send(&mut self, at: Time, load: &Load) -> Result<Sent, SendError> {
        let slot = self.slots.iter().position(|is_taken| !is_taken).unwrap_or(self.slots.len());
        match self.start(at, load, slot) {
            Ok(()) => {
                self.slots.resize(self.slots.len().max(slot + 1), false);
                self.slots[slot] = true;
                self.outputs.open(load.first);
                self.running.set(true);
                self.shortage.over();
                Ok(Sent::Released)
            }
            Err(trouble) => self.refuse(at, load, trouble),
        }
    }

    fn span(&self) -> u64 {
        1
    }

    fn most_bytes(&self) -> usize {
        if self.run.stdin == Feed::Items { usize::MAX } else { MOST_BYTES }
    }

    fn vacancies(&self) -> u64 {
        // With nothing running, what all the others wait for is itself yet to be started.
        let has_room = self.outputs.has_room() || self.jobs.is_empty();
        if has_room { (self.run.jobs.get() - self.jobs.len()) as u64 } else { 0 }
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn running(&self) -> usize {
        self.jobs.len()
    }

    fn reap(&mut self, _: Time) -> Reaped {
        let mut reaped = Reaped::default();
        while let Some((pid, end)) = wait::next_ended() {
            self.end(pid, end, &mut reaped);
        }
        self.running.set(!self.jobs.is_empty());
        reaped
    }

    fn settle(&mut self, first: u64, next: u64) -> Result<(), Cause> {
        self.reporter.make_way(|| self.outputs.settle(first, next, &mut self.spool))
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.reporter.make_way(|| self.outputs.finish(&mut self.spool))
    }

    fn signal(&mut self, signal: Signal) {
        self.jobs.iter().for_each(|job| self.parent.signal(job.pid, signal));
    }

    fn deadline(&self) -> Option<Time> {
        self.jobs.iter().filter_map(|job| job.deadline).min()
    }

    fn enforce(&mut self, now: Time) {
        for job in self.jobs.iter_mut().filter(|job| job.deadline.is_some_and(|deadline| deadline <= now)) {
            self.parent.signal(job.pid, job.overrun(now));
        }
    }
}
