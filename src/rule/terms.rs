//! A rule's terms, the question it is asked, and its answer.

use crate::time::{Time, Wall, Zone};

/// A release, as one limit is asked about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The instant at which the item became next in line: the later of its arrival and the release before it in its
    /// lane.
    pub eligible_at: Time,
    /// Its cost. Never 0: an item that costs nothing does not ask.
    pub cost: u64,
}

/// The cost of what was released at an instant; nothing was if it is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct Usage {
    pub(super) at: Time,
    pub(super) cost: u64,
}

/// The parameters of a limit: a cost per period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// N. With 0, nothing is ever released.
    pub count: u64,
    /// P in nanoseconds. Not 0.
    pub period: u64,
    /// B. Only rules that have a burst use it.
    pub burst: u64,
    /// Nanoseconds without a release before and after each boundary. Only rules that go by the calendar use this and
    /// the fields below; for others, the margin is part of the period.
    pub margin: u64,
    /// The zone of the calendar; UTC without it.
    pub zone: Option<Zone>,
    /// The wall clock that the calendar goes by.
    pub wall: Wall,
    /// The nanoseconds by which a release may be later than it was allowed: it must then still be in its window. 0
    /// unless it is a slot that is booked.
    pub late: u64,
    /// The most instants that a log keeps apart. Beyond, a release counts as made at the instant of a later one.
    pub instants: u64,
}

impl Terms {
    /// A `count` per `period` nanoseconds, with a burst.
    pub const fn new(count: u64, period: u64, burst: u64) -> Self {
        let (zone, wall, instants) = (None, Wall::EPOCH, u64::MAX);
        Terms { count, period, burst, margin: 0, zone, wall, late: 0, instants }
    }

    /// The nanoseconds in which this cost accrues, rounded up. A count of 0 is taken as 1.
    pub fn gap(&self, cost: u64) -> u128 {
        (u128::from(cost) * u128::from(self.period)).div_ceil(self.count.max(1).into())
    }
}
