//! The world around the driver: what it is asked, and what it tells.

use std::os::fd::BorrowedFd;

use anyhow::Error;

use crate::config::Rate;
use crate::gate::{Answer, Order, Slot};
use crate::schedule::Stop;
use crate::source::{Segment, SourceError};
use crate::store::StoreError;
use crate::time::{Time, Wall};

/// Tells a run the time and what happens.
pub trait World {
    /// The present instant. Never decreases.
    fn now(&self) -> Time;

    /// The clock on the wall, as it is set now.
    fn wall(&mut self) -> Wall;

    /// Waits for whatever comes first: an instant, input, the end of a command, or something else to hear of.
    ///
    /// What has already happened is told before [`Wake::Due`]; so, what has arrived by an instant is in its lane before
    /// a release at that instant is chosen.
    fn wait(&mut self, wait: Wait) -> Wake;

    /// An event that has happened already, before anything is decided of the last one. So, many answers of a store are
    /// one matter.
    fn happened(&mut self) -> Option<Event> {
        None
    }

    /// A signal has come that asks to stop, and was not told yet.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Has the store do a task, after all that it was given before. A world without a store has none done.
    fn give_store(&mut self, _task: Task) {}
}

/// Tasks for a store.
#[derive(Debug)]
pub enum Task {
    /// To book slots. The answer is told as [`Event::Booked`].
    Book(Box<Order>),
    /// To take back slots that were booked by such an order.
    GiveBack(Box<Order>, Vec<Slot>),
}

/// Conditions under which [`World::wait`] returns.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// An instant; without it, the wait is as long as it takes.
    pub until: Option<Time>,
    /// Input is accepted.
    pub accepting: bool,
    /// Commands are running.
    pub running: bool,
    /// If the clock on the wall is set, that is to be noticed soon.
    pub by_wall: bool,
    /// Pipes that commands print to.
    pub outputs: &'a [BorrowedFd<'a>],
}

/// Reasons for which a wait is over.
#[derive(Debug)]
pub enum Wake {
    /// The instant has come.
    Due,
    /// The instant is so near that nothing else will be waited for.
    Soon,
    /// Items have arrived.
    Input(Segment),
    /// A command has printed something.
    Output,
    /// No more will arrive; with an error, if not for the end of the input.
    End(Option<SourceError>),
    /// Something else has happened.
    Event(Event),
    /// Nothing will ever happen.
    Stalled,
}

/// Events that other threads tell of.
#[derive(Debug)]
pub enum Event {
    /// The limits have changed, or to something that makes no sense.
    Limits(Result<Vec<Rate>, Error>),
    /// Slots have been booked as ordered, or cannot be.
    Booked(Box<Order>, Result<Answer, StoreError>),
    /// Slots are long in coming; why, in words.
    BookingWaits(String),
    /// A command has ended.
    Exited,
    /// The run is to end.
    Stop(Stop),
    /// Statistics are asked for.
    Report,
    /// The process goes on after it was stopped.
    Continued {
        /// Nanoseconds by which that made it late for what it was waiting for.
        late: u64,
    },
}
