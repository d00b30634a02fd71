//! One who waits in the queue.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use super::clockless::Admission;
use super::limits::{No, Waiting};
use super::queue::Standing;
use super::shared::{Shared, State};
use super::{Item, Pace, Refusal};

/// A place in the queue. Dropped, it is given up; what was admitted and not taken is taken back.
pub(super) struct Turn<'a> {
    pace: &'a Pace,
    ticket: Option<u64>,
}

/// The answer to one who waits.
pub(super) enum Answer {
    Admitted(Admission),
    /// Ask again at this instant, or once woken.
    At(Instant),
    /// Ask again once woken.
    Woken,
    Never(Refusal),
}

impl<'a> Turn<'a> {
    /// Joins the end of the queue.
    pub(super) fn new(pace: &'a Pace, item: Item) -> Self {
        let ticket = pace.shared.lock().queue.join(item.waiting);
        Turn { pace, ticket: Some(ticket) }
    }

    /// Asks at `now`. `waker` is called when to ask again, unless the answer says when.
    pub(super) fn ask(&mut self, now: Instant, waker: &Waker) -> Answer {
        let Some(ticket) = self.ticket else { return Answer::Woken };
        let shared = &self.pace.shared;
        let mut state = shared.lock();
        let State { limits, queue } = &mut *state;
        let woken = queue.dispatch(limits, shared.time(now));
        let answer = match queue.standing(ticket) {
            Standing::Admitted(_) => self.take(queue.leave(ticket)),
            Standing::Behind | Standing::Refused(No::Busy) => Answer::Woken,
            Standing::Refused(no) => match no.refusal(|at| shared.instant(at)) {
                Refusal::Until(at) => Answer::At(at),
                refusal => Answer::Never(refusal),
            },
        };
        queue.watch(ticket, waker);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        answer
    }

    /// True if it is to ask again. Otherwise leaves `waker` instead of the one before.
    pub(super) fn is_called(&self, waker: &Waker) -> bool {
        self.ticket.is_none_or(|ticket| self.pace.shared.lock().queue.is_called(ticket, waker))
    }

    fn take(&mut self, left: Option<(Waiting, Standing)>) -> Answer {
        self.ticket = None;
        match left {
            Some((item, Standing::Admitted(at))) => {
                Answer::Admitted(Admission::new(Arc::clone(&self.pace.shared), item, at))
            }
            _ => Answer::Woken,
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let shared: &Shared = &self.pace.shared;
        let left = shared.lock().queue.leave(ticket);
        // Those behind may go.
        shared.change(Instant::now, |limits| {
            if let Some((item, Standing::Admitted(_))) = left {
                limits.withdraw(&item);
            }
        });
    }
}
