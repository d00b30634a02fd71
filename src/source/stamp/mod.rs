//! Time stamps: seconds to nanoseconds since 1970, RFC 3339, ISO 8601, common log format, syslog.
//!
//! The text is parsed by hand: an audit reads millions of stamps a second, and a stamp may continue in the next fields.
//! [`jiff`] provides the calendar and the time zones.

mod calendar;
mod epoch;
mod year;

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone};

use self::calendar::DateTime;
use self::year::Years;
use crate::config::{Arrivals, parse_timestamp};
use crate::time::{SECOND, Time};

/// Why a text is not a time stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It has none of the known forms.
    Unknown,
    NoZone,
    NoYear,
    OutOfRange,
}

impl Fault {
    /// True of a time that lacks a part.
    pub(crate) fn is_incomplete(self) -> bool {
        matches!(self, Fault::NoZone | Fault::NoYear)
    }

    /// The fault in words. `selector` is the part of the record that was read, as it is typed.
    pub(crate) fn explain(self, selector: &str) -> String {
        match self {
            Fault::Unknown => "not a time: use seconds with up to 9 decimals, ms, us or ns since 1970, RFC 3339, \
                               ISO 8601 with a time of day, or the format of syslog or of web server access logs"
                .to_owned(),
            Fault::NoZone => format!("a time without a zone: add one, as in --arrivals {selector},tz=UTC"),
            Fault::NoYear => format!(
                "a date without a year that fits between the one before it and now: give the year of the first, \
                 as in --arrivals {selector},tz=UTC,year=2024"
            ),
            Fault::OutOfRange => "not between the years 1970 and 2554".to_owned(),
        }
    }
}

/// Reads stamps of any known form.
pub(crate) struct Stamps {
    /// The zone of stamps that name none.
    zone: Option<TimeZone>,
    /// A minute of local time, and the offsets of the zone then.
    cached: Option<(i64, Offsets)>,
    /// The last instant, and by how much the next one may be before it, in nanoseconds.
    last: (Time, u64),
    /// The years of stamps that name none.
    years: Years,
    is_calendar: bool,
}

/// The number of seconds that a zone is ahead of UTC at a local time; if clocks show it a second time, also the number
/// from then on, and when they are set back, in seconds since 1970.
type Offsets = (i64, Option<(i64, i64)>);

impl Stamps {
    /// Stamps that are read, and may be out of order, as `arrivals` says.
    pub(crate) fn new(Arrivals { zone, year, unsorted, .. }: &Arrivals) -> Self {
        let years = Years::new(year.map(i64::from), || Timestamp::now().as_second());
        let last = (Time::ZERO, unsorted.unwrap_or(0));
        Stamps { zone: zone.clone(), cached: None, last, years, is_calendar: false }
    }

    /// True if the last stamp was a date and a time, not a number.
    pub(crate) fn is_calendar(&self) -> bool {
        self.is_calendar
    }

    /// The instant of the stamp in `field`. `text` is the record from `field` on, as a stamp may continue after its
    /// field.
    ///
    /// # Errors
    /// The field does not begin a time stamp, or the zone or year cannot be known.
    pub(crate) fn read(&mut self, field: &[u8], text: &[u8]) -> Result<Time, Fault> {
        // What follows a comma is another column, not the decimals of this one.
        let text = if text.get(field.len()) == Some(&b',') { field } else { text };
        let at = epoch::read(field);
        self.is_calendar = at.is_none();
        let at = at.unwrap_or_else(|| self.read_calendar(field, text)).or_else(|fault| {
            let rare = self.read_rare(field, text);
            rare.map_err(|rare| if fault == Fault::Unknown { rare } else { fault })
        })?;
        self.last.0 = self.last.0.max(at);
        Ok(at)
    }

