//! The real world: a monotonic clock, channels that tell what happens, and blocking sleep.

mod clock;
mod input;
mod limits;
mod notices;
mod outlet;
mod precise;
mod reaper;
mod signals;
mod store;
mod teller;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{never, select};

pub use self::clock::Clock;
use self::input::Feed;
pub use self::input::{Input, Position};
use self::reaper::Reaper;
pub use self::reaper::Running;
use self::store::Desk;
use self::teller::{Hearer, Teller};

use crate::interrupt::Interrupt;
use crate::pump::{Wake, World};
use crate::source::{Reader, SourceError};
use crate::spec::{Limits, Rate};
use crate::store::{Order, Store};
use crate::time::Time;

/// The real world.
pub struct Real {
    clock: Clock,
    feed: Feed,
    /// The input has not ended.
    is_fed: bool,
    hearer: Hearer,
    teller: Teller,
    interrupt: Arc<Interrupt>,
    /// What waits for commands, if any are run.
    reaper: Option<Reaper>,
    /// Where slots are booked, if limits are shared.
    desk: Option<Desk>,
}

impl Real {
    /// Goes by `clock`. Listens to signals and for the end of stdout's reader, and starts reading; but if there is nothing to read, as
    /// it is told at once, none of that is worth its while.
    ///
    /// # Errors
    /// A thread cannot be started, or a signal handler cannot be set.
    pub fn start(mut reader: Reader<Input>, clock: Clock) -> anyhow::Result<Self> {
        let interrupt = Arc::new(Interrupt::for_this_thread());
        let (teller, hearer) = teller::pair(Arc::clone(&interrupt));
        let feed = if reader.input().is_ready() && reader.is_empty()? {
            Feed::over()
        } else {
            signals::listen(&teller)?;
            outlet::watch(&teller)?;
            Feed::start(reader, clock)?
        };
        Ok(Real { clock, feed, is_fed: true, hearer, teller, interrupt, reaper: None, desk: None })
    }

    /// Waits as precisely as the system can. Commands would inherit some of that, so it is for runs without.
    pub fn sharpen(&self) {
        precise::sharpen();
    }

    /// What it goes by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Raised when the run is to stop.
    pub fn interrupt(&self) -> Arc<Interrupt> {
        Arc::clone(&self.interrupt)
    }

    /// As long as what this returns is set, the ends of commands will be told.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn watch_commands(&mut self) -> anyhow::Result<Running> {
        if self.feed.is_over() {
            return Ok(Running::default());
        }
        let (reaper, running) = Reaper::start(self.teller.clone())?;
        self.reaper = Some(reaper);
        Ok(running)
    }

    /// Tells of changes to the files among `limits`, which are `rates` now.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn watch_limits(&self, limits: &Limits, rates: &[Rate]) -> anyhow::Result<()> {
        Ok(limits::watch(limits.clone(), rates.to_vec(), self.teller.clone())?)
    }

    /// Books slots with `store` from now on.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn book_with(&mut self, store: Box<dyn Store>) -> anyhow::Result<()> {
        if !self.feed.is_over() {
            self.desk = Some(Desk::open(store, self.teller.clone())?);
        }
        Ok(())
    }

    /// Ends reading, and returns only when nothing more is read.
    pub fn stop_reading(self) {
        self.feed.stop();
    }

    /// Waits up to `timeout` for something to happen.
    fn listen(&mut self, timeout: Duration, accepting: bool) -> Option<Wake> {
        let events = self.hearer.events();
        if let Ok(event) = events.try_recv() {
            return Some(event);
        }
        let nothing = never();
        let blocks = if accepting && self.is_fed { self.feed.blocks() } else { &nothing };
        select! {
            recv(events) -> event => event.ok(),
            recv(blocks) -> block => Some(match block {
                Ok(Ok(block)) => Wake::Input(block),
                Ok(Err(error)) => self.end(Some(error)),
                Err(_) => self.end(None),
            }),
            default(timeout) => None,
        }
    }

    fn end(&mut self, error: Option<SourceError>) -> Wake {
        self.is_fed = false;
        Wake::End(error)
    }

    /// Waits for a command or another event, and for nothing else: the shortest way from one command to the next.
    fn wait_for_a_command(&mut self) -> Wake {
        loop {
            if let Ok(event) = self.hearer.events().try_recv() {
                return event;
            }
            let mut has_ended = false;
            self.hearer.deafly(|| has_ended = Reaper::wait());
            if has_ended {
                return Wake::Exited;
            }
        }
    }

    fn wait_for_anything(&mut self, until: Option<Time>, accepting: bool) -> Wake {
        let now = self.now();
        let left = until.map_or(Duration::MAX, |until| Duration::from_nanos(until.since(now)));
        let heard = self.listen(left.saturating_sub(precise::LAST_STRETCH), accepting);
        heard.unwrap_or_else(|| {
            until.into_iter().for_each(|until| precise::sleep(self.clock, now, until));
            Wake::Due
        })
    }
}

impl World for Real {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wait(&mut self, until: Option<Time>, accepting: bool) -> Wake {
        let wake = match self.reaper.as_mut().filter(|reaper| reaper.is_needed()) {
            Some(_) if until.is_none() && !accepting => self.wait_for_a_command(),
            Some(reaper) => {
                reaper.listen();
                self.wait_for_anything(until, accepting)
            }
            None => self.wait_for_anything(until, accepting),
        };
        match wake {
            Wake::Stop(_) => self.interrupt.hear(),
            Wake::Exited => self.reaper.iter_mut().for_each(Reaper::has_told),
            _ => {}
        }
        wake
    }

    fn items_read(&self) -> u64 {
        self.feed.items_read()
    }

    fn book(&mut self, order: Order) {
        if let Some(desk) = &self.desk {
            desk.take(order);
        }
    }
}

/// Starts a thread that runs until the process ends.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<thread::JoinHandle<()>> {
    spawn_with(64 << 10, name, run)
}

/// As [`spawn`], with so many bytes of stack.
fn spawn_with(
    stack: usize,
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(stack).spawn(run)
}
