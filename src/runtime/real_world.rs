//! The real world: a monotonic clock, input, a channel that tells what else happens, and blocking sleep.

use std::sync::Arc;
use std::time::Duration;

use super::booking::BookingThread;
use super::clock::Clock;
use super::input::Input;
use super::limits::LimitsFiles;
use super::listener::Listener;
use super::reaper::Reaper;
use super::waker::Events;
use super::world::{Event, Task, Wait, Wake, World};
use super::{limits, precise, signals, stdout_reader};
use crate::config::Rate;
use crate::interrupt::Interrupt;
use crate::schedule::Stop;
use crate::source::Reader;
use crate::store::Store;
use crate::time::{SECOND, Time, Wall, shown};

pub(crate) struct RealWorld {
    clock: Clock,
    wall: Wall,
    listener: Listener,
    /// Waits for commands, if any are run.
    reaper: Option<Reaper>,
    /// Books slots, if limits are shared.
    booking: Option<BookingThread>,
    /// The instant at which the present wait began, and that at which the one before it should have ended.
    began: Time,
    previous: Option<Time>,
}

impl RealWorld {
    /// Goes by `clock`. Listens to signals, unless the input is empty and has ended: such a run is over at once.
    ///
    /// # Errors
    /// A thread cannot be started, or a signal handler cannot be set.
    pub(crate) fn start(mut reader: Reader<Input>, clock: Clock) -> anyhow::Result<Self> {
        let events = Events::for_this_thread();
        // A signal that comes before it is listened to must not find a file read ahead.
        let is_over =
            !reader.input().has_rest() && reader.input().wait(Some(Duration::ZERO)) && reader.is_empty()?;
        if !is_over {
            signals::listen(&events.waker)?;
        }
        let shown = shown();
        Ok(RealWorld {
            clock,
            wall: Wall::new(clock.now(), shown),
            listener: Listener::new(clock, reader, events),
            reaper: None,
            booking: None,
            began: Time::ZERO,
            previous: None,
        })
    }

    /// Tells if the reader of stdout goes away.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn watch_reader(&self) -> anyhow::Result<()> {
        if !self.is_over() {
            stdout_reader::watch(&self.listener.events.waker)?;
        }
        Ok(())
    }

    /// The input was empty from the start.
    pub(crate) fn is_over(&self) -> bool {
        self.listener.reader.is_over()
    }

    /// Raised when the run is to stop.
    pub(crate) fn interrupt(&self) -> Arc<Interrupt> {
        Arc::clone(&self.listener.events.waker.interrupt)
    }

    /// Tells of the ends of commands from now on.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn watch_commands(&mut self) -> anyhow::Result<()> {
        if !self.is_over() {
            self.reaper = Some(Reaper::start(self.listener.events.waker.clone())?);
        }
        Ok(())
    }

    /// Tells of changes to `files` of limits, which are `rates` now.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn watch_limits(&self, files: LimitsFiles, rates: &[Rate]) -> anyhow::Result<()> {
        Ok(limits::watch(files, rates.to_vec(), self.listener.events.waker.clone())?)
    }

    /// Books slots with `store` from now on. At the end, what it was asked is waited for, but no longer than
    /// `patience`, or a second if others have to hear of something.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn book_with(&mut self, store: Box<dyn Store>, patience: Duration) -> anyhow::Result<()> {
        if !self.is_over() {
            self.booking = Some(BookingThread::open(store, self.listener.events.waker.clone(), patience)?);
        }
        Ok(())
    }

    /// The stop that has come since the last look at events. One that has interrupted a write is about to be told.
    pub(crate) fn last_stop(&mut self) -> Option<Stop> {
        loop {
            match self.happened() {
                Some(Event::Stop(stop)) => return Some(stop),
                None if !self.is_interrupted() => return None,
                _ => {}
            }
        }
    }

    /// Nanoseconds by which a stop made us late. Its end may be heard of only in the wait after the one that it
    /// prolonged.
    fn late(&self, until: Option<Time>) -> u64 {
        let now = until.map_or(0, |until| self.now().since(until.max(self.began)));
        now + self.previous.map_or(0, |previous| self.began.since(previous))
    }

    /// An event as it is told to whom has waited until an instant.
    fn told(&mut self, event: Event, until: Option<Time>) -> Event {
        match event {
            Event::Continued { .. } => return Event::Continued { late: self.late(until) },
            Event::Stop(Stop::Signal(_)) => self.interrupt().hear(),
            Event::Exited => self.reaper.iter_mut().for_each(Reaper::has_told),
            _ => {}
        }
        event
    }

    fn wait_for_anything(&mut self, Wait { until, accepting, outputs, .. }: Wait) -> Wake {
        let began = self.now();
        self.began = began;
        // Nothing is printed before it is told why the run is to stop.
        let outputs = if self.is_interrupted() { &[] } else { outputs };
        let heard = self.listener.listen(until.map(precise::last_stretch), accepting, outputs);
        heard.unwrap_or_else(|| {
            let is_due = until.is_none_or(|until| precise::sleep(self.clock, began, until));
            if is_due { Wake::Due } else { Wake::Soon }
        })
    }
}

impl World for RealWorld {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wall(&mut self) -> Wall {
        let before = self.clock.now();
        let shown = shown();
        let after = self.clock.now();
        // Read like this, it is not believed to be ahead of what it shows.
        self.wall.follow(after, shown, after.since(before));
        self.wall
    }

    fn wait(&mut self, wait: Wait) -> Wake {
        let Wait { until, accepting, running, by_wall, outputs } = wait;
        let look = self.clock.now().checked_add(SECOND.into());
        if by_wall && until > look {
            let wake = self.wait(Wait { until: look, by_wall: false, ..wait });
            return if let Wake::Due = wake { Wake::Soon } else { wake };
        }
        let wake = match self.reaper.as_mut().filter(|_| running) {
            Some(_) if until.is_none() && !accepting && outputs.is_empty() => {
                self.listener.wait_for_a_command()
            }
            Some(reaper) => {
                // If there is nothing to wait for, the end of a command may as well be told later.
                if until.is_none_or(|until| until > self.clock.now()) {
                    reaper.listen();
                }
                self.wait_for_anything(wait)
            }
            None => self.wait_for_anything(wait),
        };
        let wake = match wake {
            Wake::Event(event) => Wake::Event(self.told(event, until)),
            wake => wake,
        };
        // What was overdue already when this wait began is counted by the one before.
        self.previous = until.map(|until| until.max(self.began));
        wake
    }

    fn happened(&mut self) -> Option<Event> {
        let event = self.listener.events.next()?;
        Some(self.told(event, self.previous))
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt().is_unheard()
    }

    fn give_store(&mut self, task: Task) {
        if let Some(booking) = &self.booking {
            booking.take(task);
        }
    }
}
