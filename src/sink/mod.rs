//! Where released items go: standard output, the dry run, commands.

mod dry_run;
mod jobs;
mod permit;
mod stdout;
mod writer;

use std::os::fd::BorrowedFd;

use anyhow::Error;
use nix::sys::signal::Signal;
use smallvec::SmallVec;

pub(crate) use dry_run::DryRun;
pub(crate) use jobs::{Commands, Expander, Workers, exec, has_ended};
pub use jobs::{parse_headers, parse_status};
pub use permit::PermitSink;
pub(crate) use stdout::Stdout;
pub(crate) use writer::TextWriter;

use crate::exit::{Exit, JobEnd};
use crate::source::{Batch, Capacity};
use crate::time::Time;

/// Takes releases.
pub trait Sink {
    /// The capacity now: running commands take up part of it.
    fn capacity(&self) -> Capacity;

    /// Sends what goes before all items, if it is known by now and has not been sent.
    ///
    /// # Errors
    /// Nothing more can be sent.
    fn begin(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    /// Does what takes time before `batch` is sent, once for all calls with the same one. If it fails, sending reports
    /// why.
    fn prepare(&mut self, _batch: &Batch) {}

    /// Sends `batch`, which was admitted at the instant `at` of the run's clock. When it returns, the items have left.
    /// While a reader is slow, does `meanwhile` what the thread is asked for.
    fn send(&mut self, at: Time, batch: &Batch, meanwhile: &mut dyn FnMut()) -> Sent;

    /// The command line that sending a batch will run, quoted for a shell, if it is to be shown.
    fn trace(&mut self, _batch: &Batch) -> Option<String> {
        None
    }

    /// The commands that it has started, if it runs commands.
    fn jobs(&mut self) -> Option<&mut dyn RunningJobs> {
        None
    }
}

/// The ends of commands, mostly of one.
pub type Ends = SmallVec<[JobEnd; 1]>;

/// The pipes that commands print to.
pub type Pipes<'a> = SmallVec<[BorrowedFd<'a>; 4]>;

/// Commands that a sink has started.
pub trait RunningJobs {
    /// Notes that the command that was sent last runs as of `now`. Its timeout begins here, as starting it may take
    /// long.
    fn has_started(&mut self, now: Time);

    /// Collects the commands that have ended by `now` or later. Prints nothing, as a stalled reader would delay the
    /// report of their ends.
    fn reap(&mut self, now: Time) -> Ends;

    /// True as long as there are processes that may end without having been given anything.
    fn linger(&self) -> bool {
        false
    }

    /// True if the output of commands passes through the sink.
    fn captures(&self) -> bool;

    /// The pipes that commands print to, which [`flush`](Self::flush) must read as soon as something comes.
    fn outputs(&self) -> Pipes<'_>;

    /// Notes that the item numbered `first` is done: it will not be sent again. Every item before `next` is either
    /// done, or has been sent and may be sent again.
    fn retire(&mut self, first: u64, next: u64);

    /// Notes that the item numbered `first`, whose command has ended, will be sent again.
    fn supersede(&mut self, first: u64);

    /// Prints the outputs of commands whose turn has come. While a reader is slow, calls `meanwhile`, which returns the
    /// time, if the thread is asked for something, and then ends commands that run too long.
    fn flush(&mut self, meanwhile: &mut dyn FnMut() -> Time) -> Flushed;

    /// Notes that nothing is running and nothing more will be sent: the remaining outputs are due, and workers are to
    /// end. As long as some [linger](Self::linger), it is called again when something has happened.
    fn finish(&mut self, now: Time);

    /// Passes a signal on to the running commands.
    fn signal(&mut self, signal: Signal);

    /// The next instant at which something must be done about a command that runs too long.
    fn deadline(&self) -> Option<Time>;

    /// Does what must be done by `now` about commands that run too long.
    fn enforce(&mut self, now: Time);
}

/// The result of sending a batch.
#[derive(Debug)]
pub enum Sent {
    /// All of it has left.
    All,
    /// This number of items has left, and nothing more can be sent.
    Partly(u64, Cause),
    /// It cannot be sent now, for want of something that others use.
    Busy {
        /// The nanoseconds after which to try again.
        pause: u64,
        /// Reported to the user, unless `None`.
        why: Option<Error>,
    },
    /// It is more than the system accepts. Fewer items may fit.
    TooLong,
}

/// Why nothing more can be sent.
#[derive(Debug)]
pub enum Cause {
    /// Nobody reads the output.
    ReaderGone,
    /// A signal asks to stop.
    Interrupted,
    /// It cannot be written, or its command cannot be started at all; with the exit of the run.
    Failed(Exit, Error),
}

/// The result of printing the outputs of commands.
#[derive(Debug, Default)]
pub struct Flushed {
    /// The numbers of the first items of the commands whose output was printed to the last byte.
    pub printed: SmallVec<[u64; 1]>,
    /// The number of commands whose output was not printed, or not completely.
    pub unprinted: u64,
    /// What the user is told.
    pub told: Vec<String>,
    /// The first failure, if there was one.
    pub cause: Option<Cause>,
}
