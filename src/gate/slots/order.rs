//! Orders to a store of shared limits, and its answers, see [`crate::store`].

use serde::{Deserialize, Serialize};

use crate::charge::Key;
use crate::time::Time;

/// The stretch in which a release may happen, on the clock of the process that booked it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Not before.
    pub at: Time,
    /// Not after.
    pub until: Time,
}

impl Slot {
    /// A release may use it at `now`.
    pub(super) fn is_good(&self, now: Time) -> bool {
        self.at <= now && now <= self.until
    }
}

/// An order for slots for some releases that are alike, or a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The key whose limits are charged; empty if the limits go by no key.
    pub key: Key,
    /// The charge of each limit of the policy for one release. At least one is not 0.
    pub costs: Box<[u64]>,
    /// The number of slots that are of use. With 0, it only asks for overruns.
    pub count: u64,
    /// Slots that are more nanoseconds ahead than this are of no use, and are not booked. With 0, a slot is free at
    /// once, or there is none.
    pub within: u64,
    /// The turn of the last answer, if it turned the order away.
    pub turn: Option<Turn>,
    /// Not an order for slots, but a report: `count` releases of this charge were not over before this instant, later
    /// than their slots were good.
    pub overrun: Option<Time>,
    /// Not an order for slots, but a hold that a server asks for: nothing of this key is released before this instant.
    pub hold: Option<Time>,
}

impl Order {
    /// For `count` slots, whenever they are.
    pub fn new(key: Key, costs: impl Into<Box<[u64]>>, count: u64) -> Self {
        Order { key, costs: costs.into(), count, within: u64::MAX, turn: None, overrun: None, hold: None }
    }

    /// It asks for slots, and does not report something.
    pub fn is_for_slots(&self) -> bool {
        self.overrun.is_none() && self.hold.is_none()
    }
}

/// A place in the queue of those who were turned away. The meaning of the number is up to the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn(pub u64);

/// What was ordered for a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ordered {
    /// An order for this number is on its way, since then.
    Coming(Time, u64),
    /// It makes no sense to ask before; then with this turn, if there is one.
    NotBefore(Time, Option<Turn>),
}

/// The answer of a store to an order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The slots that were booked, earliest first; fewer than asked for, or none, if the others are beyond the horizon.
    pub slots: Vec<Slot>,
    /// With fewer slots than asked for: the instant from which it makes sense to ask for more.
    pub ask_again: Option<Time>,
    /// With fewer slots than asked for: the instant of the next one, as things stand.
    pub next: Option<Time>,
    /// To be sent when asking again, so that nobody who comes later goes first.
    pub turn: Option<Turn>,
    /// Something that the user should hear of, such as that state was lost.
    pub warning: Option<String>,
    /// With a warning: the instant at which the first slot after it is expected.
    pub silent_until: Option<Time>,
    /// The end of a hold of this key, which a server or somebody asks for. Slots before are not used.
    pub held: Option<Time>,
    /// The overruns under the limits of this key, by all processes.
    pub overruns: Overruns,
}

/// The costs of releases that were over later than their slots were good.
///
/// Slots that were booked before such a release was reported may be too close to it. Each process that holds some gives
/// up the first of them, until they cost as much: no window has more if the late release replaces a later one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Overruns {
    /// Their sum for each limit, since the state began.
    pub costs: Box<[u64]>,
    /// No slot from then on is too close to any of them.
    pub until: Time,
}

impl Overruns {
    /// The costs since they had been `before`, if this is the answer to `order`. At least those that `order` reports: a
    /// store that has lost its state counts from 0 again.
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
