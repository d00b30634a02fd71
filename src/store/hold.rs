//! Pauses in which nothing is booked.

use serde::{Deserialize, Serialize};

use super::Order;
use crate::time::{SECOND, Time};

/// The nanoseconds after which whoever is held asks again at the latest: it may be lifted.
pub(super) const LOOK: u64 = SECOND;

/// A pause that a server has asked for, or somebody has set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Hold {
    /// No slot is booked before.
    pub until: Time,
    /// How long it is, in nanoseconds. It lasts no longer, whatever becomes of the clock.
    pub length: u64,
}

impl Hold {
    /// From `now` until an instant.
    pub fn new(now: Time, until: Time) -> Self {
        Hold { until, length: until.since(now) }
    }

    /// Until when it lasts, unless it is over at `now`.
    pub fn in_force(self, now: Time) -> Option<Time> {
        let latest = Time(now.0.saturating_add(self.length));
        Some(self.until.min(latest)).filter(|until| *until > now)
    }

    /// What it is after an order; none, once it is over.
    pub(super) fn after(self, now: Time, order: &Order) -> Self {
        let until = self.in_force(now).max(order.hold).filter(|until| *until > now);
        until.map_or(Hold::default(), |until| if self.until == until { self } else { Hold::new(now, until) })
    }

    /// If the clock has begun anew by `now`, nobody knows how much of it is over: so none.
    pub fn restarted(self, now: Time) -> Self {
        Hold { until: Time(now.0.saturating_add(self.length)), ..self }
    }

    /// When to ask again who was told so at `now`.
    pub(super) fn ask_again(now: Time, until: Time) -> Time {
        until.min(Time(now.0.saturating_add(LOOK)))
    }
}
