//! Limits that go by the monotonic clock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::clockless::Admission;
use super::item::Ask;
use super::turn::{Answer, Turn};
use super::{Error, ErrorKind, Item, Pace, Refusal};

/// A [`Pace`] that goes by the monotonic clock. All clones share it, in any thread or task.
///
/// Those who wait go in the order in which they began to wait; only a wait for a key lets others pass who have another
/// key.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
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
        self.pace.item(text, Instant::now())
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
        self.pace.named(keys, costs, Instant::now())
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
    pub fn try_now<'a>(&self, ask: impl Ask<'a>) -> Result<Permit, Error> {
        self.pace.admit(ask, Instant::now()).map(Permit::new)
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
    pub fn wait<'a>(&self, ask: impl Ask<'a>) -> Result<Permit, Error> {
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
    pub fn wait_timeout<'a>(&self, ask: impl Ask<'a>, timeout: Duration) -> Result<Permit, Error> {
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
    pub fn wait_deadline<'a>(&self, ask: impl Ask<'a>, deadline: Instant) -> Result<Permit, Error> {
        self.block(ask, Some(deadline))
    }

    fn block<'a>(&self, ask: impl Ask<'a>, deadline: Option<Instant>) -> Result<Permit, Error> {
        let mut turn = match self.begin(ask)? {
            Begun::Admitted(permit) => return Ok(permit),
            Begun::Waits(turn) => turn,
        };
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match answered(turn.ask(Instant::now(), &waker), deadline)? {
                Next::Admitted(permit) => return Ok(permit),
                Next::Sleep(Some(until)) => {
                    thread::park_timeout(until.saturating_duration_since(Instant::now()));
                }
                Next::Sleep(None) => thread::park(),
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
    /// // Under tokio: pacer.sleeping(tokio::time::sleep)
    /// // Under async-std: pacer.sleeping(async_std::task::sleep)
    /// let pacer = pacer.sleeping(async_io::Timer::after); // smol::Timer::after
    /// async_io::block_on(async {
    ///     let permit = pacer.ready(("", 1)).await?;
    ///     // The request is made here.
    ///     drop(permit);
    ///     Ok(())
    /// })
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

    /// The number of releases like this that may be admitted now, one after the other.
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
        let now = Instant::now();
        Ok(self.pace.left(ask.into_item(&self.pace, now)?.as_ref(), now))
    }

    /// Admits at once if no one waits and it may go.
    fn begin<'a>(&self, ask: impl Ask<'a>) -> Result<Begun<'_>, Error> {
        let now = Instant::now();
        let item = ask.into_item(&self.pace, now)?;
        match self.pace.try_admit(item, now) {
            Ok(admission) => Ok(Begun::Admitted(Permit::new(admission))),
            Err((_, refusal @ (Refusal::Never | Refusal::Foreign))) => Err(refusal.into()),
            Err((item, _)) => Ok(Begun::Waits(Turn::new(&self.pace, item.into_owned()))),
        }
    }
}

enum Begun<'a> {
    Admitted(Permit),
    Waits(Turn<'a>),
}

enum Next {
    Admitted(Permit),
    /// Until the instant, or until woken.
    Sleep(Option<Instant>),
}

