//! One who waits in the queue.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::admission::Admission;
use super::queue::Standing;
use super::shared::{Locked, SharedPace};
use super::{Error, ErrorKind};
use crate::time::Time;

/// The longest sleep of one who waits for a limit that goes by the wall clock, which may be set meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// A place in the queue. Dropped, it is given up; what was admitted and not taken is taken back.
pub(super) struct QueuePlace<'a> {
    shared: &'a Arc<SharedPace>,
    ticket: u64,
}

/// What one who waits is to do.
pub(super) enum Next<'a> {
    Take(Admission<'a>),
    /// Sleep until this instant, if there is one, or until woken, and ask again.
    Sleep(Option<Instant>),
}

impl<'a> QueuePlace<'a> {
    pub(super) fn new(shared: &'a Arc<SharedPace>, ticket: u64) -> Self {
        QueuePlace { shared, ticket }
    }

    /// Asks at `now`. `waker` is called when to ask again, unless the answer says when.
    ///
    /// # Errors
    /// It is never admitted, or not by the deadline.
    pub(super) fn ask(
        &self,
        now: Instant,
        waker: &Waker,
        deadline: Option<Instant>,
    ) -> Result<Next<'a>, Error> {
        let (shared, at, waker) = (self.shared, self.shared.time(now), waker.clone());
        // What is dropped may run code of the caller, so not under the lock.
        let (next, _dropped) = shared.change(|Locked { limits, queue }, woken| {
            let Some(waiter) = queue.ask(self.ticket, limits, at, woken) else {
                return (Ok(Next::Sleep(None)), Some(waker));
            };
            let opens = match &waiter.standing {
                Standing::Admitted(at) => {
                    let at = *at;
                    let Some(waiter) = queue.leave(self.ticket, limits, at, woken) else {
                        return (Ok(Next::Sleep(None)), Some(waker));
                    };
                    return (Ok(Next::Take(Admission::new(shared, waiter.item, at))), waiter.waker);
                }
                Standing::First(_, opens) => *opens,
                Standing::Behind(_) => None,
            };
            let earliest = limits.earliest(&waiter.item, at);
            if opens == Some(Time::NEVER) || earliest.is_none() && !limits.awaits_end(&waiter.item) {
                return (Err(ErrorKind::Never.into()), Some(waker));
            }
            let earliest = earliest.and_then(|at| shared.instant(at));
            if deadline.is_some_and(|deadline| now >= deadline || earliest > Some(deadline)) {
                return (Err(ErrorKind::TimedOut.into()), Some(waker));
            }
            // Who is behind others is woken by them.
            let looks = shared.goes_by_wall && matches!(waiter.standing, Standing::First(..));
            let look = now.checked_add(MAX_SLEEP).filter(|_| looks);
            let until = opens.and_then(|at| shared.instant(at)).into_iter().chain(deadline).chain(look).min();
            (Ok(Next::Sleep(until)), queue.watch(self.ticket, waker))
        });
        next
    }

    /// True if it is to ask again. Otherwise leaves `waker` instead of the one before.
    pub(super) fn is_called(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let (is_called, _dropped) =
            self.shared.change(|Locked { queue, .. }, _| match queue.is_called(self.ticket) {
                true => (true, Some(waker)),
                false => (false, queue.watch(self.ticket, waker)),
            });
        is_called
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let now = self.shared.time(Instant::now());
        let _dropped = self.shared.change(|Locked { limits, queue }, woken| {
            let waiter = queue.leave(self.ticket, limits, now, woken)?;
            if matches!(waiter.standing, Standing::Admitted(_)) {
                limits.withdraw(&waiter.item, now);
                queue.advance_for(&waiter.item, limits, now, woken);
            }
            waiter.waker
        });
    }
}
