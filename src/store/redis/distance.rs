//! Whether a server is near enough for slots that are good until a deadline.

use std::thread;
use std::time::Duration;

use redis::cmd;

use super::connection::Connection;
use super::failure::Failure;
use crate::config::format_duration;
use crate::time::Time;

/// A round trip has to fit into D so many times.
const ROUND_TRIPS: u64 = 4;

/// The first answers of a busy machine are slow: so many are waited for until one is fast enough.
const TRIALS: usize = 8;

/// A usual one so many times.
const USUAL_ROUND_TRIPS: u64 = 3;

/// An answer that fits into D so many times leaves no doubt.
const AMPLE_ROUND_TRIPS: u64 = 8;

/// So long it is tried how far a server is, in nanoseconds.
const ENOUGH: u64 = 50_000_000;

/// While nothing is asked, both sides fall asleep.
const PAUSE: Duration = Duration::from_millis(10);

/// Before anything is released: whether answers come in time for slots to be of use.
pub(super) fn ensure_near(
    connection: &mut Connection,
    now: &dyn Fn() -> Time,
    deadline: u64,
) -> Result<(), Failure> {
    let mut nearest = u64::MAX;
    for _ in 0..TRIALS {
        let asked = now();
        connection.query::<redis::Value>(&cmd("PING"))?;
        nearest = nearest.min(now().since(asked));
        if nearest.saturating_mul(ROUND_TRIPS) <= deadline {
            return Ok(());
        }
    }
    Err(Failure::refused(too_far(nearest, deadline)))
}

/// How long an answer to `probe` takes now, in nanoseconds: the median of some, with pauses, as there are between bookings.
/// Ends with the first that says something, and at once if the deadline leaves plenty of time.
pub(super) fn round_trip<T>(
    now: &dyn Fn() -> Time,
    deadline: u64,
    mut probe: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<Result<u64, T>, Failure> {
    let start = now();
    let mut took = Vec::new();
    while took.len() < 2 || now().since(start) < ENOUGH {
        let asked = now();
        if let Some(said) = probe()? {
            return Ok(Err(said));
        }
        let last = now().since(asked);
        if last.saturating_mul(AMPLE_ROUND_TRIPS) <= deadline {
            return Ok(Ok(last));
        }
        took.push(last);
        thread::sleep(PAUSE);
    }
    took.sort_unstable();
    // Of two, the first has had the script to send.
    Ok(Ok(took[(took.len() - 1) / 2]))
}

/// The margin that fits answers that take so long, in nanoseconds.
pub(super) fn required_margin(round_trip: u64) -> u64 {
    round_trip.saturating_mul(USUAL_ROUND_TRIPS).next_multiple_of(100_000)
}

/// Why nothing is released if answers take so many nanoseconds, and what to do about it.
pub(super) fn too_far(round_trip: u64, deadline: u64) -> String {
    format!(
        "its answers take {}, which is too long for releases that may be {} late: give every limit margin={} or more",
        roughly(round_trip),
        roughly(deadline),
        as_margin(round_trip.saturating_mul(ROUND_TRIPS + 1)),
    )
}

/// A number of milliseconds, rounded up, as it is written in `margin=`.
fn as_margin(nanos: u64) -> String {
    let millis = nanos.div_ceil(1_000_000).next_multiple_of(5);
    format_duration(millis * 1_000_000)
}

/// For people.
fn roughly(nanos: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(nanos))
}
