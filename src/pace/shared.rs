//! What all clones of a [`Pace`](super::Pace) share.

use std::sync::atomic::{AtomicU64 as StdAtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::error::{Error, ErrorKind, Refused};
use super::limits::{Limits, Waiting};
use super::queue::{Queue, Woken};
use super::sync::{AtomicU64, Mutex, MutexGuard};
use super::values::{Charges, Values};
use crate::config::Rate;
use crate::gate::Blocked;
use crate::time::{Time, nanos};

/// The nanoseconds from one look at the wall clock to the next.
const BETWEEN_LOOKS: u64 = 1_000_000;

/// Limits, those who wait for them, and the origin of time.
pub(super) struct SharedPace {
    /// Differs from that of any other.
    pub(super) id: u64,
    pub(super) values: Values,
    rates: Arc<[Rate]>,
    /// Answers depend on what the wall clock shows.
    pub(super) goes_by_wall: bool,
    origin: Instant,
    state: Mutex<Locked>,
    /// When the wall clock was last looked at, if it matters.
    looked_at: AtomicU64,
    /// Before this instant, no release that costs 1 is admitted, if there is one limit, which charges all alike, as
    /// long as nothing changes. 0 if not known, as while something does change.
    closed_until: AtomicU64,
}

/// What is changed under the lock.
pub(super) struct Locked {
    pub(super) limits: Limits,
    pub(super) queue: Queue,
}

impl SharedPace {
    pub(super) fn new(limits: Limits, values: Values, origin: Instant) -> Self {
        static NEXT: StdAtomicU64 = StdAtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (rates, goes_by_wall) = (Arc::clone(limits.rates()), limits.go_by_wall());
        let state = Mutex::new(Locked { limits, queue: Queue::default() });
        let (looked_at, closed_until) = (AtomicU64::new(0), AtomicU64::new(0));
        SharedPace { id, values, rates, goes_by_wall, origin, state, looked_at, closed_until }
    }

    /// A panic of another thread leaves nothing half done: no code of the caller runs under the lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, Locked> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed_until.store(0, Ordering::Relaxed);
        state
    }

    /// The refusal of a cost of 1 at `now`, if it is known without the lock.
    pub(super) fn known_refusal(&self, now: Time) -> Option<Refused> {
        let until = Time(self.closed_until.load(Ordering::Relaxed));
        if now < until { Some(Refused { until: self.instant(until), by: Some(0) }) } else { None }
    }

    /// Says why a release is not admitted at `now`, and remembers it if it is that of any that costs 1.
    #[cold]
    pub(super) fn refuse(&self, state: &mut Locked, item: &Waiting, blocked: Blocked, now: Time) -> Error {
        let until = state.limits.earliest(item, now);
        let limits = &state.limits;
        let is_never =
            || limits.unblocks(blocked, item, now) == Some(Time::NEVER) || !limits.awaits_end(item);
        if until.is_none() && is_never() {
            return ErrorKind::Never.into();
        }
        let by = blocked.limit();
        if by == Some(0)
            && self.values.is_plain_one()
            && item.charges.costs[0] == 1
            && item.eligible_at <= now
            && !self.saves_up(&item.charges)
        {
            self.closed_until.store(until.map_or(0, |until| until.0), Ordering::Relaxed);
        }
        // Those who wait go first, whenever that is.
        let until = until.filter(|until| *until > now).and_then(|until| self.instant(until));
        ErrorKind::Refused(Refused { until, by }).into()
    }

    /// True if the answer depends on when the item began to wait.
    fn saves_up(&self, charges: &Charges) -> bool {
        let mut costs = self.rates.iter().zip(&charges.costs);
        costs.any(|(rate, &cost)| rate.depends_on_eligibility(cost))
    }

    /// What waits from an instant on or, if a bucket would save up for it, from the latest that the limits know.
    #[inline]
    pub(super) fn waiting(&self, charges: Charges, from: Time) -> Waiting {
        let mark = self.saves_up(&charges).then(|| self.lock().limits.mark(from));
        Waiting { eligible_at: mark.as_deref().map_or(from, |mark| *mark), charges, mark }
    }

    /// True if it is time to see whether the wall clock was set, which takes the lock. Then it is for a while not.
    pub(super) fn takes_look_at_clock(&self, now: Instant) -> bool {
        if !self.goes_by_wall {
            return false;
        }
        let now = self.time(now);
        let is_due = now.since(Time(self.looked_at.load(Ordering::Relaxed))) >= BETWEEN_LOOKS;
        if is_due {
            self.looked_at.store(now.0, Ordering::Relaxed);
        }
        is_due
    }

    pub(super) fn time(&self, at: Instant) -> Time {
        Time(nanos(at.saturating_duration_since(self.origin)))
    }

    pub(super) fn instant(&self, at: Time) -> Option<Instant> {
        self.origin.checked_add(Duration::from_nanos(at.0))
    }

    /// Changes the state, and then wakes those whose standing has changed.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Locked, &mut Woken) -> T) -> T {
        let mut woken = Woken::new();
        let mut state = self.lock();
        let result = change(&mut state, &mut woken);
        drop(state);
        if !woken.is_empty() {
            woken.into_iter().for_each(std::task::Waker::wake);
        }
        result
    }
}
