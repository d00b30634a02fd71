//! Commands that stay: each is given items one at a time, and answers each with a line.
//!
//! An item leaves when the worker has all of it, and ends with the answer. So all that holds for a command that is run
//! for an item holds for the item of a worker. Workers are started when an item finds none idle.

use std::ffi::{OsStr, OsString};
use std::io;
use std::iter;
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::answer::WorkerAnswer;
use super::capture::Captured;
use super::expander::Expander;
use super::first_answer::{FirstAnswer, MAX_UNANSWERED};
use super::output::Outputs;
use super::parent::Parent;
use super::process::Deadline;
use super::spawn::Spawn;
use super::tag::tag;
use super::wait;
use super::worker::{self, Delivery, ItemInHand, Worker};
use super::{Cause, Ends, Flushed, Pipes, RunningJobs, Sent, Sink};
use crate::config::{Answers, InputOptions, Output, Run, Separator};
use crate::exit::{End, Exit, JobEnd};
use crate::inherited::inherited;
use crate::interrupt::Interrupt;
use crate::printable::{excerpt, quoted};
use crate::source::{Batch, Capacity, Delimiter, Segment};
use crate::time::{SECOND, Time};

/// How much is read at once.
const PIECE: usize = 64 << 10;

/// The pause before another worker is given an item that one would not read.
const PAUSE: u64 = SECOND / 1000;

pub(crate) struct Workers {
    run: Run,
    /// COMMAND and its arguments, in which there is no place for an item.
    line: Vec<OsString>,
    answers: Answers,
    /// Makes the tag of an answer from its item.
    tagger: Option<Expander>,
    delimiter: Delimiter,
    separator: Option<Separator>,
    parent: Parent,
    running: Vec<Worker>,
    outputs: Outputs,
    /// What they print is read here.
    buffer: Box<[u8]>,
    first_answer: FirstAnswer,
    /// What the next flush reports.
    report: Flushed,
}

impl Workers {
    /// Workers that run the command of `run` with items of `input`. [`RunningJobs::reap`] must be called when one has
    /// printed or ended. Printing ends early once `interrupt` is raised.
    ///
    /// # Errors
    /// Standard output was closed.
    pub(crate) fn new(
        run: Run,
        answers: Answers,
        input: &InputOptions,
        interrupt: Arc<Interrupt>,
    ) -> Result<Self> {
        inherited().check_stdout()?;
        let line = Expander::new(run.template.clone(), input);
        Ok(Workers {
            line: line.expand(&Batch::default(), OsStr::new("")),
            answers,
            tagger: run.tag.clone().map(|tag| Expander::new(tag, input)),
            delimiter: Delimiter::of(input),
            separator: input.separator.clone(),
            parent: Parent::new(run.ends_commands())?,
            running: Vec::new(),
            outputs: Outputs::new(interrupt, run.output == Output::InOrder),
            buffer: vec![0; PIECE].into(),
            first_answer: FirstAnswer::default(),
            report: Flushed::default(),
            run,
        })
    }

    /// The index of an idle worker, started if there is none.
    fn idle(&mut self) -> io::Result<usize> {
        if let Some(idle) = self.running.iter().position(Worker::is_idle) {
            return Ok(idle);
        }
        let mut command = Spawn::new(&self.line[0], &self.line)?;
        let pipes = worker::Pipes::connect(&mut command)?;
        let process = self.parent.start(command)?;
        let head = Separator::head(self.separator.as_ref()).to_vec();
        self.running.push(Worker::new(process, pipes, head));
        Ok(self.running.len() - 1)
    }

    /// Gives `batch`, an item, to the worker with this index.
    fn give(&mut self, now: Time, index: usize, batch: &Batch) -> io::Result<Sent> {
        let mut bytes = self.delimiter.complete(batch.segments().first().map_or(&[], Segment::bytes));
        let head = &self.running[index].head;
        if !head.is_empty() {
            bytes = [head, &bytes[..]].concat().into();
        }
        let limit =
            self.run.timeout.and_then(|nanos| Instant::now().checked_add(Duration::from_nanos(nanos)));
        let worker = &mut self.running[index];
        match worker.deliver(&bytes, &mut self.buffer, self.outputs.interrupt(), limit)? {
            Delivery::Refused { began: false } => {
                // It has ended, or it never may.
                worker.expect_end(now, self.run.timeout);
                return Ok(Sent::Busy { pause: PAUSE, why: None });
            }
            // It must not take a part of the item for the whole.
            Delivery::Interrupted => {
                self.parent.signal(&worker.process, Signal::SIGKILL);
                return Ok(Sent::Partly(0, Cause::Interrupted));
            }
            Delivery::Whole | Delivery::Refused { began: true } => worker.head.clear(),
            Delivery::TimedOut => {
                worker.process.deadline.has_passed = true;
                self.parent.signal(&worker.process, Signal::SIGKILL);
            }
        }
        let first = batch.first();
        let tag = self.tagger.as_ref().map(|tagger| tag(tagger, batch));
        let worker = &mut self.running[index];
        worker.item = Some(ItemInHand { first, tag });
        // It may have closed its output instead of reading.
        worker.retire(now, self.run.timeout);
        self.outputs.open(first);
        Ok(Sent::All)
    }

