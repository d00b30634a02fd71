//! Instants, in whole nanoseconds since an origin that the world chooses, and the calendar.

mod civil;
mod hours;
mod zone;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use self::civil::Civil;
pub use self::hours::{Hours, Week};
pub use self::zone::Zone;

/// Nanoseconds in one second.
pub const SECOND: u64 = 1_000_000_000;

/// An instant: nanoseconds since an origin.
///
/// The real world counts from the start of the process, by the monotonic clock; the simulated one from the origin of
/// its arrivals (epoch seconds fit until the year 2554). Spans are plain `u64` nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);

    /// At no instant: past the end of the time line.
    pub const NEVER: Time = Time(u64::MAX);

    /// The instant, unless it is never.
    pub fn known(self) -> Option<Time> {
        Some(self).filter(|at| *at < Time::NEVER)
    }

    /// The instant `nanos` later; never, past the end of the time line.
    pub(crate) fn after(self, nanos: impl Into<u128>) -> Time {
        self.checked_add(nanos.into()).unwrap_or(Time::NEVER)
    }

    /// The instant `nanos` after the origin, or the nearest on the time line.
    pub(crate) fn clamped(nanos: i128) -> Time {
        Time(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// The instant `nanos` later, or `None` past the end of the time line.
    pub(crate) fn checked_add(self, nanos: u128) -> Option<Time> {
        let sum = u128::from(self.0).checked_add(nanos)?;
        u64::try_from(sum).ok().map(Time)
    }

    /// The instant `nanos` later, or the end of the time line.
    pub fn saturating_add(self, nanos: u64) -> Time {
        Time(self.0.saturating_add(nanos))
    }

    /// True from March 1973 on, if it counts from 1970. In seconds since any other start, no stamp is so late.
    pub(crate) fn is_dated(self) -> bool {
        self.0 >= 100_000_000 * SECOND
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The wall clock: maps the time line of a run to the calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "cli", serde(transparent))]
pub struct Wall {
    /// The time it shows at the origin of the run, in nanoseconds since 1970.
    origin: i128,
}

impl Wall {
    /// For runs whose origin is 1970: shows instants unchanged.
    pub const EPOCH: Wall = Wall { origin: 0 };

    /// A wall clock that is off by more nanoseconds than this was set. On Linux, it runs at the speed of the monotonic
    /// clock.
    const SET: u64 = 100_000;

    /// The clock that shows `shown`, since 1970, at `now` in the run.
    pub fn new(now: Time, shown: Time) -> Self {
        Wall { origin: i128::from(shown.0) - i128::from(now.0) }
    }

    /// Follows a clock that showed `shown` at `now`, or up to `within` nanoseconds before, if it has been set.
    /// Otherwise changes nothing, so that instants stay as far apart as they are in the run.
    pub fn follow(&mut self, now: Time, shown: Time, within: u64) {
        let found = Wall::new(now, shown);
        if found.differs(*self, Wall::SET.saturating_add(within)) {
            *self = found;
        }
    }

    /// True if it shows a time more than `nanos` before or after what `other` shows.
    pub fn differs(self, other: Wall, nanos: u64) -> bool {
        self.origin.abs_diff(other.origin) > nanos.into()
    }

    /// The time it shows at an instant of the run, since 1970, clamped to what a [`Time`] can hold.
    pub fn shows(self, at: Time) -> Time {
        Time::clamped(self.nanos(at))
    }

    /// As [`Wall::shows`], in nanoseconds, not clamped.
    pub fn nanos(self, at: Time) -> i128 {
        self.origin + i128::from(at.0)
    }

    /// The first instant of the run at which it shows `nanos` or more; `None` past the end of the time line.
    pub fn when(self, nanos: i128) -> Option<Time> {
        u64::try_from((nanos - self.origin).max(0)).ok().map(Time)
    }
}

/// The time that the system's wall clock shows now, since 1970.
pub fn shown() -> Time {
    Time(nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// A span in nanoseconds, at most what a [`Time`] can hold.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds with three decimals.
pub fn seconds(nanos: u64) -> String {
    format!("{}.{:03}", nanos / SECOND, nanos % SECOND / 1_000_000)
}

/// Seconds with exactly nine decimals, so no digit is lost.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / SECOND, self.0 % SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_on_the_wall_are_as_far_apart_as_in_the_run_unless_the_clock_is_set() {
        let at = |seconds: u64| Time(seconds * SECOND);
        let mut wall = Wall::new(at(5), at(1000));
        assert_eq!([at(0), at(5), at(7)].map(|at| wall.shows(at)), [at(995), at(1000), at(1002)]);
        wall.follow(at(6), Time(at(1001).0 - SECOND / 10), SECOND / 10);
        assert_eq!(wall.shows(at(7)), at(1002));
        wall.follow(at(8), at(990), SECOND / 10);
        assert_eq!(wall.shows(at(9)), at(991));
        assert_eq!(
            (wall.shows(Time(u64::MAX)), Wall::new(at(9), at(3)).shows(at(1))),
            (Time(u64::MAX), at(0))
        );
    }
}
