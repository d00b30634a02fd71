//! Times as a wall clock shows them.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

use crate::config::rounded_duration;
use crate::time::{SECOND, Time, Wall, seconds};

/// Instants up to this far away are shown with seconds, as minutes would say little.
const SOON: u64 = 300 * SECOND;

/// The time that `wall` shows at an instant, with its zone, and with the day if it is not that of `now`.
pub(super) fn clock_at(wall: Wall, now: Time, at: Time) -> String {
    if at.since(now) <= SOON {
        return clock_to_the_second(wall, now, at);
    }
    clock(&zoned(wall, now), &zoned(wall, at))
}

fn clock(now: &ZonedDateTime, at: &ZonedDateTime) -> String {
    let days = at.date() - now.date();
    let format = match days.get_days() {
        0 => "%H:%M %Z",
        1..=6 => "%a %H:%M %Z",
        _ => "%Y-%m-%d %H:%M %Z",
    };
    at.strftime(format).to_string()
}

/// Like [`clock_at`], but always with seconds, and with the date if it is not that of `now`. Rounded up to a whole
/// second, so never too early.
pub(super) fn clock_to_the_second(wall: Wall, now: Time, at: Time) -> String {
    let (now, at) = (zoned(wall, now), zoned(wall, at.saturating_add(SECOND - 1)));
    at.strftime(if at.date() == now.date() { "%H:%M:%S %Z" } else { "%Y-%m-%d %H:%M:%S %Z" }).to_string()
}

/// In the system's zone. The calendar reaches far beyond the last [`Time`].
fn zoned(wall: Wall, at: Time) -> ZonedDateTime {
    let timestamp = Timestamp::from_nanosecond(wall.shows(at).0.into()).unwrap_or(Timestamp::MAX);
    timestamp.to_zoned_datetime(TimeZone::system())
}

/// A duration in its two largest units, `9 h 0 min`, rounded down: what is told is never longer than what was.
pub(super) fn words(nanos: u64) -> String {
    let whole = nanos / SECOND;
    match whole {
        0 if nanos == 0 => "no time".to_owned(),
        0..10 => format!("{} s", seconds(nanos)),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86400, whole % 86400 / 3600),
    }
}

/// A duration rounded up to whole seconds.
pub(super) fn whole_seconds(nanos: u64) -> String {
    rounded_duration(nanos.div_ceil(SECOND).saturating_mul(SECOND))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_shows_the_day_only_if_it_is_another() {
        let now: ZonedDateTime = "2026-11-21T15:42:07[UTC]".parse().unwrap();
        let table = [
            (0, "15:42 UTC"),
            (8 * 3600, "23:42 UTC"),
            (9 * 3600, "Sun 00:42 UTC"),
            (6 * 86400, "Fri 15:42 UTC"),
            (7 * 86400, "2026-11-28 15:42 UTC"),
            (40 * 86400, "2026-12-31 15:42 UTC"),
        ];
        for (seconds, shown) in table {
            let at = now.checked_add(Duration::from_secs(seconds)).unwrap();
            assert_eq!(clock(&now, &at), shown, "in {seconds} s");
        }
        assert_eq!(zoned(Wall::default(), Time(u64::MAX)).year(), 2554);
    }

    #[test]
    fn what_is_soon_is_told_to_the_second_and_not_before_it_is_over() {
        let ends = |nanos| clock_at(Wall::default(), Time(0), Time(nanos));
        assert_eq!(ends(1), ends(SECOND));
        assert_ne!(ends(SECOND), ends(SECOND + 1));
        // In any zone: those with parts of an hour are whole minutes away.
        assert!(ends(300 * SECOND).contains(":00 "));
        assert!(ends(41 * SECOND).contains(":41 "), "{}", ends(41 * SECOND));
        let later = ends(301 * SECOND);
        assert_eq!(later.matches(':').count(), 1, "{later}");
    }

    #[test]
    fn durations_in_words() {
        let table = [
            (0, "no time"),
            (1, "0.000 s"),
            (SECOND / 4, "0.250 s"),
            (10 * SECOND - 1, "9.999 s"),
            (13 * SECOND - 1, "12 s"),
            (240 * SECOND, "4 min 0 s"),
            (9 * 3600 * SECOND, "9 h 0 min"),
            (31 * 3600 * SECOND - 1, "1 d 6 h"),
        ];
        for (nanos, expected) in table {
            assert_eq!(words(nanos), expected);
        }
    }
}