    /// Reads the rarer forms of RFC 3339 and ISO 8601, such as times without seconds. Refuses a date alone, whose time
    /// may be in the next field in an unknown form, and a time whose zone is in the next field.
    fn read_rare(&self, field: &[u8], text: &[u8]) -> Result<Time, Fault> {
        let has_time = |stamp: &&str| stamp.contains(['T', 't', ' ']);
        let stamp = str::from_utf8(field).ok().filter(has_time).ok_or(Fault::Unknown)?;
        let rest = text.get(field.len()..).unwrap_or_default();
        let zone = self.zone.as_ref().filter(|_| calendar::zone(rest).is_none());
        match parse_timestamp(stamp, zone) {
            Some(at) => u64::try_from(at.as_nanosecond()).map(Time).map_err(|_| Fault::OutOfRange),
            None if self.zone.is_none() && parse_timestamp(stamp, Some(&TimeZone::UTC)).is_some() => {
                Err(Fault::NoZone)
            }
            None => Err(Fault::Unknown),
        }
    }

    fn read_calendar(&mut self, field: &[u8], text: &[u8]) -> Result<Time, Fault> {
        let stamp = if text.starts_with(b"<") { calendar::after_priority(text) } else { Some(text) };
        let stamp = stamp.ok_or(Fault::Unknown)?;
        let year_day = calendar::year_day(stamp);
        let is_syslog = year_day.is_some() || stamp.len() < text.len();
        let (civil, tail) = match year_day {
            Some((date, tail)) => (DateTime { seconds: self.years.seconds(&date)?, nanos: date.nanos }, tail),
            None => calendar::read(stamp).ok_or(Fault::Unknown)?,
        };
        let ((offset, second), tail) = match calendar::zone(tail) {
            Some((offset, tail)) => ((offset, None), tail),
            None => (self.offsets(civil.seconds)?, tail),
        };
        let second = second.filter(|second| self.is_over(&civil, offset, *second));
        let offset = second.map_or(offset, |(second, _)| second);
        // Only a bracket may be left of the field, or the rest of a syslog message.
        let consumed = text.len() - tail.len();
        match field.get(consumed..) {
            None | Some([] | [b']']) => to_time(&civil, offset).ok_or(Fault::OutOfRange),
            Some([b' ' | b':', ..]) if is_syslog => to_time(&civil, offset).ok_or(Fault::OutOfRange),
            Some(_) => Err(Fault::Unknown),
        }
    }

    /// True if a local time that clocks show twice is not the first: they have been set back by the last instant, or it
    /// would be far before that. By less than half of what is repeated, it is more likely out of order.
    fn is_over(&self, civil: &DateTime, offset: i64, (second, set_back): (i64, i64)) -> bool {
        let nanos = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(SECOND);
        let (last, slack) = self.last;
        let is_far = |at: Time| at.saturating_add(slack.max(nanos(offset - second) / 2)) < last;
        nanos(set_back).saturating_add(slack) <= last.0 || to_time(civil, offset).is_some_and(is_far)
    }

    /// The offsets of the zone when its local time is `seconds`.
    fn offsets(&mut self, seconds: i64) -> Result<Offsets, Fault> {
        let minute = seconds.div_euclid(60);
        if let Some((_, offsets)) = self.cached.filter(|(cached, _)| *cached == minute) {
            return Ok(offsets);
        }
        let zone = self.zone.as_ref().ok_or(Fault::NoZone)?;
        let offsets = lookup(zone, minute * 60).ok_or(Fault::OutOfRange)?;
        self.cached = Some((minute, offsets));
        Ok(offsets)
    }
}

fn lookup(zone: &TimeZone, seconds: i64) -> Option<Offsets> {
    let civil = Timestamp::from_second(seconds).ok()?.to_zoned_datetime(TimeZone::UTC).datetime();
    let both = zone.to_ambiguous_timestamp(civil);
    let first = both.compatible().ok()?;
    let second = match both.offset() {
        AmbiguousOffset::Fold { after, .. } => zone
            .following(first)
            .next()
            .map(|change| (after.seconds().into(), change.timestamp().as_second())),
        _ => None,
    };
    Some((seconds - first.as_second(), second))
}

