//! Waking up at an instant: late by as little as can be had for the price, and never early.

use std::hint;
use std::thread;
use std::time::Duration;

use super::Clock;
use crate::time::{SECOND, Time};

/// The last stretch of a wait, which is passed without listening: a read may take some of it, and sleep is more exact.
const LAST_STRETCH: u64 = SECOND / 2000;

/// A sleep is over some tens of microseconds late. This much is not slept but spun through...
const SPIN: Duration = Duration::from_micros(100);

/// ... where the wait is so short that lateness adds up to a lower rate, and so long that spinning is a small part of
/// it. A shorter one is spun through altogether.
const WORTH_SPINNING: Duration = Duration::from_millis(20);

/// After a long wait there is no hurry. A receiver stamps what it gets some tens of microseconds late, and not always
/// by as much, so it would see bursts that are a period apart to the microsecond now and then closer than that. A
/// thousandth of the wait, up to this, keeps them apart for it, too.
const COURTESY: Duration = Duration::from_micros(300);

pub(super) fn last_stretch(until: Time) -> Time {
    Time(until.0.saturating_sub(LAST_STRETCH))
}

/// Blocks until `until`, in a wait that began at `since`; after a long one, a little longer. Returns whether `until`
/// has come; if not, the rest is short enough to spin.
pub(super) fn sleep(clock: Clock, since: Time, until: Time) -> bool {
    let wait = Duration::from_nanos(until.since(since));
    let left = Duration::from_nanos(until.since(clock.now()));
    match left.checked_sub(SPIN) {
        _ if wait > WORTH_SPINNING => thread::sleep(left + (wait / 1000).min(COURTESY)),
        Some(sleep) if !sleep.is_zero() => {
            thread::sleep(sleep);
            return clock.now() >= until;
        }
        _ => {}
    }
    while clock.now() < until {
        hint::spin_loop();
    }
    true
}

/// Has sleeps of this thread end as soon as the timer allows. Whatever it starts inherits that, so it is for runs
/// without commands.
pub(crate) fn sharpen() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_timerslack(1);
}
