//! What all clones of a [`Pace`](super::Pace) share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::limits::Limits;
use super::queue::Queue;
use super::values::{Charges, Values};
use crate::time::{Time, nanos};

/// Limits, those who wait for them, and the origin of time.
pub(super) struct Shared {
    /// Differs from that of any other.
    pub(super) id: u64,
    pub(super) values: Values,
    /// Answers depend on when an item began to wait.
    pub(super) saves_up: bool,
    origin: Instant,
    state: Mutex<State>,
    /// Before this instant, no release that costs 1 is admitted, if limits charge all alike, as long as nothing
    /// changes. 0 if not known, as while something does change.
    closed_until: AtomicU64,
}

/// What is changed under the lock.
pub(super) struct State {
    pub(super) limits: Limits,
    pub(super) queue: Queue,
}

impl Shared {
    pub(super) fn new(limits: Limits, values: Values, origin: Instant) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let saves_up = limits.saves_up();
        Shared {
            id,
            values,
            saves_up,
            origin,
            state: Mutex::new(State { limits, queue: Queue::default() }),
            closed_until: AtomicU64::new(0),
        }
    }

    /// A panic of another thread leaves nothing half done: no code of the caller runs under the lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed_until.store(0, Ordering::Relaxed);
        state
    }

    /// The instant until which a cost of 1 is known to be refused, if that is after `now`.
    pub(super) fn known_refusal(&self, now: Instant) -> Option<Time> {
        let until = Time(self.closed_until.load(Ordering::Relaxed));
        Some(until).filter(|until| until.0 > 0 && self.time(now) < *until)
    }

    /// Remembers until when these charges are refused, unless something changes.
    pub(super) fn refused_until(&self, charges: &Charges, until: Time, _state: &State) {
        if !self.saves_up && self.values.are_plain() && charges.costs.iter().all(|cost| *cost == 1) {
            self.closed_until.store(until.0, Ordering::Relaxed);
        }
    }

    pub(super) fn time(&self, at: Instant) -> Time {
        Time(nanos(at.saturating_duration_since(self.origin)))
    }

    pub(super) fn instant(&self, at: Time) -> Option<Instant> {
        self.origin.checked_add(Duration::from_nanos(at.0))
    }

    /// Changes the limits at `now`, and wakes those who may go or must wait differently.
    pub(super) fn change<T>(
        &self,
        now: impl FnOnce() -> Instant,
        change: impl FnOnce(&mut Limits) -> T,
    ) -> T {
        let mut state = self.lock();
        let State { limits, queue } = &mut *state;
        let result = change(limits);
        if queue.is_empty() {
            return result;
        }
        let woken = queue.dispatch(limits, self.time(now()));
        drop(state);
        woken.into_iter().for_each(std::task::Waker::wake);
        result
    }
}
