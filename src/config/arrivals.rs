//! `--arrivals [SEL][,tz=ZONE][,year=YEAR]`: where the time stamp of a record is, and how to read it.

use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;

use super::rate_text::split_options;
use super::selector::Selector;
use crate::time::Zone;

/// Where the time stamp of a record is, and how to read one that leaves out its zone or year.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// Records have no stamps: each is judged when it arrives.
    pub is_now: bool,
    /// The part that holds the stamp. Without it, the first field; in a job log, the start of the job.
    pub selector: Option<Selector>,
    /// The time zone of stamps that name none.
    pub zone: Option<TimeZone>,
    /// The year of the first stamp, if stamps name none.
    pub year: Option<u16>,
    /// The most nanoseconds by which stamps may be out of order.
    pub unsorted: Option<u64>,
}

/// In seconds.
const DAY: i32 = 86_400;

impl FromStr for Arrivals {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut arrivals = Arrivals::default();
        for part in split_options(text, &["tz", "year"]) {
            let is_repeated = match part.split_once('=') {
                Some(("tz", value)) => arrivals.zone.replace(parse_zone(value)?).is_some(),
                Some(("year", value)) => arrivals.year.replace(parse_year(value)?).is_some(),
                _ if part == "now" => std::mem::replace(&mut arrivals.is_now, true),
                _ if arrivals.selector.is_some() => true,
                _ => arrivals.selector.replace(Selector::parse_part(part)?).is_some(),
            };
            ensure!(!is_repeated, "'{part}': there may be one selector, one tz= and one year=");
        }
        ensure!(!arrivals.is_now || text == "now", "now stands alone: the items have no time stamps");
        Ok(arrivals)
    }
}

fn parse_year(text: &str) -> Result<u16> {
    let year = text.parse().ok().filter(|year| (1970..=2554).contains(year));
    year.with_context(|| format!("'{text}' is not a year from 1970 to 2554, such as year=2024"))
}

/// `UTC`, `+01:00`, `local`, or a name of the time zone database.
pub(super) fn parse_zone(name: &str) -> Result<TimeZone> {
    match name {
        "UTC" | "Z" | "z" => Ok(TimeZone::UTC),
        "local" => Ok(Zone::local()?.rules()),
        _ => {
            ensure!(!name.is_empty(), "a time zone is needed, such as tz=Europe/Berlin");
            let zone = DateTimeParser::new().parse_time_zone(name).ok();
            // jiff accepts offsets of more than a day.
            let is_far = |zone: &TimeZone| zone.to_fixed_offset().is_ok_and(|it| it.seconds().abs() >= DAY);
            zone.filter(|zone| !is_far(zone)).with_context(|| {
                format!("no time zone '{name}': use UTC, local, +01:00 or a name such as Europe/Berlin")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    #[test]
    fn a_zone_follows_the_selector_or_stands_alone() {
        let parse = |text: &str| text.parse::<Arrivals>().unwrap();
        assert_eq!(parse("col:2").selector, Some("col:2".parse().unwrap()));
        assert_eq!(parse("col:2").zone, None);
        assert_eq!(parse("re:a,b,tz=UTC").selector, Some("re:a,b".parse().unwrap()));
        assert_eq!(parse("tz=UTC"), Arrivals { zone: Some(TimeZone::UTC), ..Arrivals::default() });
        let dated = Arrivals { year: Some(2024), ..parse("col:2,tz=UTC") };
        assert_eq!(
            (parse("col:2,tz=UTC,year=2024"), parse("col:2,year=2024,tz=UTC")),
            (dated.clone(), dated)
        );
        assert_eq!(parse("year=2024"), Arrivals { year: Some(2024), ..Arrivals::default() });
        let east = TimeZone::fixed(Offset::from_seconds(5400).unwrap());
        for text in ["tz=+01:30", "tz=+0130"] {
            assert_eq!(parse(text).zone, Some(east.clone()), "{text}");
        }
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        for text in [
            "tz=",
            "year=",
            "year=24",
            "tz=UTC,year=x",
            "col:1,year=2600",
            "col:1,tz=UTC,tz=Z",
            "year=2024,year=2024",
            "tz=Mars/Olympus",
            "tz=+1",
            "tz=+01:60",
            "tz=+99:00",
            "tz=+25:00",
            "tz=-24:00",
            "col:1,tz=é",
            "first",
            "now,tz=UTC",
            "col:1,now",
        ] {
            assert!(text.parse::<Arrivals>().is_err(), "{text}");
        }
    }
}
