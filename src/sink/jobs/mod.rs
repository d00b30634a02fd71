//! Runs a command for each release.

mod answer;
mod capture;
mod dialects;
mod exec;
mod expander;
mod first_answer;
mod gathered;
mod header_files;
mod headers;
mod hold;
mod lines;
mod output;
mod parent;
mod process;
mod programs;
mod room;
mod shortage;
mod space;
mod spawn;
mod stdin;
mod tag;
mod temp_files;
mod wait;
mod worker;
mod workers;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Error, Result};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use smallvec::SmallVec;

pub(crate) use self::exec::exec;
pub(crate) use self::expander::Expander;
pub use self::hold::{parse as parse_headers, status as parse_status};
pub(crate) use self::wait::has_ended;
pub(crate) use self::workers::Workers;

use self::capture::Capture;
use self::header_files::HeaderFiles;
use self::lines::Lines;
use self::output::Outputs;
use self::parent::Parent;
use self::process::Process;
use self::programs::Programs;
use self::room::command_line;
use self::shortage::is_passing;
use self::spawn::Spawn;
use self::stdin::Nothing;
use self::tag::{Tag, tag};
use super::{Cause, Ends, Flushed, Pipes, RunningJobs, Sent, Sink};
use crate::config::{Feed, HEADERS, InputOptions, Output, Run, Separator};
use crate::exit::{End, Exit, JobEnd};
use crate::inherited::inherited;
use crate::interrupt::Interrupt;
use crate::printable::quoted;
use crate::source::{Batch, Capacity, Delimiter};
use crate::time::Time;

pub(crate) struct Commands {
    expander: Expander,
    /// Makes the tag of a command's output from its items.
    tagger: Option<Expander>,
    run: Run,
    separator: Option<Separator>,
    capacity: Capacity,
    parent: Parent,
    jobs: Vec<Job>,
    outputs: Outputs,
    header_files: HeaderFiles,
    programs: Programs,
    nothing: Nothing,
    /// A command that was prepared and not started yet: the next one, unless its items were put back.
    next: Option<Prepared>,
}

/// A command that can be started for some items.
struct Prepared {
    attempt: u64,
    /// The first item and the number of items of each segment.
    segments: SmallVec<[(u64, u64); 1]>,
    command: Spawn,
    /// As in [`Job`].
    headers: Option<PathBuf>,
    capture: Option<Capture>,
    tag: Tag,
    /// The pipes for output that is passed on by the line.
    lines: Option<lines::Pipes>,
}

impl Prepared {
    fn is_for(&self, batch: &Batch) -> bool {
        self.attempt == batch.attempt() && self.segments.iter().copied().eq(segments_of(batch))
    }
}

fn segments_of(batch: &Batch) -> impl Iterator<Item = (u64, u64)> {
    batch.segments().iter().map(|segment| (segment.first(), segment.items()))
}

/// A running command.
struct Job {
    process: Process,
    /// The number of its first item.
    first: u64,
    /// The file to which it writes what a server has said.
    headers: Option<PathBuf>,
    capture: Option<Capture>,
}

impl Commands {
    /// Runs the command of `run` for each release of items of `input`. [`RunningJobs::reap`] must be called when a
    /// command has ended. Printing ends early once `interrupt` is raised.
    ///
    /// # Errors
    /// Standard output was closed.
    pub(crate) fn new(run: Run, input: &InputOptions, interrupt: Arc<Interrupt>) -> Result<Self> {
        inherited().check_stdout()?;
        Ok(Commands {
            expander: Expander::new(run.template.clone(), input),
            tagger: run.tag.clone().map(|tag| Expander::new(tag, input)),
            capacity: Self::capacity_of(&run, &Delimiter::of(input)),
            separator: input.separator.clone(),
            parent: Parent::new(run.ends_commands())?,
            jobs: Vec::new(),
            outputs: Outputs::new(interrupt, run.output == Output::InOrder),
            header_files: HeaderFiles::new(run.retry.times > 0 || run.template.takes_headers()),
            programs: Programs::default(),
            nothing: Nothing::default(),
            next: None,
            run,
        })
    }

