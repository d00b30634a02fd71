//! What is asked of a store of shared limits, and what it says, see [`crate::store`].

use serde::{Deserialize, Serialize};

use crate::charge::Key;
use crate::time::Time;

/// When a release may happen, on the clock of the process that booked it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Not before.
    pub at: Time,
    /// Not after.
    pub until: Time,
}

impl Slot {
    /// Whether a release may use it at `now`.
    pub(super) fn is_good(&self, now: Time) -> bool {
        self.at <= now && now <= self.until
    }
}

/// What is asked of a store: slots for some releases that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The key whose limits are charged; empty if the limits go by no key.
    pub key: Key,
    /// What each limit of the policy charges for one release. At least one is not 0.
    pub costs: Box<[u64]>,
    /// The number of slots that are of use. With 0, it is only asked what has been overrun.
    pub count: u64,
    /// Whether slots to come are of use, too. If not, nothing is booked but what is free at once.
    pub waits: bool,
    /// What the last answer gave, if it turned the order away.
    pub turn: Option<Turn>,
    /// Not an order for slots, but a report: `count` releases of this charge were not over before this instant, later
    /// than their slots were good.
    pub overrun: Option<Time>,
    /// Not an order for slots, but what a server asks for: nothing of this key is released before this instant.
    pub hold: Option<Time>,
}

impl Order {
    /// For `count` slots, whenever they are.
    pub fn new(key: Key, costs: impl Into<Box<[u64]>>, count: u64) -> Self {
        Order { key, costs: costs.into(), count, waits: true, turn: None, overrun: None, hold: None }
    }

    /// Whether it asks for slots, and does not report something.
    pub fn is_for_slots(&self) -> bool {
        self.overrun.is_none() && self.hold.is_none()
    }
}

/// A place in the queue of those who were turned away. What it means is up to the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn(pub u64);

/// What a store says to an order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The slots that were booked, earliest first; fewer than asked for, or none, if the others are beyond the horizon.
    pub slots: Vec<Slot>,
    /// With fewer slots than asked for: when it makes sense to ask for more. If the order does not wait: when the next
    /// one is free, as things stand.
    pub ask_again: Option<Time>,
    /// What to ask again with, so that nobody who comes later goes first.
    pub turn: Option<Turn>,
    /// Something that the user should hear of, such as that state was lost.
    pub warning: Option<String>,
    /// With a warning: when the first slot after it is expected.
    pub silent_until: Option<Time>,
    /// Until when nothing of this key is released, as a server or somebody asks for that. Slots before are not used.
    pub held: Option<Time>,
    /// What was overrun under the limits of this key, by whomever.
    pub overruns: Overruns,
}

/// What releases cost, together, that were over later than their slots were good.
///
/// Slots that were booked before such a release was reported may be too close to it. Each process that holds some gives
/// up the first of them, until they cost as much: where the late release took the place of a later one, no window has
/// more.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Overruns {
    /// For each limit, since the state began.
    pub costs: Box<[u64]>,
    /// No slot from then on is too close to any of them.
    pub until: Time,
}

impl Overruns {
    /// What was overrun since it had been `before`, if this is the answer to `order`. What a report says was overrun in
    /// any case: a store that has lost its state counts from 0 again.
    pub(super) fn since(&self, before: &[u64], order: &Order) -> Box<[u64]> {
        let reported = if order.overrun.is_some() { order.count } else { 0 };
        let before = before.iter().copied().chain(std::iter::repeat(0));
        let costs = self.costs.iter().zip(before).zip(&order.costs);
        let since = |((now, before), cost): ((&u64, u64), &u64)| {
            now.checked_sub(before).unwrap_or(*now).max(cost.saturating_mul(reported))
        };
        costs.map(since).collect()
    }
}