    /// Reads what workers have printed, and returns the ends of the items that were answered.
    fn answered(&mut self) -> Ends {
        let mut ended = Ends::new();
        for index in 0..self.running.len() {
            let worker = &mut self.running[index];
            if let Err(error) = worker.read(&mut self.buffer) {
                let error = Error::new(error).context(format!("cannot read from {}", worker.name()));
                self.fail(Exit::Error, error);
            }
            if let Some(line) = self.running[index].take_answer() {
                match self.end_of(index, line) {
                    Ok(end) => ended.push(end),
                    Err(error) => self.fail(Exit::Error, error),
                }
            }
            if let Err(error) = self.running[index].check_silence() {
                self.fail(Exit::Error, error);
            }
        }
        ended
    }

    /// Notes the answer of a worker.
    fn end_of(&mut self, index: usize, mut line: Vec<u8>) -> Result<JobEnd> {
        let worker = &mut self.running[index];
        let answer = WorkerAnswer::read(&line, self.answers).with_context(|| {
            let line = excerpt(line.trim_ascii_end());
            format!(
                "{} answered {line}: with --worker=status, begin with an exit status and a tab",
                worker.name()
            )
        })?;
        let ItemInHand { first, tag } = worker.item.take().expect("an item that was answered");
        worker.has_answered = true;
        if !worker.process.deadline.has_passed {
            worker.process.deadline = Deadline::default();
        }
        self.first_answer.come();
        self.report.told.extend(answer.unread.and_then(|asked| worker.cannot_read(asked)));
        let end =
            JobEnd { retry_after: answer.hold, ..JobEnd::new(first, End::Exited(answer.status.into())) };
        line.drain(..line.len() - answer.text.len());
        self.outputs.end(first, Some(Captured::answer(line, tag)));
        Ok(end)
    }

    /// Handles the end of a child. `None` if it is not a worker with an item.
    fn end(&mut self, pid: Pid, end: End) -> Option<JobEnd> {
        let index = self.running.iter().position(|worker| worker.process.pid == pid)?;
        let mut worker = self.running.swap_remove(index);
        let counted = self.parent.end(&worker.process, end);
        let is_about_item = worker.process.deadline.has_passed && worker.item.is_some();
        if !worker.has_answered && !is_about_item && !worker.is_dismissed {
            self.count_unanswered(&worker, end);
        }
        let Some(item) = worker.item.take() else {
            if (worker.has_answered || worker.is_dismissed) && end != End::Exited(0) {
                self.report.told.push(format!("{} {}", worker.name(), end));
            }
            return None;
        };
        if end == End::Exited(0) && !worker.is_dismissed {
            self.report.told.push(format!(
                "{} {} without an answer to item {}",
                worker.name(),
                end,
                item.first
            ));
        }
        let counted = if counted == End::Exited(0) { End::Exited(1) } else { counted };
        self.outputs.end(item.first, None);
        Some(JobEnd { timed_out: worker.process.deadline.has_passed, ..JobEnd::new(item.first, counted) })
    }

    fn count_unanswered(&mut self, worker: &Worker, end: End) {
        let Some(exit) = self.first_answer.miss(end) else { return };
        let line = quoted(&self.line);
        self.fail(
            exit,
            anyhow!(
                "{MAX_UNANSWERED} workers in a row ended before their first answer; {} {}: try one alone: echo item | \
                 {line}",
                worker.name(),
                end
            ),
        );
    }

    /// Ends the run: nothing more is asked of a worker that does not follow the rules, nor of the others.
    fn fail(&mut self, exit: Exit, error: Error) {
        self.report.cause.get_or_insert(Cause::Failed(exit, error));
        self.running.iter_mut().for_each(Worker::dismiss);
    }
}

