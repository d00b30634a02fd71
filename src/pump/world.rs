//! What the pump asks of the world around it, and hears from it.

use anyhow::Error;
use nix::sys::signal::Signal;

use crate::config::Rate;
use crate::source::{Block, SourceError};
use crate::store::{Answer, Order, StoreError};
use crate::time::Time;

/// Where the pump lives: it tells the time and what happens.
pub trait World {
    /// The present instant. Never decreases.
    fn now(&self) -> Time;

    /// Waits for whatever comes first: `until`, input if it is `accepting` any, or something else to hear of.
    ///
    /// What has already happened is told before [`Wake::Due`]; so, what has arrived by an instant is in the
    /// lane before a release at that instant is chosen. With no `until` it waits as long as it takes.
    fn wait(&mut self, until: Option<Time>, accepting: bool) -> Wake;

    /// How many items have been read, whether or not they were accepted yet.
    fn items_read(&self) -> u64;

    /// Has slots booked. The answer is told as [`Wake::Booked`]; a world without a store has none.
    fn book(&mut self, _order: Order) {}
}

/// Why a wait is over.
#[derive(Debug)]
pub enum Wake {
    /// The instant has come.
    Due,
    /// The instant is so near that nothing else will be waited for.
    Soon,
    /// Items have arrived.
    Input(Block),
    /// The limits have changed to these.
    Limits(Vec<Rate>),
    /// They have changed to something that makes no sense.
    BadLimits(Error),
    /// There will be no more, and why, if not for the end of the input.
    End(Option<SourceError>),
    /// Slots have been booked as ordered, or cannot be.
    Booked(Order, Result<Answer, StoreError>),
    /// A command has ended.
    Exited,
    /// The run is to end.
    Stop(Stop),
    /// Statistics are asked for.
    Report,
}

/// Why a run ends before its input does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A signal that asks for it.
    Signal(Signal),
    /// Nobody reads what is written.
    ReaderGone,
}
