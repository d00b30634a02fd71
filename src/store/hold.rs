//! Pauses during which nothing is booked.

use serde::{Deserialize, Serialize};

use super::{Order, Task};
use crate::time::{SECOND, Time};

/// The nanoseconds after which a process that is held asks again at the latest: the hold may be lifted.
pub(super) const HOLD_REFRESH: u64 = SECOND;

/// A pause that a server asked for or a user set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Hold {
    /// No slot is booked before this instant.
    pub until: Time,
    /// Its length in nanoseconds. It lasts no longer, whatever happens to the clock.
    pub length: u64,
}

impl Hold {
    /// A hold from `now` until an instant.
    pub fn new(now: Time, until: Time) -> Self {
        Hold { until, length: until.since(now) }
    }

    /// Its end, unless it is over at `now`.
    pub fn in_force(self, now: Time) -> Option<Time> {
        let latest = now.saturating_add(self.length);
        Some(self.until.min(latest)).filter(|until| *until > now)
    }

    /// The hold after an order; the default, once it is over.
    pub(super) fn after(self, now: Time, order: &Order) -> Self {
        let asked = if let Task::Hold(until) = order.task { Some(until) } else { None };
        let until = self.in_force(now).max(asked).filter(|until| *until > now);
        until.map_or(Hold::default(), |until| if self.until == until { self } else { Hold::new(now, until) })
    }

    /// The hold after the clock has restarted, at `now`: no one knows how much of it is over, so all of it is still
    /// ahead.
    pub fn restarted(self, now: Time) -> Self {
        Hold { until: now.saturating_add(self.length), ..self }
    }
}
