//! Measures if a server is near enough for slots that are good until a deadline.

use std::time::Duration;

use super::failure::ServerFailure;
use crate::config::format_duration;
use crate::time::Time;

/// The number of round trips that D has to be long enough for.
pub(super) const ROUND_TRIPS: u64 = 3;

/// The first answers of a busy machine are slow: this number is waited for until one is fast enough.
const TRIALS: usize = 8;

/// Nanoseconds after which any answer will do, while margins are chosen by it.
pub(super) const CHOOSING: u64 = 50_000_000;

/// The nanoseconds of the fastest answer to `probe`, and the last answer. One that comes within `enough` ends it, or
/// after `longest` any but the first, which may have had the script to send.
pub(super) fn round_trip<T>(
    now: &dyn Fn() -> Time,
    (enough, longest): (u64, u64),
    mut probe: impl FnMut() -> Result<T, ServerFailure>,
) -> Result<(u64, T), ServerFailure> {
    let (start, mut nearest, mut trial) = (now(), u64::MAX, 0);
    loop {
        let asked = now();
        let found = probe()?;
        let answered = now();
        nearest = nearest.min(answered.since(asked));
        trial += 1;
        if nearest <= enough || trial == TRIALS || (trial > 1 && answered.since(start) > longest) {
            return Ok((nearest, found));
        }
    }
}

/// The margin, in nanoseconds, that fits answers which take this long.
pub(super) fn required_margin(round_trip: u64) -> u64 {
    round_trip.saturating_mul(ROUND_TRIPS).next_multiple_of(100_000)
}

/// Says that answers take this number of nanoseconds, and what to do about it: a state cannot begin, or nothing is
/// released while they do. The margin of a state that `is_kept` is in force among all who share it, so it cannot be
/// changed by one.
pub(super) fn too_long(round_trip: u64, deadline: u64, is_kept: bool) -> String {
    let (takes, late) = (roughly(round_trip), roughly(deadline));
    let margin = as_margin(round_trip.saturating_mul(ROUND_TRIPS + 1));
    let advice = match is_kept {
        true => format!(
            "the margin of this state, {late}: unless they get faster, begin it anew with margin={margin} or more in \
             every limit of all runs"
        ),
        false => format!("releases that may be {late} late: give every limit margin={margin} or more"),
    };
    format!("its answers take {takes}, which is too long for {advice}")
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
