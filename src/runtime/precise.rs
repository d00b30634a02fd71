//! Waking up at an instant: never early, and late by as little as is worth the CPU time.

use std::hint;
use std::thread;
use std::time::Duration;

use super::Clock;
use crate::time::{SECOND, Time};

/// The last stretch of a wait, in nanoseconds, in which nothing is listened to: a read could make us late, and sleep is
/// more exact than polling.
const LAST_STRETCH: u64 = SECOND / 2000;

/// A sleep ends some tens of microseconds late. This much is spun through instead ...
const SPIN: Duration = Duration::from_micros(100);

/// ... if the wait is so short that lateness would lower the rate, and so long that spinning is a small part of it. A
/// shorter wait is spun through entirely.
const WORTH_SPINNING: Duration = Duration::from_millis(20);

/// After a long wait there is no hurry. A receiver stamps what it gets some tens of microseconds late, and not always
/// equally late. Bursts that are exactly a period apart would now and then look closer to it. A thousandth of the wait,
/// up to this, keeps them apart for the receiver, too.
const COURTESY: Duration = Duration::from_micros(300);

pub(super) fn last_stretch(until: Time) -> Time {
    Time(until.0.saturating_sub(LAST_STRETCH))
}

/// Blocks until `until`, in a wait that began at `since`; after a long wait, a little longer, unless slots may be over
/// by then. Returns whether `until` has come; if not, the rest is short enough to spin.
pub(super) fn sleep(clock: Clock, since: Time, until: Time, has_slots: bool) -> bool {
    let wait = Duration::from_nanos(until.since(since));
    let left = Duration::from_nanos(until.since(clock.now()));
    match left.checked_sub(SPIN) {
        _ if wait > WORTH_SPINNING && !has_slots => thread::sleep(left + (wait / 1000).min(COURTESY)),
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

/// Makes sleeps of this thread end as soon as the timer allows. Whatever the thread starts inherits this, so it is only
/// for runs without commands.
pub(crate) fn sharpen() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_timerslack(1);
}
