//! The world around the driver: what it is asked, and what it reports.

use std::os::fd::BorrowedFd;

use anyhow::Error;

use crate::config::Rate;
use crate::exit::Exit;
use crate::gate::{Answer, Order};
use crate::source::Segment;
use crate::store::StoreError;
use crate::time::{Time, Wall};

/// Tells a run the time and what happens.
pub trait World {
    /// The current instant. Never decreases.
    fn now(&self) -> Time;

    /// The wall clock, as it is set now.
    fn wall(&mut self) -> Wall;

    /// Waits for whatever comes first: an instant, input, the end of a command, or another event.
    ///
    /// What has already happened is reported before [`Wake::Due`], so an item that has arrived by an instant is in its
    /// lane before a release at that instant is chosen.
    fn wait(&mut self, wait: Wait) -> Wake;

    /// An event that has already happened. The driver takes these before it decides anything, so many answers of a
    /// store are handled as one. While a signal [has come](World::is_interrupted), waits for the next event.
    fn happened(&mut self) -> Option<Event> {
        None
    }

    /// True if a signal that asks to stop has come, but was not reported yet.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// The stop that has come since events were last looked at. If one has interrupted a write, its event is waited
    /// for.
    fn last_stop(&mut self) -> Option<Exit> {
        loop {
            match self.happened() {
                Some(Event::Stop(exit)) => return Some(exit),
                None if !self.is_interrupted() => return None,
                _ => {}
            }
        }
    }

    /// Takes the request for statistics. False if there is none any more: they were printed in the midst of a write.
    fn takes_report(&mut self) -> bool {
        true
    }

    /// True if the reader of standard output is gone, whether or not that was reported.
    fn has_lost_reader(&self) -> bool {
        false
    }

    /// True if only a part of an item was read so far.
    fn has_begun_item(&self) -> bool {
        false
    }

    /// Has the store do a task, after all that it was given before. A world without a store does none.
    fn give_store(&mut self, _orders: Vec<Order>) {}
}

/// Conditions under which [`World::wait`] returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait<'a> {
    /// An instant; `None` for a wait of any length.
    pub until: Option<Time>,
    /// The instant from which a stopped process (SIGSTOP) is late: not that of a report, for which `until` may be.
    pub due: Option<Time>,
    /// True if input is accepted.
    pub accepting: bool,
    /// True if commands are running.
    pub running: bool,
    /// True if changes to the wall clock must be noticed soon.
    pub by_wall: bool,
    /// Pipes that commands print to.
    pub outputs: &'a [BorrowedFd<'a>],
}

/// Why a wait is over.
#[derive(Debug)]
pub enum Wake {
    /// The instant has come.
    Due,
    /// The instant is too near to wait for anything else, or it is time to read the wall clock again.
    Soon,
    /// Items have arrived.
    Input(Segment),
    /// A command has printed something.
    Output,
    /// No more will arrive: the input has ended, or failed with an error.
    End(Option<Error>),
    /// Something else has happened.
    Event(Event),
    /// Nothing will ever happen.
    Stalled,
}

/// Events that other threads report.
#[derive(Debug)]
pub enum Event {
    /// The limits have changed; an error if the new ones cannot be read or make no sense.
    Limits(Result<Vec<Rate>, Error>),
    /// Slots have been booked as ordered, or as near to it as possible.
    Booked(Vec<(Order, Answer)>),
    /// No order will be answered any more.
    BookingFailed(StoreError),
    /// Slots take long to come; says why, in words.
    BookingWaits(String),
    /// A command has ended.
    Exited,
    /// The run is to end like this: a signal has come, or nobody reads the output.
    Stop(Exit),
    /// Statistics are requested, see [`World::takes_report`].
    Report,
    /// The process continues after it was stopped.
    Continued {
        /// The nanoseconds by which that made it late for the instant that it was waiting for.
        late: u64,
    },
}