    /// The capacity for the commands of `run` when none is running.
    pub(crate) fn capacity_of(run: &Run, delimiter: &Delimiter) -> Capacity {
        let line = (run.stdin != Feed::Items).then(|| command_line(&run.template, delimiter));
        Capacity { vacancies: run.jobs.get() as u64, at_once: 1, line, ..Capacity::UNLIMITED }
    }

    fn prepared(&mut self, batch: &Batch) -> Result<Prepared, StartError> {
        let headers = self.header_files.file_of(batch).map_err(StartError::TempFile)?;
        // Always set: some programs fail on an empty file name.
        let named = headers.as_deref().unwrap_or(Path::new(stdin::NOTHING));
        let mut command = self.command(batch, named)?;
        command.set("THROTTLE_SEQ", batch.first().to_string());
        command.set("THROTTLE_ATTEMPT", batch.attempt().to_string());
        for name in ["THROTTLE_HEADERS", "THROTTLE_RETRY_AFTER"] {
            command.set(name, named);
        }
        let tag = self.tagger.as_ref().map(|tagger| tag(tagger, batch));
        let (capture, lines) = match self.run.output {
            Output::Shared => (None, None),
            Output::Lines => (None, Some(Lines::capture(&mut command).map_err(StartError::TempFile)?)),
            Output::Whole | Output::InOrder => {
                let capture = Capture::of(&mut command, &tag, &mut self.outputs.pool);
                (Some(capture.map_err(StartError::TempFile)?), None)
            }
        };
        let (attempt, segments) = (batch.attempt(), segments_of(batch).collect());
        Ok(Prepared { attempt, segments, command, headers, capture, tag, lines })
    }

    fn start(&mut self, batch: &Batch) -> Result<(), StartError> {
        let next = self.next.take().filter(|next| next.is_for(batch));
        let next = next.map_or_else(|| self.prepared(batch), Ok)?;
        let Prepared { command, headers, capture, tag, lines, .. } = next;
        let process = self.parent.start(command).map_err(StartError::Command)?;
        let first = batch.first();
        self.jobs.push(Job { process, first, headers, capture });
        lines.into_iter().for_each(|pipes| self.outputs.lines.start(first, &tag, pipes));
        Ok(())
    }

    fn line(&self, batch: &Batch, headers: &Path) -> Vec<OsString> {
        self.expander.expand(batch, headers.as_os_str())
    }

    fn command(&mut self, batch: &Batch, headers: &Path) -> Result<Spawn, StartError> {
        let line = self.line(batch, headers);
        let program = self.programs.find(&line[0]);
        let mut command = Spawn::new(program, &line).map_err(StartError::Command)?;
        let stdin = match self.run.stdin {
            Feed::Nothing => Some(self.nothing.get()),
            Feed::Ours => None,
            Feed::Items => Some(stdin::of(Separator::head(self.separator.as_ref()), batch)),
        };
        command.stdin = stdin.transpose().map_err(StartError::TempFile)?;
        Ok(command)
    }

    /// Decides what follows when a command could not be started.
    fn refuse(&mut self, batch: &Batch, failure: StartError) -> Sent {
        match failure {
            StartError::TempFile(error) if !is_passing(&error) => {
                let what = "cannot create a temporary file: set TMPDIR to a directory with free space";
                Sent::Partly(0, Cause::Failed(Exit::Error, Error::new(error).context(what)))
            }
            StartError::Command(error) if error.kind() == ErrorKind::ArgumentListTooLong => Sent::TooLong,
            StartError::TempFile(error) | StartError::Command(error) => {
                let will_pass = !self.jobs.is_empty() || self.outputs.will_free_files(batch.first());
                self.parent.refused(error, &self.line(batch, Path::new(HEADERS))[0], will_pass)
            }
        }
    }

