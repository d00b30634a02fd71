//! Actions: the output of the scheduler, and the notices among them that are for the user.

use anyhow::Error;

use super::Admission;
use crate::config::{HaltOn, Rate};
use crate::exit::{End, Exit};
use crate::gate::{Order, Slot};
use crate::source::{ArgumentError, SourceError};
use crate::time::Time;

/// The next thing for the driver to do.
#[derive(Debug)]
pub enum Action {
    /// Send this, now. The answer is [`Schedule::sent`](super::Schedule::sent) or one of its kin.
    Send(Box<Admission>),
    /// Have slots booked. The answer is [`Schedule::booked`](super::Schedule::booked).
    Book(Order),
    /// Give back slots that were booked by such an order. They are not used any more.
    GiveBack(Order, Vec<Slot>),
    /// Ask the commands that run to end.
    Terminate,
    /// Kill the commands that run.
    Kill,
    /// The item of this number is done with: it will not be sent again. Every item before `next` is either done, or was
    /// sent and may be sent again.
    Retire {
        /// Its number.
        first: u64,
        /// The first that was read and is still to be sent.
        next: u64,
    },
    /// Tell the user.
    Tell(Notice),
    /// Wait for an instant, if there is one, or for something to happen.
    Wait {
        /// The instant.
        until: Option<Time>,
        /// Items may be read meanwhile.
        accepting: bool,
    },
    /// All is done, with this result.
    Finish(Exit),
}

/// A message for the user.
#[derive(Debug)]
pub enum Notice {
    /// Items have failed for good.
    Failed(Failed),
    /// Items that have failed were to be tried again, but the run is over.
    FailedSoFar(Failed),
    /// An item is skipped, since it cannot be charged.
    BadItem(SourceError),
    /// An item came too early, and that ends the run.
    Refused {
        /// Its number.
        item: u64,
        /// The item itself.
        text: Vec<u8>,
        /// The limit that does not admit it; none if it is one of several that are shared.
        limit: Option<Rate>,
        /// By how much it was early, in nanoseconds, if there is an instant at which it could have gone.
        early: Option<u64>,
    },
    /// A server has asked for a pause.
    Hold(HoldBegun),
    /// Nothing is released before this instant, as another run has heard, or somebody has set.
    SharedHold(Time),
    /// An item was not released in the time that it may wait, and that ends the run.
    Expired {
        /// Its number.
        item: u64,
        /// The item itself.
        text: Vec<u8>,
        /// The limit that it waits for, if it is known.
        limit: Option<Rate>,
    },
    /// The time of the run is over, and items are left.
    TimeUp,
    /// The next release would be later than anybody wants to wait.
    TooLong {
        /// By how much it is later than now, in nanoseconds, if that is known.
        late: Option<u64>,
    },
    /// The run ends, as this many items have failed, or ended otherwise.
    Halted {
        /// Their number.
        items: u64,
        /// Which ones.
        on: HaltOn,
    },
    /// These limits hold from now on.
    Limits(Vec<Rate>),
    /// Something to hear of, which ends nothing.
    Warning(String),
    /// Bookings are lost, so nothing is released for a while.
    StateLost {
        /// The state, and what has happened to it.
        what: String,
        /// For how many nanoseconds.
        silent: Option<u64>,
    },
    /// An error that ends the run.
    Error(Error),
}

/// A pause that a server has asked for.
#[derive(Debug)]
pub struct HoldBegun {
    /// The number of the item whose command was told.
    pub item: u64,
    /// The item itself.
    pub text: Vec<u8>,
    /// For how many nanoseconds.
    pub asked: u64,
    /// For how many it is heeded.
    pub held: u64,
    /// Its end.
    pub until: Time,
    /// Only items with the same keys are held.
    pub by_key: bool,
}

/// Items that have failed.
#[derive(Debug)]
pub struct Failed {
    /// The number of the first.
    pub item: u64,
    /// Their number.
    pub items: u64,
    /// The first one itself.
    pub text: Vec<u8>,
    /// Why.
    pub why: Failure,
}

/// Why items have failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Their command ended like this.
    Ended(End),
    /// Their command ran longer than it may.
    TimedOut,
    /// They could not be given to a command.
    ArgumentError(ArgumentError),
}

impl Failure {
    /// The exit of a run in which nothing worse happens.
    pub(super) fn exit(self) -> Exit {
        match self {
            Failure::Ended(end) => Exit::of_command(end),
            Failure::TimedOut => Exit::CommandKilled,
            Failure::ArgumentError(_) => Exit::CommandFailed,
        }
    }
}

/// Why a run ends before its input does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The signal of this number asks for it.
    Signal(i32),
    /// Nobody reads what is written.
    ReaderGone,
}