impl Sink for Workers {
    fn capacity(&self) -> Capacity {
        let busy = self.running.iter().filter(|worker| !worker.is_idle()).count();
        let vacancies = self.run.jobs.get().saturating_sub(busy) as u64;
        let before = self.outputs.bound(busy).unwrap_or(u64::MAX);
        Capacity { vacancies, before, at_once: 1, ..Capacity::UNLIMITED }
    }

    fn prepare(&mut self, _: &Batch) {
        _ = self.idle();
    }

    fn send(&mut self, now: Time, batch: &Batch, _: &mut dyn FnMut()) -> Sent {
        let sent = match self.idle() {
            Ok(index) => self.give(now, index, batch),
            Err(error) => {
                let will_pass = self.running.iter().any(|worker| worker.item.is_some())
                    || self.outputs.will_free_files(batch.first());
                return self.parent.refused(error, &self.line[0], will_pass);
            }
        };
        sent.unwrap_or_else(|error| {
            Sent::Partly(0, Cause::Failed(Exit::Error, Error::new(error).context("cannot write to a worker")))
        })
    }

    fn trace(&mut self, _: &Batch) -> Option<String> {
        let starts = self.run.trace && !self.running.iter().any(Worker::is_idle);
        starts.then(|| quoted(&self.line))
    }

    fn jobs(&mut self) -> Option<&mut dyn RunningJobs> {
        Some(self)
    }
}

impl RunningJobs for Workers {
    fn has_started(&mut self, now: Time) {
        let timeout = self.run.timeout;
        let started = self.running.iter_mut().filter(|worker| worker.item.is_some());
        for worker in started.filter(|worker| worker.process.deadline.at.is_none()) {
            worker.process.deadline.set(now, timeout);
        }
        self.first_answer.expect(now);
    }

    fn reap(&mut self, now: Time) -> Ends {
        let mut ended = self.answered();
        if ended.is_empty() {
            let children: Vec<_> = iter::from_fn(wait::next_ended).collect();
            // What one printed before it ended counts.
            ended.extend(self.answered());
            ended.extend(children.into_iter().filter_map(|(pid, end)| self.end(pid, end)));
        }
        self.running.iter_mut().for_each(|worker| worker.retire(now, self.run.timeout));
        ended
    }

    fn linger(&self) -> bool {
        !self.running.is_empty()
    }

    fn captures(&self) -> bool {
        true
    }

    fn outputs(&self) -> Pipes<'_> {
        self.running.iter().filter_map(|worker| worker.stdout.as_ref().map(AsFd::as_fd)).collect()
    }

    fn retire(&mut self, first: u64, next: u64) {
        self.outputs.retire(first, next);
    }

    fn supersede(&mut self, first: u64) {
        self.outputs.supersede(first);
    }

    fn flush(&mut self, meanwhile: &mut dyn FnMut() -> Time) -> Flushed {
        let Workers { parent, running, outputs, buffer, report, .. } = self;
        let printed = outputs.flush(&mut || {
            let now = meanwhile();
            for worker in running.iter_mut() {
                if worker.is_late(now, buffer) {
                    parent.enforce(&mut worker.process, now);
                }
            }
        });
        let Flushed { told, cause, .. } = mem::take(report);
        Flushed { told, cause: printed.cause.or(cause), ..printed }
    }

    fn finish(&mut self, now: Time) {
        for worker in self.running.iter_mut().filter(|worker| !worker.is_dismissed) {
            worker.dismiss();
            worker.process.deadline.set(now, self.run.timeout);
        }
        self.outputs.finish();
    }

    fn signal(&mut self, signal: Signal) {
        self.running.iter().for_each(|worker| self.parent.signal(&worker.process, signal));
    }

    fn deadline(&self) -> Option<Time> {
        let of_workers =
            self.running.iter().flat_map(|worker| [worker.process.deadline.at, worker.closed.at]);
        // No poll of outputs tells of an answer that was read while an item was delivered or an output printed.
        let is_answered = self.running.iter().any(Worker::has_line);
        of_workers.flatten().chain(self.first_answer.hint_at()).chain(is_answered.then_some(Time::ZERO)).min()
    }

    fn enforce(&mut self, now: Time) {
        for worker in &mut self.running {
            self.parent.enforce(&mut worker.process, now);
            if worker.closed.pass(now) && !worker.is_dismissed {
                let pipe = if worker.stdout.is_none() { "output" } else { "input" };
                let name = worker.name();
                self.report.told.push(format!(
                    "{name} has closed its standard {pipe} and has not ended: it gets no more items"
                ));
            }
        }
        self.report.told.extend(self.first_answer.take_hint(now).map(str::to_owned));
    }
}
