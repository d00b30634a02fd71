//! The real world: a monotonic clock, input, a channel of events, and blocking sleep.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::booking::BookingThread;
use super::clock::Clock;
use super::input::InputFile;
use super::limits::LimitsFiles;
use super::listener::Listener;
use super::reaper::Reaper;
use super::waker::Events;
use super::world::{Event, Wait, Wake, World};
use super::{limits, precise, readable, signals, stdout_reader};
use crate::config::Rate;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::source::Reader;
use crate::store::{Order, Store};
use crate::time::{SECOND, Time, Wall, shown};

pub(crate) struct RealWorld {
    clock: Clock,
    wall: Wall,
    listener: Listener,
    /// Waits for commands to end, if any are run.
    reaper: Option<Reaper>,
    /// True if the end of the reader of stdout is reported.
    watches_reader: bool,
    /// Books slots, if limits are shared.
    booking: Option<BookingThread>,
    /// The start of the present wait, and the instant at which the one before it should have ended.
    began: Time,
    previous: Option<Time>,
    /// Up to when it was told how late being stopped made us.
    told_late: Time,
}

impl RealWorld {
    /// Starts to listen to signals, unless the input is empty and has ended: such a run is over at once.
    ///
    /// # Errors
    /// A thread cannot be started, or a signal handler cannot be set.
    pub(crate) fn start(mut reader: Reader<InputFile>, clock: Clock) -> Result<Self> {
        let events = Events::for_this_thread();
        // A file is not read ahead yet: a signal that comes before there is a listener must find it unread.
        let is_readable =
            |input: &InputFile| readable::wait(Some(input.as_fd()), &[], Some(Duration::ZERO)).0;
        let is_over = !reader.input().has_rest() && is_readable(reader.input()) && reader.is_empty()?;
        if !is_over {
            signals::listen(&events.waker)?;
        }
        let shown = shown();
        Ok(RealWorld {
            clock,
            wall: Wall::new(clock.now(), shown),
            listener: Listener::new(clock, reader, events),
            reaper: None,
            watches_reader: false,
            booking: None,
            began: Time::ZERO,
            previous: None,
            told_late: Time::ZERO,
        })
    }

    /// Reports from now on if the reader of stdout goes away.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn watch_reader(&mut self) -> Result<()> {
        if !self.is_over() {
            self.watches_reader = stdout_reader::watch(&self.listener.events.waker)?;
        }
        Ok(())
    }

    /// True if the input was empty from the start.
    fn is_over(&self) -> bool {
        self.listener.reader.is_over()
    }

    /// The interrupt of this thread, raised when the run is to stop.
    pub(crate) fn interrupt(&self) -> Arc<Interrupt> {
        Arc::clone(&self.listener.events.waker.interrupt)
    }

    /// Once a second, has a write that waits for its reader do what is due.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn attend_while_writing(&self) -> Result<()> {
        if self.is_over() {
            return Ok(());
        }
        let interrupt = self.interrupt();
        super::spawn("attention", move || {
            loop {
                thread::sleep(Duration::from_secs(1));
                interrupt.ask();
            }
        })
    }

    /// Reports the ends of commands from now on.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn watch_commands(&mut self) -> Result<()> {
        if !self.is_over() {
            self.reaper = Some(Reaper::start(self.listener.events.waker.clone())?);
        }
        Ok(())
    }

    /// Reports changes to `files`, whose limits are `rates` now.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn watch_limits(&self, files: LimitsFiles, rates: &[Rate]) -> Result<()> {
        limits::watch(files, rates.to_vec(), self.listener.events.waker.clone())
    }

    /// Books slots from `store` from now on. The end of the run waits for what the store was asked: up to `patience`,
    /// or a second if other runs need its reports.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn book_with(&mut self, store: Box<dyn Store>, patience: Duration) -> Result<()> {
        if !self.is_over() {
            self.booking = Some(BookingThread::open(store, self.listener.events.waker.clone(), patience)?);
        }
        Ok(())
    }

    /// The nanoseconds by which being stopped (SIGSTOP) made us late, told once. We may hear of its end only in the
    /// wait after the one that it prolonged.
    fn late(&mut self, due: Option<Time>) -> u64 {
        let untold = |from: Time, to: Time| to.since(from.max(self.told_late));
        let now = self.now();
        let late = due.map_or(0, |due| untold(due.max(self.began), now))
            + self.previous.map_or(0, |previous| untold(previous, self.began));
        self.told_late = now;
        late
    }

    /// Notes an event that is passed on, and fills in how late it makes what was `due`.
    fn told(&mut self, event: Event, due: Option<Time>) -> Event {
        match event {
            Event::Continued { .. } => return Event::Continued { late: self.late(due) },
            Event::Stop(exit) if exit != Exit::READER_GONE => self.interrupt().acknowledge(),
            Event::Exited => self.reaper.iter_mut().for_each(Reaper::has_told),
            _ => {}
        }
        event
    }

    fn wait_for_anything(&mut self, Wait { until, accepting, outputs, .. }: Wait) -> Wake {
        let began = self.now();
        self.began = began;
        // No output of commands is passed on until it is known why the run is to stop.
        let outputs = if self.is_interrupted() { &[] } else { outputs };
        let heard = self.listener.listen(until.map(precise::last_stretch), accepting, outputs);
        heard.unwrap_or_else(|| {
            let has_slots = self.booking.is_some();
            let is_due = until.is_none_or(|until| precise::sleep(self.clock, began, until, has_slots));
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
        // Paired with `after`, it is never taken to be ahead of what it shows.
        self.wall.follow(after, shown, after.since(before));
        self.wall
    }

    fn wait(&mut self, wait: Wait) -> Wake {
        let Wait { until, due, accepting, running, by_wall, outputs } = wait;
        if by_wall {
            let look = self.clock.now().checked_add(SECOND.into());
            if until > look {
                let wake = self.wait(Wait { until: look, by_wall: false, ..wait });
                return if let Wake::Due = wake { Wake::Soon } else { wake };
            }
        }
        let wake = match self.reaper.as_mut().filter(|_| running) {
            Some(_) if until.is_none() && !accepting && outputs.is_empty() => {
                self.listener.wait_for_a_command()
            }
            Some(reaper) => {
                // If the wait is already due, the end of a command may be reported later.
                if until.is_none_or(|until| until > self.clock.now()) {
                    reaper.listen();
                }
                self.wait_for_anything(wait)
            }
            None => self.wait_for_anything(wait),
        };
        let wake = match wake {
            Wake::Event(event) => Wake::Event(self.told(event, due)),
            wake => wake,
        };
        // What was overdue before this wait began counts for the wait before.
        self.previous = due.map(|due| due.max(self.began));
        wake
    }

    fn happened(&mut self) -> Option<Event> {
        let events = &self.listener.events;
        let event = if self.is_interrupted() { events.wait() } else { events.next() };
        event.map(|event| self.told(event, self.previous))
    }

    fn is_interrupted(&self) -> bool {
        self.listener.events.waker.interrupt.is_unacknowledged()
    }

    fn takes_report(&mut self) -> bool {
        self.listener.events.waker.interrupt.answer()
    }

    fn has_lost_reader(&self) -> bool {
        self.watches_reader && stdout_reader::is_gone(Some(Duration::ZERO))
    }

    fn has_begun_item(&self) -> bool {
        self.listener.has_begun_item()
    }

    fn give_store(&mut self, orders: Vec<Order>) {
        if let Some(booking) = &self.booking {
            booking.take(orders);
        }
    }
}
