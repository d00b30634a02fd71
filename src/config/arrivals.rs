//! `--arrivals [SEL][,tz=ZONE]`: where a record says when it happened, and how that is read.

use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};
use jiff::tz::{Offset, TimeZone};

use super::selector::Selector;

/// Where the time stamp of a record is, and what it is short of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// The part that holds it. Without it, the first field; in a log of jobs, the start of the job.
    pub selector: Option<Selector>,
    /// The time zone of stamps that name none.
    pub zone: Option<TimeZone>,
    /// How far stamps may be out of order, in nanoseconds.
    pub unsorted: Option<u64>,
}

/// Separates the selector from the zone. A regular expression may contain commas, but hardly this.
const ZONE: &str = "tz=";

impl FromStr for Arrivals {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (selector, zone) = match text.strip_prefix(ZONE) {
            Some(zone) => (None, Some(zone)),
            None => match text.rsplit_once(",tz=") {
                Some((selector, zone)) => (Some(selector), Some(zone)),
                None => (Some(text), None),
            },
        };
        Ok(Arrivals {
            selector: selector.map(Selector::parse_part).transpose()?,
            zone: zone.map(parse_zone).transpose()?,
            unsorted: None,
        })
    }
}

/// `UTC`, `+01:00`, `local`, or a name of the time zone database.
fn parse_zone(name: &str) -> Result<TimeZone> {
    match name {
        "UTC" | "Z" | "z" => Ok(TimeZone::UTC),
        "local" => Ok(TimeZone::system()),
        _ if name.starts_with(['+', '-']) => parse_offset(name)
            .map(TimeZone::fixed)
            .with_context(|| format!("'{name}' is not an offset such as +01:00")),
        _ => {
            ensure!(!name.is_empty(), "a time zone is needed, such as tz=Europe/Berlin");
            TimeZone::get(name).ok().with_context(|| {
                format!("no time zone '{name}': there are UTC, local, +01:00 and names such as Europe/Berlin")
            })
        }
    }
}

/// `+01`, `+0100` or `+01:00`.
fn parse_offset(text: &str) -> Option<Offset> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits: String = text.get(1..)?.replacen(':', "", 1);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes) = match digits.len() {
        2 if is_number => (digits.parse::<i32>().ok()?, 0),
        4 if is_number => (digits[..2].parse().ok()?, digits[2..].parse::<i32>().ok()?),
        _ => return None,
    };
    if minutes > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_follows_the_selector_or_stands_alone() {
        let parse = |text: &str| text.parse::<Arrivals>().unwrap();
        assert_eq!(parse("col:2").selector, Some("col:2".parse().unwrap()));
        assert_eq!(parse("col:2").zone, None);
        assert_eq!(parse("re:a,b,tz=UTC").selector, Some("re:a,b".parse().unwrap()));
        assert_eq!(parse("tz=UTC"), Arrivals { zone: Some(TimeZone::UTC), ..Arrivals::default() });
        let east = TimeZone::fixed(Offset::from_seconds(5400).unwrap());
        for text in ["tz=+01:30", "tz=+0130"] {
            assert_eq!(parse(text).zone, Some(east.clone()), "{text}");
        }
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        for text in ["tz=", "tz=Mars/Olympus", "tz=+1", "tz=+01:60", "tz=+99:00", "col:1,tz=é", "first"] {
            assert!(text.parse::<Arrivals>().is_err(), "{text}");
        }
    }
}
