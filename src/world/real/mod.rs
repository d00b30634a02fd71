//! The real world: a monotonic clock, channels that tell what happens, and blocking sleep.

mod input;
mod limits;
mod notices;
mod outlet;
mod reaper;
mod signals;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, never, select, unbounded};

use self::input::Feed;
pub use self::input::{Input, Position};

use crate::interrupt::Interrupt;
use crate::pump::{Wake, World};
use crate::source::{Reader, SourceError};
use crate::spec::{Limits, Rate};
use crate::time::Time;

/// The last stretch of a wait, which is slept through without listening: waking from a channel is less exact.
const LAST_STRETCH: Duration = Duration::from_micros(500);

/// The monotonic clock, counted from when it was made.
///
/// It does not count the time that the machine is suspended, so a suspend can only make us later.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that shows 0 now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// The present instant.
    pub fn now(self) -> Time {
        Time(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The real world.
pub struct Real {
    clock: Clock,
    feed: Feed,
    /// The input has not ended.
    is_fed: bool,
    events: Receiver<Wake>,
    tell: Sender<Wake>,
    interrupt: Arc<Interrupt>,
}

impl Real {
    /// Listens to signals and for the end of stdout's reader, and starts reading.
    ///
    /// # Errors
    /// A thread cannot be started, or a signal handler cannot be set.
    pub fn start(reader: Reader<Input>) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let (tell, events) = unbounded();
        let interrupt = Arc::new(Interrupt::for_this_thread());
        // First of all: the threads started after it inherit the mask of signals.
        signals::listen(&tell, &interrupt)?;
        outlet::watch(&tell)?;
        let feed = Feed::start(reader, clock)?;
        Ok(Real { clock, feed, is_fed: true, events, tell, interrupt })
    }

    /// Raised when the run is to stop.
    pub fn interrupt(&self) -> Arc<Interrupt> {
        Arc::clone(&self.interrupt)
    }

    /// For each message sent to what this returns, the end of one command will be told.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn watch_commands(&self) -> anyhow::Result<Sender<()>> {
        Ok(reaper::start(self.tell.clone())?)
    }

    /// Tells of changes to the files among `limits`, which are `rates` now.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn watch_limits(&self, limits: &Limits, rates: &[Rate]) -> anyhow::Result<()> {
        Ok(limits::watch(limits.clone(), rates.to_vec(), self.tell.clone())?)
    }

    /// Ends reading, and returns only when nothing more is read.
    pub fn stop_reading(self) {
        self.feed.stop();
    }

    /// Waits up to `timeout` for something to happen.
    fn listen(&mut self, timeout: Duration, accepting: bool) -> Option<Wake> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        let nothing = never();
        let blocks = if accepting && self.is_fed { self.feed.blocks() } else { &nothing };
        select! {
            recv(self.events) -> event => event.ok(),
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
}

impl World for Real {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wait(&mut self, until: Option<Time>, accepting: bool) -> Wake {
        let left = |now: Time| until.map_or(Duration::MAX, |until| Duration::from_nanos(until.since(now)));
        let heard = self.listen(left(self.now()).saturating_sub(LAST_STRETCH), accepting);
        if let Some(Wake::Stop(_)) = heard {
            self.interrupt.hear();
        }
        heard.unwrap_or_else(|| {
            loop {
                match left(self.now()) {
                    Duration::ZERO => return Wake::Due,
                    left => thread::sleep(left),
                }
            }
        })
    }

    fn items_read(&self) -> u64 {
        self.feed.items_read()
    }
}

/// Starts a thread that runs until the process ends.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(64 << 10).spawn(run)
}
