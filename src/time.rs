//! Instants, as whole nanoseconds since an origin that the world chooses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Nanoseconds in one second.
pub const SECOND: u64 = 1_000_000_000;

/// An instant: nanoseconds since an origin.
///
/// The real world counts from the start of the process on the monotonic clock, the simulated one from
/// wherever its arrivals do (epoch seconds fit until the year 2554). Spans are plain `u64` nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);

    /// The instant `nanos` later, or `None` past the end of the time line.
    pub fn checked_add(self, nanos: u128) -> Option<Time> {
        let sum = u128::from(self.0).checked_add(nanos)?;
        u64::try_from(sum).ok().map(Time)
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is the later of the two.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Seconds with exactly nine decimals, so that no digit is lost.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / SECOND, self.0 % SECOND)
    }
}
