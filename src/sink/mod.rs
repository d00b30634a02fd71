//! Where items go.

mod dry_run;
mod exec;
mod stdout;

use anyhow::Error;
use nix::sys::signal::Signal;

pub use dry_run::DryRun;
pub use exec::{Exec, Template};
pub use stdout::Stdout;

use crate::exit::Exit;
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

    /// Whether it can take something now. If not, it can after some command has ended.
    fn is_free(&self) -> bool {
        true
    }

    /// How many commands are running.
    fn running(&self) -> usize {
        0
    }

    /// Collects the commands that have ended.
    fn reap(&mut self) -> Reaped {
        Reaped { failed: 0, exit: Exit::Done }
    }

    /// Passes a signal on to what is running.
    fn signal(&mut self, _: Signal) {}
}

/// Items that leave together.
pub struct Load<'a> {
    /// The items with their delimiters.
    pub bytes: &'a [u8],
    /// How many there are.
    pub records: u64,
    /// The number of the first, counted from 1.
    pub first: u64,
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

/// What became of the commands that have ended.
pub struct Reaped {
    /// How many items failed.
    pub failed: u64,
    /// The highest-ranking of their ends.
    pub exit: Exit,
}
