//! Time zones, and the time that their clocks show.
//!
//! Instants are signed nanoseconds since 1970: the day or period around the epoch may begin before it.

use std::env;
use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, anyhow, bail};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, tz};

use super::SECOND;

/// Nanoseconds in one day of 24 hours.
pub(super) const DAY: i128 = 86_400 * SECOND as i128;

/// More than any zone is away from UTC, in nanoseconds.
const FAR: i128 = 26 * 3600 * SECOND as i128;

/// A zone of the system's database. Zones are never freed, so they are cheap to copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone(&'static TimeZone);

impl Zone {
    /// The zone of the system: `TZ`, or `/etc/localtime`, or UTC if there is neither.
    ///
    /// # Errors
    /// `TZ` is set, but is no zone.
    pub fn local() -> Result<Self> {
        let name = env::var_os("TZ").filter(|name| !name.is_empty());
        match (TimeZone::try_system(), name) {
            (Ok(rules), _) => Ok(Zone::new(rules)),
            (Err(_), None) => Ok(Zone::utc()),
            (Err(_), Some(name)) => Zone::named(&name.to_string_lossy(), "UTC")
                .map_err(|error| anyhow!("$TZ is not a time zone: {error}; or add tz=")),
        }
    }

    /// UTC is known without a database, too: small containers have none. An error offers `others` beside the names in
    /// the database.
    fn named(name: &str, others: &str) -> Result<Self> {
        match TimeZone::get(name) {
            Ok(rules) => Ok(Zone::new(rules)),
            Err(_) if ["UTC", "Etc/UTC"].iter().any(|utc| utc.eq_ignore_ascii_case(name)) => Ok(Zone::utc()),
            Err(_) if tz::db().is_definitively_empty() => {
                bail!("the system has no time zones in /usr/share/zoneinfo: install tzdata, or use UTC")
            }
            Err(_) => {
                bail!("unknown zone: use {others} or one in /usr/share/zoneinfo, such as Europe/Berlin")
            }
        }
    }

    pub(crate) fn utc() -> Self {
        static UTC: TimeZone = TimeZone::UTC;
        Zone(&UTC)
    }

    /// A few bytes for each mention of a zone: the system's database has its rules only once.
    fn new(rules: TimeZone) -> Self {
        Zone(Box::leak(Box::new(rules)))
    }

    /// Its rules.
    pub(crate) fn rules(self) -> TimeZone {
        self.0.clone()
    }

    /// The nanoseconds by which clocks are ahead of UTC from `at` on, and the instant at which that changes.
    pub(super) fn offset(self, at: i128) -> (i128, i128) {
        let at = timestamp(at);
        let offset = self.0.to_offset(at);
        let next = self.0.following(at).next().map(|next| next.timestamp().as_nanosecond());
        (i128::from(offset.seconds()) * i128::from(SECOND), next.unwrap_or(i128::MAX))
    }

    pub(super) fn date(self, at: i128) -> Date {
        self.0.to_datetime(timestamp(at)).date()
    }

    /// The first instant at which clocks show this date, or a later date if the zone skips it.
    pub(super) fn first_of(self, date: Date) -> i128 {
        let shown =
            DateTime::from(date).to_zoned_datetime(TimeZone::UTC).map_or(Timestamp::MAX, |at| at.timestamp());
        let midnight = shown.as_nanosecond();
        let mut from = midnight - FAR;
        loop {
            let (offset, until) = self.offset(from);
            let at = from.max(midnight - offset);
            if at < until {
                return at;
            }
            from = until;
        }
    }
}

/// The name of the system's zone if it has no other.
const LOCAL: &str = "local";

/// Clamps only what is far beyond a [`Time`](super::Time).
fn timestamp(at: i128) -> Timestamp {
    Timestamp::from_nanosecond(at).unwrap_or(Timestamp::MAX)
}

impl FromStr for Zone {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == LOCAL { Zone::local() } else { Zone::named(text, "local, UTC") }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or(LOCAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_known_by_its_name() {
        let zone = |text: &str| text.parse::<Zone>();
        assert_eq!(zone("Europe/Berlin").unwrap(), zone("europe/berlin").unwrap());
        assert_ne!(zone("Europe/Berlin").unwrap(), zone("Europe/Paris").unwrap());
        assert_eq!(zone("Europe/Berlin").unwrap().to_string(), "Europe/Berlin");
        assert_eq!(zone("local").unwrap(), Zone::local().unwrap());
        for text in ["Mars", "", "+01:00", "Europe"] {
            let error = zone(text).unwrap_err().to_string();
            assert!(error.starts_with("unknown zone: use local, UTC"), "{text}: {error}");
        }
    }

    /// Clocks that jump from 23:30 to 00:30, show midnight twice, or skip a date.
    #[test]
    fn a_date_begins_when_it_is_first_shown() {
        let table = [
            ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z"),
            ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),
            ("America/Toronto", "1919-03-31", "1919-03-31T04:30:00Z"),
            ("America/St_Johns", "2006-10-29", "2006-10-29T02:30:00Z"),
            ("America/Havana", "2025-11-02", "2025-11-02T04:00:00Z"),
            ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),
            ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"),
            ("Asia/Kathmandu", "1986-01-01", "1985-12-31T18:30:00Z"),
        ];
        for (zone, date, first) in table {
            let found = zone.parse::<Zone>().unwrap().first_of(date.parse().unwrap());
            assert_eq!(timestamp(found).to_string(), first, "{zone} {date}");
        }
    }
}
