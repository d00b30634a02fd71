//! Where released items go: standard output, the dry run, commands.

mod dry_run;
mod jobs;
mod permit;
mod stdout;
mod writer;

use std::os::fd::BorrowedFd;

use anyhow::Error;
use nix::sys::signal::Signal;

pub(crate) use dry_run::DryRun;
pub use jobs::parse_headers;
pub(crate) use jobs::{Commands, Expander, exec};
pub use permit::PermitSink;
pub(crate) use stdout::Stdout;
pub(crate) use writer::Writer;

use crate::exit::{Exit, JobEnd};
use crate::source::{Batch, Capacity};
use crate::time::Time;

/// Takes releases.
pub trait Sink {
    /// Its capacity as of now: commands take up some of it as long as they run.
    fn capacity(&self) -> Capacity;

    /// Sends `batch`, which was admitted at the instant `at`. When it returns, the items have left.
    fn send(&mut self, at: Time, batch: &Batch) -> Sent;

    /// The command that sending `batch` will run, as one would type it, if that is to be shown.
    fn trace(&self, batch: &Batch) -> Option<String>;

    /// Prints the outputs that are left: nothing more will be sent, nor is anything running.
    fn finish(&mut self) -> Flushed {
        Flushed::default()
    }

    /// The commands that were started, if that is what it does.
    fn jobs(&mut self) -> Option<&mut dyn RunningJobs> {
        None
    }
}

/// Commands that were started and run on.
pub trait RunningJobs {
    /// The command that was sent last runs at `now`. Its time begins: to start it may have taken long.
    fn has_started(&mut self, now: Time);

    /// Collects the commands that have ended, and prints nothing: a reader may stall, and the ends be told late.
    fn reap(&mut self) -> Vec<JobEnd>;

    /// It prints what commands print, rather than they themselves.
    fn captures(&self) -> bool;

    /// Pipes that commands print to, which [`flush`](Self::flush) is to read as soon as something comes.
    fn outputs(&self) -> Vec<BorrowedFd<'_>>;

    /// The item of this number is done with: it will not be sent again. Every item before `next` is either done, or was
    /// sent and may be sent again.
    fn retire(&mut self, first: u64, next: u64);

    /// The item of this number, whose command has ended, is going to be sent again.
    fn supersede(&mut self, first: u64);

    /// Prints the outputs of commands whose turn has come.
    fn flush(&mut self) -> Flushed;

    /// Passes a signal on to what is running.
    fn signal(&mut self, signal: Signal);

    /// The next instant at which something has to be done about a command that runs too long.
    fn deadline(&self) -> Option<Time>;

    /// Does what has to be done by `now` about commands that run too long.
    fn enforce(&mut self, now: Time);
}

/// The result of sending a batch.
#[derive(Debug)]
pub enum Sent {
    /// All of it has left.
    All,
    /// This number of items has left, and nothing more can be sent.
    Partly(u64, Cause),
    /// It cannot be sent just now, for want of something that others use.
    Busy {
        /// The number of nanoseconds after which it is worth a try.
        pause: u64,
        /// Told to the user, unless `None`.
        why: Option<Error>,
    },
    /// It is more than the system takes. Less of it may do.
    TooLong,
}

/// Reasons for which nothing more can be sent.
#[derive(Debug)]
pub enum Cause {
    /// Nobody reads what is written.
    ReaderGone,
    /// A signal asks to stop.
    Interrupted,
    /// It cannot be written, or its command cannot be started at all; with the exit of the run.
    Failed(Exit, Error),
}

/// The result of printing the outputs of commands.
#[derive(Debug, Default)]
pub struct Flushed {
    /// The numbers of the first items of the commands whose output is out, down to the last byte.
    pub printed: Vec<u64>,
    /// The number of commands whose output was not printed, or not completely.
    pub unprinted: u64,
    /// That of the first of them.
    pub cause: Option<Cause>,
}
