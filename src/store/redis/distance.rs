//! Whether a server is near enough for slots that are valid for a time D.

use std::time::Duration;

use crate::config::format_duration;

/// D must be at least this number of round trips.
pub(super) const ROUND_TRIPS: u64 = 3;

/// Slots that are valid for less than this, in nanoseconds, matter so much that a server is woken before it is asked
/// for them: that takes tenths of a millisecond.
pub(super) const SHORT: u64 = 5_000_000;

/// Says that answers take this number of nanoseconds, and what to do about it: a state cannot begin, or nothing is
/// released while they do. The margin of a state that `is_kept` applies to all who share it, so one process cannot
/// change it.
pub(super) fn too_long(round_trip: u64, validity: u64, is_kept: bool) -> String {
    let (takes, late) = (roughly(round_trip), roughly(validity));
    let millis = round_trip.saturating_mul(ROUND_TRIPS + 1).div_ceil(1_000_000).next_multiple_of(5);
    let margin = format_duration(millis * 1_000_000);
    let advice = match is_kept {
        true => format!(
            "the margin of this state, {late}: unless they get faster, reset it and give margin={margin} or \
             more in every limit of all runs"
        ),
        false => format!("releases that may be {late} late: give every limit margin={margin} or more"),
    };
    format!("its answers take {takes}, which is too long for {advice}")
}

/// Rounded, for people.
fn roughly(nanos: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(nanos))
}
