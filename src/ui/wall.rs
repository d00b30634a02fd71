//! Times as a clock on the wall shows them.

use std::time::Duration;

use jiff::Zoned;

/// What the clock will show in so many nanoseconds, and the day if that is not today.
pub(super) fn clock_in(nanos: u64) -> String {
    let now = Zoned::now();
    match now.checked_add(Duration::from_nanos(nanos)) {
        Ok(at) => clock(&now, &at),
        Err(_) => "in the far future".to_owned(),
    }
}

/// What the clock will show in so many nanoseconds, with seconds, and the date if that is not today.
pub(super) fn clock_to_the_second(nanos: u64) -> String {
    let now = Zoned::now();
    // The next whole second: not before it is over.
    let at = now.checked_add(Duration::from_nanos(nanos.saturating_add(999_999_999)));
    at.map_or_else(
        |_| "the far future".to_owned(),
        |at| at.strftime(if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" }).to_string(),
    )
}

fn clock(now: &Zoned, at: &Zoned) -> String {
    let days = at.date() - now.date();
    let format = match days.get_days() {
        0 => "%H:%M",
        1..=6 => "%a %H:%M",
        _ => "%Y-%m-%d",
    };
    at.strftime(format).to_string()
}

/// A duration in its two largest units: `9 h 0 min`.
pub(super) fn words(nanos: u64) -> String {
    let millis = Duration::from_nanos(nanos).as_millis();
    let seconds = millis.div_ceil(1000);
    match seconds {
        0 => "no time".to_owned(),
        _ if millis < 10_000 => format!("{}.{:03} s", millis / 1000, millis % 1000),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn a_clock_shows_the_day_only_if_it_is_another() {
        let now: Zoned = "2026-11-21T15:42:07[UTC]".parse().unwrap();
        let table = [
            (0, "15:42"),
            (8 * 3600, "23:42"),
            (9 * 3600, "Sun 00:42"),
            (6 * 86400, "Fri 15:42"),
            (7 * 86400, "2026-11-28"),
            (40 * 86400, "2026-12-31"),
        ];
        for (seconds, shown) in table {
            let at = now.checked_add(Duration::from_secs(seconds)).unwrap();
            assert_eq!(clock(&now, &at), shown, "in {seconds} s");
        }
        assert_eq!(clock_in(u64::MAX), clock_in(u64::MAX));
    }

    #[test]
    fn durations_in_words() {
        let table = [
            (0, "no time"),
            (SECOND / 4, "0.250 s"),
            (12 * SECOND, "12 s"),
            (240 * SECOND, "4 min 0 s"),
            (9 * 3600 * SECOND, "9 h 0 min"),
            (30 * 3600 * SECOND, "1 d 6 h"),
        ];
        for (nanos, expected) in table {
            assert_eq!(words(nanos), expected);
        }
    }
}
