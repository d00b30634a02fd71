//! Measures whether a server is near enough for slots that are valid until a deadline.

use std::time::Duration;

use super::failure::ServerFailure;
use super::script::BookedSlots;
use crate::config::format_duration;

/// D must be at least this number of round trips.
pub(super) const ROUND_TRIPS: u64 = 3;

/// The first answers of a busy machine are slow: it is asked up to this number of times until one is fast enough.
const TRIALS: usize = 8;

/// The nanoseconds after which any answer will do while margins are being chosen by it, and the number of answers that
/// are waited for all the same: the margins stay, and a server may stand still for a moment.
pub(super) const CHOOSING: u64 = 50_000_000;
const LEAST_TRIALS: usize = 4;

/// The nanoseconds of the fastest answer to `probe`, and whether the state is kept. Stops at an answer within `enough`;
/// or, after `longest`, at any but the first few. For the first, the script may have had to be sent.
pub(super) fn round_trip(
    enough: u64,
    longest: u64,
    mut probe: impl FnMut() -> Result<BookedSlots, ServerFailure>,
) -> Result<(u64, bool), ServerFailure> {
    let (mut start, mut nearest, mut trial) = (None, u64::MAX, 0);
    loop {
        let booked = probe()?;
        let start = *start.get_or_insert(booked.exchange.asked);
        nearest = nearest.min(booked.exchange.round_trip());
        trial += 1;
        let is_long = trial >= LEAST_TRIALS && booked.exchange.answered.since(start) > longest;
        if nearest <= enough || trial == TRIALS || is_long {
            return Ok((nearest, booked.is_kept));
        }
    }
}

/// The margin, in nanoseconds, for answers that take this long.
pub(super) fn required_margin(round_trip: u64) -> u64 {
    round_trip.saturating_mul(ROUND_TRIPS).next_multiple_of(100_000)
}

/// Says that answers take this number of nanoseconds, and what to do about it: a state cannot begin, or nothing is
/// released while they do. The margin of a state that `is_kept` applies to all who share it, so one process cannot
/// change it.
pub(super) fn too_long(round_trip: u64, deadline: u64, is_kept: bool) -> String {
    let (takes, late) = (roughly(round_trip), roughly(deadline));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::clock::Exchange;
    use crate::store::redis::script::Found;
    use crate::time::Time;

    const MS: u64 = 1_000_000;

    /// The fastest of answers that take these milliseconds, and how many are waited for.
    fn fastest(answers: &[u64]) -> (u64, usize) {
        let (mut now, mut asked) = (0, 0);
        let probe = || {
            let start = Time(now);
            now += answers[asked] * MS;
            asked += 1;
            let exchange = Exchange { asked: start, server: 0, answered: Time(now) };
            Ok(BookedSlots {
                exchange,
                ask_again: None,
                next: None,
                turn: None,
                found: Found::Nothing,
                is_kept: false,
                held: None,
                slots: Vec::new(),
                seen: Vec::new(),
            })
        };
        let (nearest, _) = round_trip(5 * MS, CHOOSING, probe).unwrap();
        (nearest / MS, asked)
    }

    #[test]
    fn a_server_that_stands_still_at_first_is_not_taken_to_be_far() {
        let table: [(&[u64], (u64, usize)); 4] = [
            (&[3, 9], (3, 1)),
            (&[30, 200, 1, 9], (1, 3)),
            (&[90, 80, 80, 85, 70], (80, 4)),
            (&[8; 9], (8, 7)),
        ];
        for (answers, expected) in table {
            assert_eq!(fastest(answers), expected, "{answers:?}");
        }
    }
}
