//! A process that is given items one at a time, and answers each with a line.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::first_answer::HINT_AFTER;
use super::process::{Deadline, Process};
use super::spawn::Spawn;
use super::tag::Tag;
use crate::interrupt::Interrupt;
use crate::printable::excerpt;
use crate::time::Time;

/// The longest answer: that of an item.
const LONGEST_ANSWER: usize = 64 << 20;

/// The milliseconds after which a delivery that waits for its worker checks whether it is interrupted.
const INTERRUPT_CHECK: u8 = 50;

pub(super) struct Worker {
    pub(super) process: Process,
    /// `None` once it gets no more items.
    stdin: Option<PipeWriter>,
    /// `None` once it has closed its standard output.
    pub(super) stdout: Option<PipeReader>,
    /// What it has printed and was not taken yet.
    printed: Vec<u8>,
    /// The length of what was printed and has no newline.
    searched: usize,
    /// The item that it is working on.
    pub(super) item: Option<ItemInHand>,
    /// What it is given before its first item.
    pub(super) head: Vec<u8>,
    pub(super) has_answered: bool,
    /// True once it is to end.
    pub(super) is_dismissed: bool,
    told: Told,
    /// When to tell that it gets no more items, as it has closed a pipe, if it has not ended by then.
    pub(super) closed: Deadline,
}

/// What the user was told of a worker.
#[derive(Default)]
struct Told {
    /// It has printed something without an item.
    printed: bool,
    /// It has asked for a wait that cannot be read.
    unread: bool,
}

/// An item that a worker has been given.
pub(super) struct ItemInHand {
    /// Its number.
    pub(super) first: u64,
    pub(super) tag: Tag,
}

/// The pipes of a worker that is about to start.
pub(super) struct Pipes {
    stdin: PipeWriter,
    stdout: PipeReader,
}

/// How the delivery of an item ended.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Delivery {
    /// The worker has all of it.
    Whole,
    /// The worker reads no more. It may have part of the item if that `began`.
    Refused { began: bool },
    /// A signal came first.
    Interrupted,
    /// The worker did not take all of it in time.
    TimedOut,
}

