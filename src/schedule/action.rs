//! Actions, the output of the scheduler, and the notices for the user among them.

use std::collections::VecDeque;

use anyhow::Error;

use super::Admission;
use crate::config::{HaltOn, Rate};
use crate::exit::{End, Exit};
use crate::gate::Order;
use crate::source::{Batch, Delimiter};
use crate::time::{SECOND, Time};

/// The next thing for the driver to do.
#[derive(Debug)]
pub enum Action {
    /// Send this now. Answer with [`Schedule::sent`](super::Schedule::sent), `late`, `busy` or `too_long`.
    Send(Box<Admission>),
    /// Have the store do these. Answer with [`Schedule::booked`](super::Schedule::booked) to each that it does.
    Store(Vec<Order>),
    /// Ask the running commands to end.
    Terminate,
    /// Kill the running commands.
    Kill,
    /// The item numbered `first` is done: it will not be sent again. Every item before `next` is either done, or has
    /// been sent and may be sent again.
    Retire {
        /// The number of the item.
        first: u64,
        /// The number of the first item still to be sent.
        next: u64,
    },
    /// Notify the user.
    Notify(Box<Notice>),
    /// Wait until something happens, or until an instant.
    Wait {
        /// The instant, if there is one.
        until: Option<Time>,
        /// True if items may be read meanwhile.
        accepting: bool,
    },
    /// The run is over, with this result.
    Finish(Exit),
}

/// A notice of a shorter pause, in nanoseconds, would be out of date before it is read.
pub(super) const LEAST_TOLD: u64 = SECOND;

/// Actions to do before anything else is decided, first in, first out.
#[derive(Default)]
pub(super) struct Actions {
    queue: VecDeque<Action>,
    /// The end of the last hold in all runs that was told of, whatever its key.
    told_hold: Time,
    /// The end of the last silence after a loss that was told of, whatever its key.
    told_loss: Time,
}

/// Notes a silence until an instant. Returns whether it is to be told: not if one that was `told` is still in force and
/// ends as late, or little sooner.
fn take_news(told: &mut Time, now: Time, until: Time) -> bool {
    let is_news = *told <= now || until.since(*told) > LEAST_TOLD;
    *told = if is_news { until } else { *told };
    is_news
}

impl Actions {
    pub(super) fn next(&mut self) -> Option<Action> {
        self.queue.pop_front()
    }

    pub(super) fn push(&mut self, action: Action) {
        self.queue.push_back(action);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.push(Action::Notify(Box::new(notice)));
    }

    /// Tells of a hold in all runs, once for all keys.
    pub(super) fn tell_hold(&mut self, now: Time, until: Time) {
        if take_news(&mut self.told_hold, now, until) {
            self.notify(Notice::SharedHold(until));
        }
    }

    /// Tells of the loss of a state, once for all keys. Nothing is released until an instant, if that is known.
    pub(super) fn tell_loss(&mut self, now: Time, what: String, until: Option<Time>) {
        if take_news(&mut self.told_loss, now, until.unwrap_or(now)) {
            self.notify(Notice::StateLost { what, silent: until.map(|until| until.since(now)) });
        }
    }

    pub(super) fn store(&mut self, orders: impl IntoIterator<Item = Order>) {
        let orders: Vec<_> = orders.into_iter().collect();
        if !orders.is_empty() {
            self.push(Action::Store(orders));
        }
    }
}

/// A message for the user.
#[derive(Debug)]
pub enum Notice {
    /// Items have failed for good.
    Failed(Failed),
    /// Failed items were to be retried, but the run is over.
    FailedSoFar(Failed),
    /// An item is skipped, as it cannot be charged: why, and the item with its delimiter.
    BadItem(Error, Vec<u8>),
    /// An item came too early, which ends the run.
    Refused {
        /// The number of the item.
        item: u64,
        /// The item itself.
        text: Vec<u8>,
        /// The limit that refused it; `None` if it is one of several shared limits.
        limit: Option<Rate>,
        /// The nanoseconds by which it came too early, if it could have gone at a later instant.
        early: Option<u64>,
    },
    /// A server has asked for a pause.
    Hold(HoldBegun),
    /// What a command passed on of a server's answer cannot be read.
    Unread {
        /// The number of its item.
        item: u64,
        /// The item itself.
        text: Vec<u8>,
        /// What cannot be read.
        said: Box<str>,
    },
    /// The command of the item with this number succeeded, so this HTTP status is not retried, though listed.
    Overlooked(u64, u16),
    /// Nothing is released before this instant: a hold that another run reported or a user set.
    SharedHold(Time),
    /// An item waited longer than it may, which ends the run.
    Expired {
        /// The number of the item.
        item: u64,
        /// The item itself.
        text: Vec<u8>,
        /// The limit that it waits for, if known.
        limit: Option<Rate>,
    },
    /// The time of the run is over and items are left.
    TimeUp,
    /// The next release would be later than the run may wait.
    TooLong {
        /// The nanoseconds until the next release, if known.
        late: Option<u64>,
        /// There was a slot that was not used in time.
        had_slot: bool,
    },
    /// The run ends, as the number of items that `--halt` names have failed, succeeded or ended.
    Halted {
        /// The number of items.
        items: u64,
        /// Which items are counted.
        on: HaltOn,
    },
    /// These limits hold from now on.
    Limits(Vec<Rate>),
    /// A warning, which does not end the run.
    Warning(String),
    /// Bookings are lost, so nothing is released for a while.
    StateLost {
        /// The state, and what happened to it.
        what: String,
        /// The nanoseconds for which nothing is released.
        silent: Option<u64>,
    },
    /// An error that ends the run.
    Error(Error),
}

impl Notice {
    /// The items that it says have failed, each with its delimiter; none, if it is about something else.
    pub fn failed(&self) -> &[u8] {
        match self {
            Notice::Failed(failed) | Notice::FailedSoFar(failed) => &failed.records,
            Notice::BadItem(_, record) => record,
            _ => &[],
        }
    }
}

/// A pause that a server has asked for.
#[derive(Debug)]
pub struct HoldBegun {
    /// The number of the item whose command heard of it.
    pub item: u64,
    /// The item itself.
    pub text: Vec<u8>,
    /// The pause that the server asked for, in nanoseconds.
    pub asked: u64,
    /// The pause that is kept, in nanoseconds.
    pub held: u64,
    /// Its end.
    pub until: Time,
    /// True if only items with the same keys are held.
    pub by_key: bool,
}

/// Items that have failed.
#[derive(Debug)]
pub struct Failed {
    /// The number of the first item.
    pub item: u64,
    /// The number of items.
    pub items: u64,
    /// The first item itself.
    pub text: Vec<u8>,
    /// All of them, each with its delimiter.
    pub records: Vec<u8>,
    /// Why.
    pub why: Failure,
}

impl Failed {
    pub(super) fn new(batch: &Batch, delimiter: &Delimiter, why: Failure) -> Self {
        let (item, items) = (batch.first(), batch.items());
        let (text, records) = (batch.first_text(delimiter), batch.complete(delimiter));
        Failed { item, items, text, records, why }
    }
}

/// Why items have failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Their command ended like this.
    Ended(End),
    /// Their command timed out.
    TimedOut,
    /// They could not be given to a command, and why.
    ArgumentError(&'static str),
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
