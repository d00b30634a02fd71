//! Limits for tasks of an asynchronous program, whatever its runtime.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::item::Ask;
use super::permit::Permit;
use super::turn::{Next, QueuePlace};
use super::{Error, Pacer};

/// A [`Pacer`] for tasks, made by [`Pacer::sleeping`]. It needs no runtime.
///
/// A future that is dropped gives up its place, and what was admitted meanwhile.
#[derive(Clone, Debug)]
pub struct AsyncPacer<S> {
    pub(super) pacer: Pacer,
    pub(super) sleep: S,
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
    pub async fn ready<'a>(&self, ask: impl Ask<'a>) -> Result<Permit<'_>, Error> {
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
    pub async fn ready_timeout<'a>(&self, ask: impl Ask<'a>, timeout: Duration) -> Result<Permit<'_>, Error> {
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
    pub async fn ready_deadline<'a>(
        &self,
        ask: impl Ask<'a>,
        deadline: Instant,
    ) -> Result<Permit<'_>, Error> {
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

    async fn until<'a>(&self, ask: impl Ask<'a>, deadline: Option<Instant>) -> Result<Permit<'_>, Error> {
        let turn = match self.pacer.pace.admit_or_wait(ask, self.pacer.pace.now())? {
            Ok(admission) => return Ok(Permit::new(admission)),
            Err(turn) => turn,
        };
        loop {
            let ask = |context: &mut Context| {
                Poll::Ready(turn.ask(self.pacer.pace.now(), context.waker(), deadline))
            };
            match poll_fn(ask).await? {
                Next::Take(admission) => return Ok(Permit::new(admission)),
                Next::Sleep(until) => self.sleep_or_woken(&turn, until).await,
            }
        }
    }

    /// Waits until `until`, or until the standing has changed.
    async fn sleep_or_woken(&self, turn: &QueuePlace<'_>, until: Option<Instant>) {
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
