//! Where items go.

mod dry_run;
mod jobs;
mod stdout;
mod writer;

use anyhow::Error;
use nix::sys::signal::Signal;

pub use dry_run::DryRun;
pub use jobs::{Exec, Template, parse_retry_after};
pub use stdout::Stdout;

use crate::exit::{End, Exit};
use crate::source::Delimiter;
use crate::time::Time;

/// Takes what is released.
pub trait Sink {
    /// Sends `load`, which was let go at the instant `at`. When it returns, the items have left.
    ///
    /// # Errors
    /// When nothing more can be sent, with how much of the load was.
    fn send(&mut self, at: Time, load: &Load) -> Result<Sent, SendError>;

    /// How many releases it takes in one `send`.
    fn span(&self) -> u64 {
        u64::MAX
    }

    /// How many bytes of items it takes in one `send`, if there are several items.
    fn most_bytes(&self) -> usize {
        usize::MAX
    }

    /// How many releases it can take now. If none, it can after some command has ended.
    fn vacancies(&self) -> u64 {
        u64::MAX
    }

    /// Whether it can take something now.
    fn is_free(&self) -> bool {
        self.vacancies() > 0
    }

    /// Whether what was sent runs on, and its end is told by [`Sink::reap`].
    fn runs_commands(&self) -> bool {
        false
    }

    /// How many commands are running.
    fn running(&self) -> usize {
        0
    }

    /// Collects the commands that have ended by `now`.
    fn reap(&mut self, _now: Time) -> Reaped {
        Reaped::default()
    }

    /// The item of this number is done with: it will not be sent again. Nor will any before `next` be that is not
    /// running.
    ///
    /// # Errors
    /// Its output, which had to wait for that, cannot be printed.
    fn settle(&mut self, _first: u64, _next: u64) -> Result<(), Cause> {
        Ok(())
    }

    /// Nothing more will be sent, nor is anything running.
    ///
    /// # Errors
    /// Output that had to wait for something else cannot be printed.
    fn finish(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    /// Passes a signal on to what is running.
    fn signal(&mut self, _: Signal) {}

    /// When something has to be done about a command that runs too long.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// Does what has to be done by `now` about commands that run too long.
    fn enforce(&mut self, _now: Time) {}
}

/// Items that leave together.
pub struct Load<'a> {
    /// The items with their delimiters.
    pub bytes: &'a [u8],
    /// How many there are.
    pub records: u64,
    /// The number of the first, counted from 1.
    pub first: u64,
    /// How often they have been sent, this time included.
    pub attempt: u64,
    /// What ends an item.
    pub delimiter: &'a Delimiter,
}

impl Load<'_> {
    /// How many whole items the first `length` bytes hold.
    pub(crate) fn records_in(&self, length: usize) -> u64 {
        match length == self.bytes.len() {
            true => self.records,
            false => self.delimiter.whole(&self.bytes[..length]).0,
        }
    }
}

/// What became of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It has left.
    Released,
    /// It cannot be sent, and that was told; others can.
    Refused,
    /// It cannot be sent just now, for want of something that others use; it is worth a try after so many nanoseconds.
    Later(u64),
}

/// Why nothing more can be sent.
#[derive(Debug)]
pub struct SendError {
    /// How many bytes of the load have left all the same.
    pub written: usize,
    /// The reason.
    pub cause: Cause,
}

/// Why nothing more can be sent.
#[derive(Debug)]
pub enum Cause {
    /// Nobody reads what is written.
    ReaderGone,
    /// A signal asks to stop.
    Interrupted,
    /// It cannot be written.
    Failed(Error),
    /// The command cannot be started at all.
    Unable(Exit, Error),
}

/// What became of commands.
#[derive(Debug, Default)]
pub struct Reaped {
    /// Those that have ended.
    pub ended: Vec<Ended>,
    /// Why their output cannot be printed.
    pub cause: Option<Cause>,
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The number of its first item.
    pub first: u64,
    /// How it ended.
    pub end: End,
    /// How long it asks to wait before it is tried again, in nanoseconds.
    pub retry_after: Option<u64>,
}
