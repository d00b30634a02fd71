//! Limits that go by the monotonic clock.

use std::future::Future;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::item::Ask;
use super::permit::Permit;
use super::sync::{Thread, current, park, park_until};
use super::tasks::AsyncPacer;
use super::turn::Next;
use super::{Error, Item, Pace};

/// A [`Pace`] that goes by the monotonic clock. All clones share it, in any thread or task.
///
/// Those who wait go in the order in which they began to wait; only a wait for a key lets others pass who have another
/// key.
///
/// If a limit goes by the calendar or has hours, the system's wall clock is read as well: those who wait learn within a
/// second that it was set.
#[derive(Clone, Debug)]
pub struct Pacer {
    pub(super) pace: Pace,
}

impl Pacer {
    /// Limits under which nothing was released before now. `limits` has one limit per line.
    ///
    /// ```
    /// use throttle::pace::Pacer;
    ///
    /// assert!(Pacer::new("10/s\n500/h").is_ok());
    /// ```
    ///
    /// # Errors
    /// As for [`Pace::new`].
    pub fn new(limits: &str) -> Result<Self, Error> {
        Pace::new(limits, Instant::now()).map(|pace| Pacer { pace })
    }

    /// As [`Pace::item`], waiting from now on.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("100/s,cost=.pages")?;
    /// drop(pacer.wait(pacer.item(br#"{"pages": 20}"#)?)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pace::item`].
    pub fn item(&self, text: &[u8]) -> Result<Item, Error> {
        self.pace.item(text, self.pace.now())
    }

    /// As [`Pace::named`], waiting from now on.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("100/s,key=.user\n5/s,key=host")?;
    /// drop(pacer.wait(pacer.named(&[(".user", b"alice"), ("host", b"a.example")], &[])?)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pace::named`].
    pub fn named(&self, keys: &[(&str, &[u8])], costs: &[(&str, u64)]) -> Result<Item, Error> {
        self.pace.named(keys, costs, self.pace.now())
    }

    /// Admits a release now, or refuses it. Does not go before those who wait.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h")?;
    /// assert!(pacer.try_now(("", 1)).is_ok());
    /// assert!(pacer.try_now(("", 1)).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It may not be released now, or as for [`Pace::keyed`].
    pub fn try_now<'a>(&self, ask: impl Ask<'a>) -> Result<Permit<'_>, Error> {
        self.pace.admit(ask, self.pace.now()).map(Permit::new)
    }

    /// Admits and charges a release that takes no time, such as a request that is let in: cheaper than
    /// [`Pacer::try_now`].
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h,key=col:1")?;
    /// assert!(pacer.check(("alice", 1)).is_ok());
    /// assert!(pacer.check(("alice", 1)).is_err());
    /// assert!(pacer.check(("bob", 1)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pacer::try_now`].
    pub fn check<'a>(&self, ask: impl Ask<'a>) -> Result<(), Error> {
        self.pace.check(ask, self.pace.now())
    }

    /// Blocks until a release is admitted.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use std::time::{Duration, Instant};
    /// # use throttle::pace::Pacer;
    /// let (pacer, start) = (Pacer::new("2/50ms")?, Instant::now());
    /// for _ in 0..3 {
    ///     drop(pacer.wait(("", 1))?);
    /// }
    /// assert!(start.elapsed() >= Duration::from_millis(50));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It never will be, or as for [`Pace::keyed`].
    pub fn wait<'a>(&self, ask: impl Ask<'a>) -> Result<Permit<'_>, Error> {
        self.block(ask, None)
    }

    /// As [`Pacer::wait`], up to `timeout`.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use std::time::Duration;
    /// # use throttle::pace::{ErrorKind, Pacer};
    /// let pacer = Pacer::new("1/h")?;
    /// drop(pacer.wait(("", 1))?);
    /// let error = pacer.wait_timeout(("", 1), Duration::from_secs(9)).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::TimedOut);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pacer::wait`], or it is not admitted in time. If that is known before, it does not wait.
    pub fn wait_timeout<'a>(&self, ask: impl Ask<'a>, timeout: Duration) -> Result<Permit<'_>, Error> {
        self.block(ask, Instant::now().checked_add(timeout))
    }

    /// As [`Pacer::wait`], up to `deadline`.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use std::time::Instant;
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h")?;
    /// assert!(pacer.wait_deadline(("", 1), Instant::now()).is_ok());
    /// assert!(pacer.wait_deadline(("", 1), Instant::now()).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pacer::wait_timeout`].
    pub fn wait_deadline<'a>(&self, ask: impl Ask<'a>, deadline: Instant) -> Result<Permit<'_>, Error> {
        self.block(ask, Some(deadline))
    }

    fn block<'a>(&self, ask: impl Ask<'a>, deadline: Option<Instant>) -> Result<Permit<'_>, Error> {
        let turn = match self.pace.admit_or_wait(ask, self.pace.now())? {
            Ok(admission) => return Ok(Permit::new(admission)),
            Err(turn) => turn,
        };
        let waker = Waker::from(Arc::new(Unpark(current())));
        loop {
            match turn.ask(self.pace.now(), &waker, deadline)? {
                Next::Take(admission) => return Ok(Permit::new(admission)),
                Next::Sleep(Some(until)) => park_until(until),
                Next::Sleep(None) => park(),
            }
        }
    }

    /// The same limits for tasks, which wait through `sleep`: a function that returns a future which is ready once a
    /// duration is over.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("10/s")?;
    /// let pacer = pacer.sleeping(tokio::time::sleep);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # runtime.block_on(async {
    /// let permit = pacer.ready(("", 1)).await?;
    /// // The request is made here.
    /// drop(permit);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// With async-std: `pacer.sleeping(async_std::task::sleep)`. With smol: `pacer.sleeping(smol::Timer::after)`, which
    /// is the timer of `async-io`:
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("10/s")?.sleeping(async_io::Timer::after);
    /// drop(async_io::block_on(pacer.ready(("", 1)))?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleeping<S, F>(&self, sleep: S) -> AsyncPacer<S>
    where
        S: Fn(Duration) -> F,
        F: Future,
    {
        AsyncPacer { pacer: self.clone(), sleep }
    }

    /// As [`Pace::pause_until`].
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use std::time::{Duration, Instant};
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("10/s")?;
    /// // The server said: Retry-After: 30
    /// pacer.pause_until(Instant::now() + Duration::from_secs(30));
    /// assert!(pacer.try_now(("", 1)).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_until(&self, until: Instant) {
        self.pace.pause_until(until);
    }

    /// The number of releases like this that the limits allow now, one after the other. Those who wait go first.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("10/h")?;
    /// drop(pacer.wait(("", 4))?);
    /// assert_eq!(pacer.left(("", 1))?, 6);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pace::keyed`].
    pub fn left<'a>(&self, ask: impl Ask<'a>) -> Result<u64, Error> {
        self.pace.left(ask, self.pace.now())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