impl Pipes {
    /// Connects `command`.
    pub(super) fn connect(command: &mut Spawn) -> io::Result<Self> {
        let ((its_stdin, stdin), (stdout, its_stdout)) = (io::pipe()?, io::pipe()?);
        for ours in [stdin.as_fd(), stdout.as_fd()] {
            fcntl(ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        (command.stdin, command.stdout) = (Some(Rc::new(its_stdin.into())), Some(its_stdout.into()));
        Ok(Pipes { stdin, stdout })
    }
}

impl Worker {
    pub(super) fn new(process: Process, pipes: Pipes, head: Vec<u8>) -> Self {
        let Pipes { stdin, stdout } = pipes;
        Worker {
            process,
            stdin: Some(stdin),
            stdout: Some(stdout),
            printed: Vec::new(),
            searched: 0,
            item: None,
            head,
            has_answered: false,
            is_dismissed: false,
            told: Told::default(),
            closed: Deadline::default(),
        }
    }

    /// True if the line that answers its item was read, and not taken yet.
    pub(super) fn has_line(&self) -> bool {
        self.item.is_some() && self.line_end().is_some()
    }

    fn line_end(&self) -> Option<usize> {
        Some(self.searched + memchr::memchr(b'\n', &self.printed[self.searched..])? + 1)
    }

    /// True if it has taken too long by `now`, and has not answered: reads what it has printed, by way of `buffer`.
    pub(super) fn is_late(&mut self, now: Time, buffer: &mut [u8]) -> bool {
        if !self.process.deadline.is_due(now) {
            return false;
        }
        // An error comes again when an answer is looked for.
        self.process.deadline.has_passed || self.read(buffer).is_err() || !self.has_line()
    }

    /// True if it waits for an item.
    pub(super) fn is_idle(&self) -> bool {
        self.item.is_none() && self.stdin.is_some() && self.stdout.is_some()
    }

    /// Gives it no more items, if it has closed its output: its input is closed, too, so one that waits for them ends.
    pub(super) fn retire(&mut self, now: Time, timeout: Option<u64>) {
        if self.stdout.is_some() || self.stdin.take().is_none() {
            return;
        }
        self.expect_end(now, timeout);
    }

    /// Notes that it has closed a pipe: when to tell of that and, if it is idle, when to end it.
    pub(super) fn expect_end(&mut self, now: Time, timeout: Option<u64>) {
        self.closed.set(now, Some(HINT_AFTER));
        if self.process.deadline.at.is_none() {
            self.process.deadline.set(now, timeout);
        }
    }

    /// Lets it end.
    pub(super) fn dismiss(&mut self) {
        self.stdin = None;
        self.is_dismissed = true;
    }

    /// Reads what it has printed, by way of `buffer`, without waiting. It takes part in the poll of outputs until it
    /// closes its output.
    ///
    /// # Errors
    /// The pipe cannot be read.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while let Some(stdout) = self.stdout.as_mut().filter(|_| self.printed.len() <= LONGEST_ANSWER) {
            match stdout.read(buffer) {
                Ok(0) => self.stdout = None,
                Ok(length) => {
                    self.printed.extend_from_slice(&buffer[..length]);
                    if length < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the line that answers its item, if it has come.
    pub(super) fn take_answer(&mut self) -> Option<Vec<u8>> {
        self.item.as_ref()?;
        let Some(end) = self.line_end() else {
            self.searched = self.printed.len();
            return None;
        };
        let rest = self.printed.split_off(end);
        self.searched = 0;
        Some(std::mem::replace(&mut self.printed, rest))
    }

    /// Checks that it prints nothing but answers.
    ///
    /// # Errors
    /// It has printed something without an item, or more than an answer may be. This is told once.
    pub(super) fn check_silence(&mut self) -> Result<()> {
        let is_too_long = self.printed.len() > LONGEST_ANSWER;
        if !is_too_long && (self.item.is_some() || self.printed.is_empty()) {
            return Ok(());
        }
        let was_told = std::mem::replace(&mut self.told.printed, self.item.is_none());
        if is_too_long || was_told {
            // As if nobody read it any more, or it might never end.
            (self.stdin, self.stdout) = (None, None);
        }
        let printed = std::mem::take(&mut self.printed);
        self.searched = 0;
        ensure!(self.item.is_none(), "{} has printed more than 64 MiB without a newline", self.name());
        if was_told {
            return Ok(());
        }
        let line = printed.split(|&byte| byte == b'\n').next().map(excerpt).unwrap_or_default();
        bail!(
            "{} printed {line} without an item: it must print one line for each item, and nothing else, to its \
             standard output",
            self.name()
        )
    }

    /// Says, once, that it has asked for a wait that cannot be read.
    pub(super) fn cannot_read(&mut self, asked: &str) -> Option<String> {
        let is_first = !std::mem::replace(&mut self.told.unread, true);
        let said = excerpt(format!("wait={asked}").as_bytes());
        is_first.then(|| {
            let what = "a wait is a duration, seconds or an HTTP date";
            format!("{} answered {said}: {what}, so it sets no hold", self.name())
        })
    }

    /// What messages call it.
    pub(super) fn name(&self) -> String {
        format!("worker {}", self.process.slot + 1)
    }

    /// Gives it an item, and waits until it has taken all of it: it may take more than a pipe holds, and print before
    /// it has read all. An interrupt ends the wait, as does the instant `limit`.
    ///
    /// # Errors
    /// A pipe fails.
    pub(super) fn deliver(
        &mut self,
        bytes: &[u8],
        buffer: &mut [u8],
        interrupt: &Interrupt,
        limit: Option<Instant>,
    ) -> io::Result<Delivery> {
        let mut written = 0;
        while written < bytes.len() {
            let Some(stdin) = &mut self.stdin else { break };
            match stdin.write(&bytes[written..]) {
                Ok(length) => written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if interrupt.is_raised() {
                        return Ok(Delivery::Interrupted);
                    }
                    if limit.is_some_and(|limit| Instant::now() >= limit) {
                        return Ok(Delivery::TimedOut);
                    }
                    self.wait()?;
                    self.read(buffer)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.stdin = None;
                    return Ok(Delivery::Refused { began: written > 0 });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Delivery::Whole)
    }

    /// Waits a little until it reads or prints more.
    fn wait(&self) -> io::Result<()> {
        let stdin = self.stdin.iter().map(|stdin| PollFd::new(stdin.as_fd(), PollFlags::POLLOUT));
        let stdout = self.stdout.iter().map(|stdout| PollFd::new(stdout.as_fd(), PollFlags::POLLIN));
        match poll(&mut stdin.chain(stdout).collect::<Vec<_>>(), PollTimeout::from(INTERRUPT_CHECK)) {
            Ok(_) | Err(Errno::EINTR | Errno::EAGAIN | Errno::ENOMEM) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
