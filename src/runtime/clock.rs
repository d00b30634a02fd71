//! The clocks that runs go by.

use std::time::Instant;

use nix::time::{ClockId, clock_gettime};

use crate::time::{Time, nanos};

/// A clock that never goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// Counts from the instant at which it was made, and not the time that the machine is suspended: so a suspend can
    /// only make us later.
    Monotonic(Instant),
    /// Counts from the start of the machine, suspended or not: the same for all processes.
    Boot,
}

impl Clock {
    /// A monotonic clock that shows 0 now.
    pub(crate) fn start() -> Self {
        Clock::Monotonic(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        match self {
            Clock::Monotonic(origin) => Time(nanos(origin.elapsed())),
            Clock::Boot => {
                let now = clock_gettime(BOOT).expect("every system that has this clock can read it");
                Time(nanos(now.into()))
            }
        }
    }
}

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
/// Elsewhere the monotonic clock starts with the machine; it may stand still while that is suspended.
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::CLOCK_MONOTONIC;