/// What to do after an answer. What cannot be admitted by the deadline is not waited for.
fn answered(answer: Answer, deadline: Option<Instant>) -> Result<Next, Error> {
    let timed_out = || Error::new(ErrorKind::TimedOut, "not admitted in time");
    match answer {
        Answer::Admitted(admission) => Ok(Next::Admitted(Permit::new(admission))),
        Answer::Never(refusal) => Err(refusal.into()),
        Answer::At(at) if deadline.is_some_and(|deadline| at > deadline) => Err(timed_out()),
        Answer::At(at) => Ok(Next::Sleep(Some(at))),
        Answer::Woken if deadline.is_some_and(|deadline| Instant::now() >= deadline) => Err(timed_out()),
        Answer::Woken => Ok(Next::Sleep(deadline)),
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A [`Pacer`] for tasks, made by [`Pacer::sleeping`]. It needs no runtime.
///
/// A future that is dropped gives up its place, and what was admitted meanwhile.
#[derive(Clone, Debug)]
pub struct AsyncPacer<S> {
    pacer: Pacer,
    sleep: S,
}

impl<S, F> AsyncPacer<S>
where
    S: Fn(Duration) -> F,
    F: Future,
{
    /// Waits until a release is admitted.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("10/s,key=col:1")?.sleeping(async_io::Timer::after);
    /// let permit = async_io::block_on(pacer.ready(("alice", 1)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pacer::wait`].
    pub async fn ready<'a>(&self, ask: impl Ask<'a>) -> Result<Permit, Error> {
        self.until(ask, None).await
    }

    /// As [`AsyncPacer::ready`], up to `timeout`.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use std::time::Duration;
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h")?.sleeping(async_io::Timer::after);
    /// async_io::block_on(async {
    ///     assert!(pacer.ready_timeout(("", 1), Duration::from_secs(9)).await.is_ok());
    ///     assert!(pacer.ready_timeout(("", 1), Duration::from_secs(9)).await.is_err());
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pacer::wait_timeout`].
    pub async fn ready_timeout<'a>(&self, ask: impl Ask<'a>, timeout: Duration) -> Result<Permit, Error> {
        self.until(ask, Instant::now().checked_add(timeout)).await
    }

    /// As [`AsyncPacer::ready`], up to `deadline`.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use std::time::Instant;
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h")?.sleeping(async_io::Timer::after);
    /// assert!(async_io::block_on(pacer.ready_deadline(("", 1), Instant::now())).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Pacer::wait_timeout`].
    pub async fn ready_deadline<'a>(&self, ask: impl Ask<'a>, deadline: Instant) -> Result<Permit, Error> {
        self.until(ask, Some(deadline)).await
    }

    /// The limits, to be asked without waiting, or blocking.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h")?.sleeping(async_io::Timer::after);
    /// assert!(pacer.pacer().try_now(("", 1)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    async fn until<'a>(&self, ask: impl Ask<'a>, deadline: Option<Instant>) -> Result<Permit, Error> {
        let mut turn = match self.pacer.begin(ask)? {
            Begun::Admitted(permit) => return Ok(permit),
            Begun::Waits(turn) => turn,
        };
        loop {
            let next = poll_fn(|context| Poll::Ready(turn.ask(Instant::now(), context.waker()))).await;
            match answered(next, deadline)? {
                Next::Admitted(permit) => return Ok(permit),
                Next::Sleep(until) => self.sleep_or_woken(&turn, until).await,
            }
        }
    }

    /// Waits until `until`, or until the standing has changed.
    async fn sleep_or_woken(&self, turn: &Turn<'_>, until: Option<Instant>) {
        let mut sleep = pin!(until.map(|at| (self.sleep)(at.saturating_duration_since(Instant::now()))));
        poll_fn(|context: &mut Context<'_>| {
            if turn.is_called(context.waker()) {
                return Poll::Ready(());
            }
            sleep.as_mut().as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(context).map(|_| ()))
        })
        .await;
    }
}

/// Permission for one release. Drop it once the release has happened: that charges it, at the time of the drop.
///
/// What happens to a task or a thread does not matter: a permit that is dropped by a panic or with a future has been
/// used.
#[derive(Debug)]
#[must_use = "the release is charged when this is dropped"]
pub struct Permit {
    admission: Option<Admission>,
}

impl Permit {
    fn new(admission: Admission) -> Self {
        Permit { admission: Some(admission) }
    }

    /// Gives up the release, which has not happened: nothing is charged.
    ///
    /// ```
    /// # fn main() -> Result<(), throttle::pace::Error> {
    /// # use throttle::pace::Pacer;
    /// let pacer = Pacer::new("1/h")?;
    /// pacer.wait(("", 1))?.cancel();
    /// assert!(pacer.try_now(("", 1)).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(mut self) {
        if let Some(admission) = self.admission.take() {
            admission.cancel(Instant::now());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take() {
            admission.commit(Instant::now());
        }
    }
}
