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
    /// Its length in nanoseconds. It lasts no longer, whatever becomes of the clock.
    pub length: u64,
}

impl Hold {
    /// From `now` until an instant.
    pub fn new(now: Time, until: Time) -> Self {
        Hold { until, length: until.since(now) }
    }

    /// Its end, unless it is over at `now`.
    pub fn in_force(self, now: Time) -> Option<Time> {
        let latest = now.saturating_add(self.length);
        Some(self.until.min(latest)).filter(|until| *until > now)
    }

    /// The hold after an order; none, once it is over.
    pub(super) fn after(self, now: Time, order: &Order) -> Self {
        let until = self.in_force(now).max(order.hold).filter(|until| *until > now);
        until.map_or(Hold::default(), |until| if self.until == until { self } else { Hold::new(now, until) })
    }

    /// The hold once the clock has begun anew by `now`: nobody knows how much of it is over, so all of it is ahead.
    pub fn restarted(self, now: Time) -> Self {
        Hold { until: now.saturating_add(self.length), ..self }
    }

    /// The instant to ask again for whoever is told of it at `now`.
    pub(super) fn ask_again(now: Time, until: Time) -> Time {
        until.min(now.saturating_add(LOOK))
    }
}