    /// Handles the end of a child. `None` if the child is not a job.
    fn end(&mut self, pid: Pid, end: End) -> Option<JobEnd> {
        let at = self.jobs.iter().position(|job| job.process.pid == pid)?;
        let job = self.jobs.swap_remove(at);
        let end = self.parent.end(&job.process, end);
        self.outputs.take(job.first, job.capture);
        let ended = JobEnd { timed_out: job.process.deadline.has_passed, ..JobEnd::new(job.first, end) };
        Some(match job.headers {
            Some(path) => self.header_files.take(&path, SystemTime::now(), ended),
            None => ended,
        })
    }
}

/// Errors on starting a command.
enum StartError {
    /// A file for its input or output cannot be made.
    TempFile(io::Error),
    /// The system did not start it.
    Command(io::Error),
}

impl Sink for Commands {
    fn capacity(&self) -> Capacity {
        let vacancies = (self.run.jobs.get() - self.jobs.len()) as u64;
        let before = self.outputs.bound(self.jobs.len()).unwrap_or(u64::MAX);
        Capacity { vacancies, before, ..self.capacity }
    }

    fn prepare(&mut self, batch: &Batch) {
        if !self.next.as_ref().is_some_and(|next| next.is_for(batch)) {
            // Its files may be what the other lacks.
            self.next = None;
            self.next = self.prepared(batch).ok();
        }
    }

    fn send(&mut self, _: Time, batch: &Batch, _: &mut dyn FnMut()) -> Sent {
        let started = match self.start(batch) {
            Err(StartError::Command(error)) if self.programs.give_up(&error) => self.start(batch),
            started => started,
        };
        match started {
            Ok(()) => {
                self.outputs.open(batch.first());
                Sent::All
            }
            Err(failure) => self.refuse(batch, failure),
        }
    }

    fn trace(&mut self, batch: &Batch) -> Option<String> {
        if !self.run.trace {
            return None;
        }
        // If it fails, the start will report why.
        let headers = self.header_files.file_of(batch).ok().flatten();
        Some(quoted(&self.line(batch, headers.as_deref().unwrap_or(Path::new(HEADERS)))))
    }

    fn jobs(&mut self) -> Option<&mut dyn RunningJobs> {
        Some(self)
    }
}

impl RunningJobs for Commands {
    fn has_started(&mut self, now: Time) {
        if let Some(job) = self.jobs.last_mut() {
            job.process.deadline.set(now, self.run.timeout);
        }
    }

    fn reap(&mut self, _: Time) -> Ends {
        let ended = iter::from_fn(wait::next_ended);
        ended.filter_map(|(pid, end)| self.end(pid, end)).collect()
    }

    fn captures(&self) -> bool {
        self.run.output != Output::Shared
    }

    fn outputs(&self) -> Pipes<'_> {
        self.outputs.lines.pipes()
    }

    fn retire(&mut self, first: u64, next: u64) {
        self.outputs.retire(first, next);
    }

    fn supersede(&mut self, first: u64) {
        self.outputs.supersede(first);
    }

    fn flush(&mut self, meanwhile: &mut dyn FnMut() -> Time) -> Flushed {
        let Commands { parent, jobs, outputs, .. } = self;
        outputs.flush(&mut || {
            let now = meanwhile();
            let due =
                jobs.iter_mut().map(|job| &mut job.process).filter(|process| process.deadline.is_due(now));
            // One that has ended by now is in time, and reaped later.
            due.filter(|process| !wait::may_have_ended(process.pid))
                .for_each(|process| parent.enforce(process, now));
        })
    }

    fn finish(&mut self, _: Time) {
        self.outputs.finish();
    }

    fn signal(&mut self, signal: Signal) {
        self.jobs.iter().for_each(|job| self.parent.signal(&job.process, signal));
    }

    fn deadline(&self) -> Option<Time> {
        self.jobs.iter().filter_map(|job| job.process.deadline.at).min()
    }

    fn enforce(&mut self, now: Time) {
        self.jobs.iter_mut().for_each(|job| self.parent.enforce(&mut job.process, now));
    }
}