fn to_time(civil: &DateTime, offset: i64) -> Option<Time> {
    let seconds = u64::try_from(civil.seconds - offset).ok()?;
    let nanos = seconds.checked_mul(SECOND)?.checked_add(civil.nanos.into())?;
    Some(Time(nanos))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn in_zone(zone: Option<TimeZone>) -> Arrivals {
        Arrivals { zone, ..Arrivals::default() }
    }

    fn read(field: &str, text: &str, zone: Option<&str>) -> Result<u64, Fault> {
        let zone = zone.map(|name| TimeZone::get(name).unwrap());
        Stamps::new(&in_zone(zone)).read(field.as_bytes(), text.as_bytes()).map(|at| at.0)
    }

    #[test]
    fn one_instant_in_all_forms() {
        let at = Ok(1_700_000_000_123_456_000);
        for text in [
            "1700000000.123456",
            "1700000000123.456",
            "1700000000123456",
            "1700000000123456000",
            "2023-11-14T22:13:20.123456Z",
            "2023-11-14t22:13:20.123456000z",
            "2023-11-14 22:13:20.123456Z",
            "2023-11-14T23:13:20,123456+01:00",
            "2023-11-14T17:13:20.123456-0500",
            "2023-11-15T03:43:20.123456+05:30",
            "[2023-11-14T22:13:20.123456Z]",
            "20231114T221320.123456Z",
            "20231114T231320.123456+01",
            "2023-11-14T23:13:20.123456[Europe/Berlin]",
            "2023-11-14T23:13:20.123456+01:00[Europe/Berlin]",
        ] {
            assert_eq!(read(text, text, None), at, "{text}");
        }
    }

    #[test]
    fn seconds_may_be_left_out_and_the_time_may_not() {
        let at = Ok(1_700_000_040_000_000_000);
        for text in ["2023-11-14T22:14Z", "2023-11-14 22:14Z", "20231114T2214Z", "2023-11-14T23:14+01:00"] {
            assert_eq!(read(text, text, None), at, "{text}");
        }
        for text in ["2023-11-14T23:14", "2023-11-14 23:14", "20231114T231400"] {
            assert_eq!(read(text, text, Some("Europe/Berlin")), at, "{text}");
            assert_eq!(read(text, text, None), Err(Fault::NoZone), "{text}");
        }
        // The next field has what the first one lacks.
        for (field, text) in
            [("2023-11-14", "2023-11-14 22:14"), ("2023-11-14T22:14", "2023-11-14T22:14 +0100")]
        {
            assert_eq!(read(field, text, Some("UTC")), Err(Fault::Unknown), "{text}");
        }
        assert_eq!(read("1960-11-14T22:14Z", "1960-11-14T22:14Z", None), Err(Fault::OutOfRange));
    }

    #[test]
    fn the_rest_of_a_stamp_is_in_the_fields_after_it() {
        for (field, text) in [
            ("[14/Nov/2023:22:13:20", "[14/Nov/2023:22:13:20 +0000] \"GET / HTTP/1.1\" 200"),
            ("[14/Nov/2023:23:13:20", "[14/Nov/2023:23:13:20 +0100]"),
            ("14/Nov/2023:17:13:20 -0500", "14/Nov/2023:17:13:20 -0500"),
            ("[14/Nov/2023:17:13:20 -0500]", "[14/Nov/2023:17:13:20 -0500]"),
            ("2023-11-14", "2023-11-14 22:13:20Z x"),
            ("2023-11-14", "2023-11-14  23:13:20 +0100 x"),
            ("<34>1", "<34>1 2023-11-14T22:13:20.000000Z host app - - - x"),
            ("<165>1", "<165>1 2023-11-14T23:13:20+01:00"),
            ("<34>1 2023-11-14T22:13:20Z host app - - - x", "<34>1 2023-11-14T22:13:20Z host app - - - x"),
            ("<34>2023-11-14T22:13:20Z", "<34>2023-11-14T22:13:20Z host"),
        ] {
            assert_eq!(read(field, text, None), Ok(1_700_000_000_000_000_000), "{text}");
        }
    }

    #[test]
    fn the_next_column_of_a_table_is_no_part_of_a_stamp() {
        for rest in ["", ",512", ",1234567890,x", ", 7", ",+0100"] {
            let stamp = "2023-11-14 22:13:20";
            let text = format!("{stamp}{rest}");
            assert_eq!(read(stamp, &text, Some("UTC")), Ok(1_700_000_000_000_000_000), "{text}");
        }
        let (date, text) = ("2023-11-14", "2023-11-14 22:13:20,512 INFO");
        assert_eq!(read(date, text, Some("UTC")), Ok(1_700_000_000_512_000_000));
    }

    #[test]
    fn the_next_number_is_no_zone() {
        for rest in ["-10 dBm", "+155512345 x", "-1234.5 W", "-10", "+1200ms", "-1122-33", "+12ab", "-1"] {
            for stamp in ["2023-11-14 22:13:20", "2023-11-14T22:13:20.0"] {
                let (field, text) =
                    (&stamp[..stamp.find(' ').unwrap_or(stamp.len())], format!("{stamp} {rest}"));
                assert_eq!(read(field, &text, Some("UTC")), Ok(1_700_000_000_000_000_000), "{text}");
                assert_eq!(read(field, &text, None), Err(Fault::NoZone), "{text}");
            }
        }
    }

    #[test]
    fn utc_may_be_named() {
        let instant = Ok(1_700_000_000_000_000_000);
        for (stamp, zone) in [("22:13:20 UTC", None), ("22:13:20.0 GMT [7]", Some("Europe/Berlin"))] {
            assert_eq!(read("2023-11-14", &format!("2023-11-14 {stamp}"), zone), instant, "{stamp}");
        }
        for rest in ["UTC+1", "UTC-01:00", "UTCX", "GMTime"] {
            let text = format!("2023-11-14 22:13:20 {rest}");
            assert_eq!(read("2023-11-14", &text, None), Err(Fault::NoZone), "{text}");
        }
    }

    #[test]
    fn a_zone_is_that_of_the_season_and_given_once() {
        for (text, seconds) in
            [("2023-07-01T12:00:00", 1_688_205_600), ("2023-12-01T12:00:00.000", 1_701_428_400)]
        {
            assert_eq!(read(text, text, Some("Europe/Berlin")), Ok(seconds * 1_000_000_000), "{text}");
            assert_eq!(read(text, text, None), Err(Fault::NoZone));
        }
        let own = "2023-12-01T12:00:00Z";
        assert_eq!(read(own, own, Some("Europe/Berlin")), Ok(1_701_432_000_000_000_000));
    }

    #[test]
    fn syslog_has_stamps_of_its_own() {
        for (field, text, day) in [
            ("Nov", "Nov 14 22:13:20 host app[1]: x", 14),
            ("Nov 14 22:13:20", "Nov 14 22:13:20 host app[1]: x", 14),
            ("Nov 14 22:13:20 host x", "Nov 14 22:13:20 host x", 14),
            ("Nov", "Nov  4 22:13:20 host", 4),
            ("Nov", "Nov 4 22:13:20 host", 4),
            ("<34>Nov", "<34>Nov 14 22:13:20 host", 14),
            ("Nov", "Nov 14 22:13:20: %SYS", 14),
        ] {
            let mut stamps = Stamps::new(&Arrivals { year: Some(2023), ..in_zone(Some(TimeZone::UTC)) });
            let at = 1_700_000_000 - (14 - day) * 86_400;
            let read = stamps.read(field.as_bytes(), text.as_bytes());
            assert_eq!(read, Ok(Time(at * SECOND)), "{text}");
        }
        assert_eq!(read("Nov", "Nov 14 22:13:20 host", None), Err(Fault::NoZone));
        for text in ["Nov 31 22:13:20", "Nov 14", "Now 14 22:13:20", "Nov 14 24:00:00", "Nov 14 22:13:20x"] {
            assert_eq!(read(text, text, Some("UTC")), Err(Fault::Unknown), "{text}");
        }
    }

    #[test]
    fn a_cached_zone_is_looked_up_again_where_it_changes() {
        let mut stamps = Stamps::new(&in_zone(TimeZone::get("Europe/Berlin").ok()));
        for (text, seconds) in [
            ("2023-03-26T01:59:59", 1_679_792_399),
            ("2023-03-26T03:00:00", 1_679_792_400),
            ("2023-03-26T03:00:01", 1_679_792_401),
        ] {
            assert_eq!(stamps.read(text.as_bytes(), text.as_bytes()), Ok(Time(seconds * 1_000_000_000)));
        }
    }

    #[test]
    fn a_time_that_clocks_show_twice_is_the_one_that_is_in_order() {
        let hour = |from: i64, times: &[(&str, i64)]| -> Vec<_> {
            times.iter().map(|(time, offset)| (format!("2026-10-25 {time}"), from + offset)).collect()
        };
        // From 01:00 UTC, 03:00 in Berlin, on.
        let dense =
            [("02:00:00", -3600), ("02:31:00", -1740), ("02:59:59.5", -1), ("02:00:00", 0), ("02:00:01", 1)];
        let rest = [("02:20:00", 1200), ("02:59:59", 3599), ("03:00:00", 3600)];
        let in_order = hour(1_792_890_000, &[&dense[..], &rest].concat());
        // Out of order by less than half an hour.
        let out_of_order = hour(1_792_890_000, &[("02:31:00", -1740), ("02:05:00", -3300)]);
        for (times, slack) in [(&in_order, 0), (&in_order, 600), (&out_of_order, 0)] {
            let zone = TimeZone::get("Europe/Berlin").ok();
            let mut stamps = Stamps::new(&Arrivals { unsorted: Some(slack * SECOND), ..in_zone(zone) });
            for (text, seconds) in times {
                let read = stamps.read(text.as_bytes(), text.as_bytes());
                assert_eq!(read.map(|at| (at.0 / SECOND).cast_signed()), Ok(*seconds), "{text}");
            }
        }
    }

    /// Around all changes of the clocks in some zones.
    #[test]
    fn a_dense_log_in_local_time_is_read_as_it_was_written() {
        for seed in 0..300 {
            let mut random = Rng::with_seed(seed);
            let zones =
                ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"];
            let zone = TimeZone::get(random.choice(zones).unwrap()).unwrap();
            let year = Timestamp::from_second(random.i64(1_000_000_000..2_000_000_000)).unwrap();
            let change = zone.following(year).next().map_or(year, |change| change.timestamp());
            let mut at = change.as_second() - 2 * 3600;
            let mut stamps = Stamps::new(&in_zone(Some(zone.clone())));
            for _ in 0..30 {
                // Clocks of Lord Howe repeat half an hour.
                at += random.i64(0..14 * 60);
                let text = zone.to_datetime(Timestamp::from_second(at).unwrap()).to_string();
                let read = stamps.read(text.as_bytes(), text.as_bytes());
                assert_eq!(read, Ok(Time(at.unsigned_abs() * SECOND)), "seed {seed}: {text}");
            }
        }
    }

    #[test]
    fn what_is_no_stamp() {
        for text in [
            "",
            "x",
            "-1",
            "1.2.3",
            "2023-11-14",
            "2023-13-14T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:60:00Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20.0000000001Z",
            "2023-11-14T22:13:20Zx",
            "2023-11-14T22:13:20+1",
            "2023-11-14T22:13:20+01:99",
            "[14/Foo/2023:22:13:20 +0000]",
            "<34>",
            "<34>1 x",
            "<34>1",
            "2023/11/14 22:13:20",
            "[Tue Nov 14 22:13:20.123456 2023]",
        ] {
            assert_eq!(read(text, text, Some("UTC")), Err(Fault::Unknown), "{text}");
        }
        for text in [
            "1969-12-31T23:59:59Z",
            "2600-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "18446744074",
            "99999999999999999999",
        ] {
            assert_eq!(read(text, text, None), Err(Fault::OutOfRange), "{text}");
        }
    }
}
