//! Instants on the command line: a date and a time, or a duration from the start of the run.

use std::str::FromStr;

use anyhow::{Context, Error, Result, anyhow, bail};
use jiff::civil::{self, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

use super::duration::parse_duration;
use crate::time::Time;

/// Parses a date, with or without a time, an offset and a zone. Without the last two, it is in the system's time zone.
///
/// # Errors
/// Not a date, not from 1970 to 2554, or with an offset that its zone does not have then.
pub fn parse_instant(text: &str) -> Result<Time> {
    let at = parse_timestamp(text, Some(&TimeZone::system()));
    let nanos = at.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
    if let Some(next) = next_of_day(text, &ZonedDateTime::now()) {
        bail!("'{text}' has no date: for the next one, write {}", next.strftime("%Y-%m-%dT%H:%M:%S"));
    }
    nanos.map(Time).with_context(|| {
        format!(
            "'{text}' is not a time from 1970 to 2554: write 2026-11-21, 2026-11-21T09:00, \
             2026-11-21T09:00Z, 2026-11-21T09:00+01:00 or 2026-11-21T09:00[Europe/Berlin], with an offset or \
             a zone, not both"
        )
    })
}

/// The next time after `now` that a clock shows a time of day, such as `9:00`. `None` if the text is none.
fn next_of_day(text: &str, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    let time = ["%H:%M", "%H:%M:%S"].iter().find_map(|format| civil::Time::strptime(format, text).ok())?;
    let days = [now.date(), now.date().tomorrow().ok()?].into_iter();
    let shown = days.filter_map(|day| day.to_datetime(time).to_zoned_datetime(now.time_zone().clone()).ok());
    shown.into_iter().find(|at| at > now)
}

/// The instant of a date, with or without a time, an offset and a zone. Without the last two, it is in `zone`.
pub fn parse_timestamp(text: &str, zone: Option<&TimeZone>) -> Option<Timestamp> {
    if text.contains('[') {
        // No other parser respects the zone.
        return text.parse::<ZonedDateTime>().ok().map(|at| at.timestamp());
    }
    let local = || text.parse::<DateTime>().ok()?.to_zoned_datetime(zone?.clone()).ok();
    text.parse().ok().or_else(|| local().map(|at| at.timestamp()))
}

/// The last instant at which something may be released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The instant at which the wall clock shows this, since 1970.
    At(Time),
    /// This number of nanoseconds after the start of the run.
    After(u64),
}

impl FromStr for Until {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // No duration contains these characters.
        let is_time = text.contains(['-', ':']) && !text.starts_with('-');
        if is_time {
            return parse_instant(text).map(Until::At);
        }
        let length = parse_duration(text);
        length.map(Until::After).map_err(|error| anyhow!("{error}, nor a time such as 2026-11-21T09:00"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn dates_and_times() {
        let at = 1_700_000_000;
        let table = [
            ("2023-11-14T22:13:20Z", at),
            ("2023-11-14 22:13:20Z", at),
            ("2023-11-14T23:13:20+01:00", at),
            ("2023-11-14T23:13:20[Europe/Berlin]", at),
            ("2023-11-14T23:13+01:00[Europe/Berlin]", at - 20),
            ("2023-11-14[UTC]", at - 80_000),
        ];
        for (text, seconds) in table {
            assert_eq!(parse_instant(text).unwrap(), Time(seconds * SECOND), "{text}");
        }
        for text in ["2023-11-14", "2023-11-14T22:13", "2023-11-14 22:13:20.5"] {
            let at =
                text.parse::<DateTime>().unwrap().to_zoned_datetime(TimeZone::system()).unwrap().timestamp();
            assert_eq!(i128::from(parse_instant(text).unwrap().0), at.as_nanosecond(), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_told_what_is() {
        for text in [
            "",
            "25:00",
            "noon",
            "2023-02-29",
            "2023-11-14T25:00",
            "1969-12-31",
            "2600-01-01",
            "1700000000",
            "2023-11-14[Mars]",
            "2023-11-14T22:13+99:00",
            "2023-11-14T23:13+05:00[Europe/Berlin]",
        ] {
            let error = parse_instant(text).expect_err(text).to_string();
            assert!(error.contains("from 1970 to 2554: write 2026-11-21,"), "{text}: {error}");
            // They may contradict each other.
            assert!(error.ends_with("an offset or a zone, not both"), "{text}: {error}");
        }
    }

    #[test]
    fn a_time_of_day_is_told_its_next_date() {
        let now: ZonedDateTime = "2026-12-31T09:00[Europe/Berlin]".parse().unwrap();
        for (text, next) in [
            ("9:00", Some("2027-01-01T09:00:00+01:00[Europe/Berlin]")),
            ("09:00:01", Some("2026-12-31T09:00:01+01:00[Europe/Berlin]")),
            ("00:00", Some("2027-01-01T00:00:00+01:00[Europe/Berlin]")),
            ("24:00", None),
            ("9", None),
        ] {
            let found = next_of_day(text, &now).map(|at| at.to_string());
            assert_eq!(found.as_deref(), next, "{text}");
        }
        let error = parse_instant("17:00").unwrap_err().to_string();
        let date = error.strip_prefix("'17:00' has no date: for the next one, write ").expect(&error);
        assert!(parse_instant(date).is_ok(), "{error}");
    }

    #[test]
    fn a_time_or_a_duration() {
        let until = |text: &str| text.parse::<Until>().unwrap();
        assert_eq!(until("1h30m"), Until::After(5400 * SECOND));
        assert_eq!(until("0"), Until::After(0));
        assert_eq!(until("2023-11-14T22:13:20Z"), Until::At(Time(1_700_000_000 * SECOND)));
        for (text, why) in [
            ("-1s", "duration"),
            ("tomorrow", "or 1h, nor a time such as 2026-11-21T09:00"),
            ("17:00", "has no date"),
            ("17:60", "from 1970 to 2554"),
        ] {
            let error = text.parse::<Until>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
