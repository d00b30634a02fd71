//! Hears of what ends a run before its input does, where no schedule decides what to do.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::input::Input;
use super::waker::{Events, pair};
use super::world::Event;
use super::{signals, stdout_reader};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::schedule::Stop;

/// Hears of signals, and of the end of stdout's reader.
pub(crate) struct Listener {
    events: Events,
    interrupt: Arc<Interrupt>,
    stop: Option<Stop>,
}

impl Listener {
    /// Listens for the calling thread; `watches_stdout` if anything is written to it.
    ///
    /// # Errors
    /// A thread cannot be started, or a signal handler cannot be set.
    pub(crate) fn start(watches_stdout: bool) -> Result<Self> {
        let interrupt = Arc::new(Interrupt::for_this_thread());
        let (waker, events) = pair(Arc::clone(&interrupt));
        signals::listen(&waker)?;
        if watches_stdout {
            stdout_reader::watch(&waker)?;
        }
        Ok(Listener { events, interrupt, stop: None })
    }

    /// Raised when the run is to stop.
    pub(crate) fn interrupt(&self) -> Arc<Interrupt> {
        Arc::clone(&self.interrupt)
    }

    /// Waits until there is something to read, or the run is to stop, or for as long as `timeout`. Returns whether it
    /// was the first.
    pub(super) fn wait(&self, input: &Input, timeout: Option<Duration>) -> bool {
        let mut is_readable = false;
        self.events.interruptible(|| is_readable = input.wait(timeout));
        is_readable
    }

    /// The exit of a run that is to stop.
    ///
    /// # Errors
    /// Nobody reads what is written.
    pub(super) fn stopped(&mut self) -> io::Result<Option<Exit>> {
        while let Some(event) = self.events.next() {
            if let Event::Stop(stop) = event {
                self.interrupt.hear();
                self.stop.get_or_insert(stop);
            }
        }
        match self.stop {
            None => Ok(None),
            Some(Stop::Signal(signal)) => Ok(Some(Exit::Signal(signal))),
            Some(Stop::ReaderGone) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
