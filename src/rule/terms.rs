//! The question to a rule, its terms, and its answer.

use crate::time::{Civil, Stretch, Time, Wall, Zone};

/// A release, as one limit is asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The later of the item's arrival and the release before it in its lane: it became next in line then.
    pub since: Time,
    /// Its charge. Never 0: an item that costs nothing does not ask.
    pub cost: u64,
}

/// The first instant at which a release is allowed, as long as nothing else is committed. In the order of time.
///
/// It says nothing of later instants: [`Rule::closes`](super::Rule::closes) does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// At this instant.
    At(Time),
    /// At no instant, however long the wait.
    Never,
}

impl Verdict {
    /// `nanos` later; never, if that is past the end of the time line.
    pub(crate) fn plus(self, nanos: u128) -> Verdict {
        match self {
            Verdict::At(at) => Verdict::after(at, nanos),
            Verdict::Never => Verdict::Never,
        }
    }

    /// `nanos` after `from`; never, if that is past the end of the time line.
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

/// The numbers of a limit: a cost in a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// N. With 0 nothing is ever released.
    pub count: u64,
    /// P in nanoseconds. Not 0.
    pub period: u64,
    /// B. Only rules that have a burst look at it.
    pub burst: u64,
    /// Nanoseconds without a release before and after each boundary. Only rules that go by the calendar look at this
    /// and the following; for others, it is in the period.
    pub margin: u64,
    /// The zone of the calendar; UTC without it.
    pub zone: Option<Zone>,
    /// The clock by which the calendar goes.
    pub wall: Wall,
}

impl Terms {
    /// A `count` in `period` nanoseconds, with a burst.
    pub const fn new(count: u64, period: u64, burst: u64) -> Self {
        Terms { count, period, burst, margin: 0, zone: None, wall: Wall::EPOCH }
    }

    /// The period of the calendar that `at` is in, as the wall clock shows it, if P stands for one.
    pub(super) fn civil(&self, at: Time) -> Option<Stretch> {
        let zone = self.zone.unwrap_or_else(Zone::utc);
        Some(Civil::new(self.period)?.around(zone, self.wall.nanos(at)))
    }

    /// The number of periods of the calendar from `first` to `last`, if P stands for one.
    pub(super) fn periods(&self, first: Time, last: Time) -> Option<i128> {
        let zone = self.zone.unwrap_or_else(Zone::utc);
        Some(Civil::new(self.period)?.number(zone, self.wall.nanos(first), self.wall.nanos(last)))
    }

    /// The nanoseconds in which this cost accrues, rounded up. With a count of 0, as with 1.
    pub fn gap(&self, cost: u64) -> u128 {
        (u128::from(cost) * u128::from(self.period)).div_ceil(self.count.max(1).into())
    }
}
