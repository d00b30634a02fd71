//! A rule's terms, the question it is asked, and its answer.

use serde::{Deserialize, Serialize};

use crate::time::{Time, Wall, Zone};

/// A release, as one limit is asked about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The instant at which the item became next in line: the later of its arrival and the release before it in its
    /// lane.
    pub since: Time,
    /// Its cost. Never 0: an item that costs nothing does not ask.
    pub cost: u64,
}

/// The cost of what was released at an instant; nothing was if it is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    pub(super) at: Time,
    pub(super) cost: u64,
}

/// The first instant at which a release is allowed, as long as nothing else is committed. Ordered by time.
///
/// It says nothing about later instants; see [`Rule::closes`](super::Rule::closes).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// At this instant.
    At(Time),
    /// At no instant.
    Never,
}

impl Verdict {
    /// `nanos` later; never if that is past the end of the time line.
    pub(crate) fn plus(self, nanos: u128) -> Verdict {
        self.instant().map_or(Verdict::Never, |at| Verdict::after(at, nanos))
    }

    /// `nanos` after `from`; never if that is past the end of the time line.
    pub(crate) fn after(from: Time, nanos: impl Into<u128>) -> Verdict {
        from.checked_add(nanos.into()).map_or(Verdict::Never, Verdict::At)
    }

    /// The instant, if there is one.
    pub fn instant(self) -> Option<Time> {
        match self {
            Verdict::At(at) => Some(at),
            Verdict::Never => None,
        }
    }

    /// True if it is no later than `now`.
    pub fn allows(self, now: Time) -> bool {
        self <= Verdict::At(now)
    }
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
