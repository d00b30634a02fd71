//! Instants on the command line: a date and a time, or a duration from the start of the run.

use std::str::FromStr;

use anyhow::{Context, Error, Result, anyhow};
use jiff::civil::{self, DateTime, Weekday};
use jiff::fmt::strtime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan, ZonedDateTime};

use super::arrivals::parse_zone;
use super::duration::parse_duration;
use crate::time::{Time, Zone};

/// Parses a date, with or without a time, an offset and a zone; the output of `date`; or a time of day, perhaps after a
/// weekday, which is the next one. `,tz=ZONE` may follow. Without a zone, it is in that of the system.
///
/// # Errors
/// None of these, not from 1970 to 2554, or with an offset that its zone does not have then.
pub fn parse_instant(text: &str) -> Result<Time> {
    let (time, zone) = split_zone(text)?;
    let at = match TimeOfDay::new(time, &zone).and_then(|time| time.after(Timestamp::now())) {
        Some(at) => Some(at),
        None => printed(time, &zone)?.or_else(|| parse_timestamp(time, Some(&zone))),
    };
    let nanos = at.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
    nanos.map(Time).with_context(|| {
        format!(
            "'{text}' is not a time from 1970 to 2554: write 09:00, 'Mon 09:00', 2026-11-21, 2026-11-21T09:00, \
             2026-11-21T09:00Z, 2026-11-21T09:00+01:00 or 2026-11-21T09:00[Europe/Berlin], with an offset or \
             a zone"
        )
    })
}

fn split_zone(text: &str) -> Result<(&str, TimeZone)> {
    Ok(match text.split_once(",tz=") {
        Some((time, zone)) => (time, parse_zone(zone)?),
        None if parse_timestamp(text, None).is_some() => (text, TimeZone::UTC),
        None => (text, Zone::local()?.rules()),
    })
}

/// What clocks in a zone show, such as `9:00`, or `Mon 9:00`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeOfDay {
    weekday: Option<Weekday>,
    time: civil::Time,
    /// True if that is the end of the day: 24:00.
    is_end: bool,
    zone: TimeZone,
}

impl TimeOfDay {
    /// Parses a time of day, perhaps after a weekday and before `,tz=ZONE`. `None` if the text is none.
    fn parse(text: &str) -> Option<Self> {
        let (time, zone) = split_zone(text).ok()?;
        Self::new(time, &zone)
    }

    fn new(text: &str, zone: &TimeZone) -> Option<Self> {
        let (weekday, text) = match text.split_once(' ') {
            Some((day, time)) => (Some(parse_weekday(day)?), time.trim_start()),
            None => (None, text),
        };
        let is_end = text == "24:00";
        let time = ["%H:%M", "%H:%M:%S"].iter().find_map(|form| civil::Time::strptime(form, text).ok());
        let time = if is_end { civil::Time::midnight() } else { time? };
        Some(TimeOfDay { weekday, time, is_end, zone: zone.clone() })
    }

    /// The instant at which clocks show it next, once they have shown `now`, both since 1970.
    pub fn next(&self, now: Time) -> Option<Time> {
        let next = self.after(Timestamp::from_nanosecond(now.0.into()).ok()?)?;
        u64::try_from(next.as_nanosecond()).ok().map(Time)
    }

    /// The first instant after `now` at which clocks show it. On a day that skips this time, it is as much later.
    fn after(&self, now: Timestamp) -> Option<Timestamp> {
        let TimeOfDay { weekday, time, is_end, ref zone } = *self;
        let today = zone.to_datetime(now).date();
        // A clock that is set back may show yesterday again.
        let dates = (-2..=9).filter_map(|days| today.checked_add(days.days()).ok());
        let dates = dates.filter(|date| weekday.is_none_or(|weekday| date.weekday() == weekday));
        let shown = dates.flat_map(|date| {
            let date = date.checked_add(i64::from(is_end).days()).unwrap_or(date);
            let at = zone.to_ambiguous_timestamp(date.to_datetime(time));
            let is_over = date < today && !matches!(at.offset(), AmbiguousOffset::Fold { .. });
            let both = [at.compatible(), at.later()].into_iter().filter_map(Result::ok);
            both.filter(move |_| !is_over)
        });
        shown.filter(|at| *at > now).min()
    }
}

/// A weekday in English, in full or its first three letters.
fn parse_weekday(text: &str) -> Option<Weekday> {
    ["%a", "%A"].iter().find_map(|form| strtime::parse(form, text).ok()?.weekday())
}

/// How `date` prints the date and the time, without the zone, in the locales of English.
const PRINTED: [&str; 6] = [
    "%a %b %d %H:%M:%S %Y",
    "%a %b %d %I:%M:%S %p %Y",
    "%a %d %b %H:%M:%S %Y",
    "%a %d %b %Y %H:%M:%S",
    "%a %d %b %Y %I:%M:%S %p",
    "%a, %d %b %Y %H:%M:%S",
];

/// The instant that `date` has printed; `None` if the text is nothing like that.
///
/// # Errors
/// It has the abbreviation of a zone that is not `zone`.
fn printed(text: &str, zone: &TimeZone) -> Result<Option<Timestamp>> {
    let mut words: Vec<_> = text.split_whitespace().collect();
    let is_zone = |word: &&str| {
        word.starts_with(['+', '-']) || word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
    };
    let Some(place) = words.iter().rposition(is_zone) else { return Ok(None) };
    let (name, words) = (words.remove(place), words.join(" "));
    let Some(shown) = PRINTED.iter().find_map(|form| DateTime::strptime(form, &words).ok()) else {
        return Ok(None);
    };
    let offset = match name {
        "UTC" | "GMT" => Some(Offset::UTC),
        _ => strtime::parse("%z", format!("{name:0<5}")).ok().and_then(|parsed| parsed.offset()),
    };
    if let Some(offset) = offset {
        return Ok(offset.to_timestamp(shown).ok());
    }
    let at = zone.to_ambiguous_timestamp(shown);
    let both = [at.earlier(), at.later()].into_iter().filter_map(Result::ok);
    let named = both.into_iter().find(|at| zone.to_offset_info(*at).abbreviation() == name);
    named.map(Some).with_context(|| {
        format!("{name} in '{text}' is not the zone here: write an offset, such as -0500, in its place")
    })
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Until {
    /// The instant at which the wall clock shows this, since 1970.
    At(Time),
    /// The first instant after the start of the run at which clocks show this.
    Next(TimeOfDay),
    /// This number of nanoseconds after the start of the run.
    After(u64),
}

impl FromStr for Until {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // No duration contains these characters.
        let is_time = text.contains(['-', ':']) && !text.starts_with('-');
        if is_time {
            let next = TimeOfDay::parse(text).map(Until::Next);
            return next.map_or_else(|| parse_instant(text).map(Until::At), Ok);
        }
        let length = parse_duration(text);
        length
            .map(Until::After)
            .map_err(|error| anyhow!("{error}, nor a time such as 09:00 or 2026-11-21T09:00"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::for_each_seed;
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
            "Mon",
            "Mon 25:00",
            "Moon 09:00",
            "Wed Nov 26 21:12:06 UTC 2026",
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
            assert!(error.contains("from 1970 to 2554: write 09:00,"), "{text}: {error}");
            // They may contradict each other.
            assert!(error.ends_with("an offset or a zone"), "{text}: {error}");
        }
    }

    fn next_of_day(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        TimeOfDay::new(text, zone)?.after(now)
    }

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let now = "2026-12-31T09:00[Europe/Berlin]";
        for (now, text, next) in [
            (now, "9:00", Some("2027-01-01T09:00:00+01:00[Europe/Berlin]")),
            (now, "09:00:01", Some("2026-12-31T09:00:01+01:00[Europe/Berlin]")),
            (now, "00:00", Some("2027-01-01T00:00:00+01:00[Europe/Berlin]")),
            (now, "24:00", Some("2027-01-01T00:00:00+01:00[Europe/Berlin]")),
            (now, "thu 10:00", Some("2026-12-31T10:00:00+01:00[Europe/Berlin]")),
            (now, "Thursday  9:00", Some("2027-01-07T09:00:00+01:00[Europe/Berlin]")),
            (now, "Thu 24:00", Some("2027-01-01T00:00:00+01:00[Europe/Berlin]")),
            (now, "9", None),
            (now, "Thu", None),
            // It is skipped, and shown twice.
            ("2026-03-28T12:00[Europe/Berlin]", "02:30", Some("2026-03-29T03:30:00+02:00[Europe/Berlin]")),
            (
                "2026-10-25T02:40+02:00[Europe/Berlin]",
                "02:30",
                Some("2026-10-25T02:30:00+01:00[Europe/Berlin]"),
            ),
        ] {
            let now: ZonedDateTime = now.parse().unwrap();
            let found = next_of_day(text, now.timestamp(), now.time_zone());
            let found = found.map(|at| at.to_zoned_datetime(now.time_zone().clone()).to_string());
            assert_eq!(found.as_deref(), next, "{text}");
        }
    }

    /// Looks at the clock once a minute until it shows the time, or has passed over it.
    fn seen(now: Timestamp, zone: &TimeZone, weekday: Option<Weekday>, time: civil::Time) -> Timestamp {
        let today = zone.to_datetime(now).date();
        let is_day = |date: civil::Date| weekday.is_none_or(|day| date.weekday() == day);
        let start = (now.as_second() - 50 * 3600).div_euclid(60) * 60 + i64::from(time.second());
        let shown = |seconds| zone.to_datetime(Timestamp::from_second(seconds).unwrap());
        let mut skipped: Option<i64> = None;
        for at in (start..).step_by(60) {
            let (before, now_shown) = (shown(at - 60), shown(at));
            if let Some(skipped) = skipped.filter(|skipped| *skipped <= at) {
                return Timestamp::from_second(skipped).unwrap();
            }
            if at > now.as_second() && now_shown.time() == time && is_day(now_shown.date()) {
                return Timestamp::from_second(at).unwrap();
            }
            for date in [before.date(), now_shown.date()] {
                let target = date.to_datetime(time);
                if before < target && target < now_shown && is_day(date) && date >= today {
                    let late = target.duration_since(before).as_secs();
                    skipped = skipped.or(Some(at - 60 + late).filter(|skipped| *skipped > now.as_second()));
                }
            }
        }
        unreachable!()
    }

    /// Times of day against a clock that is watched, in all kinds of zones, close to where clocks are set.
    #[test]
    fn a_time_of_day_is_when_clocks_show_it() {
        const ZONES: [&str; 11] = [
            "Europe/Berlin",
            "America/St_Johns",
            "Australia/Lord_Howe",
            "America/Sao_Paulo",
            "Africa/Cairo",
            "America/Havana",
            "Pacific/Apia",
            "Asia/Kathmandu",
            "Asia/Tehran",
            "Atlantic/Azores",
            "UTC",
        ];
        let days = [
            ("Mon", Weekday::Monday),
            ("wednesday", Weekday::Wednesday),
            ("SAT", Weekday::Saturday),
            ("Sunday", Weekday::Sunday),
        ];
        for_each_seed(60, |random| {
            let zone = TimeZone::get(random.choice(ZONES).unwrap()).unwrap();
            let any = Timestamp::from_second(random.i64(200_000_000..2_000_000_000)).unwrap();
            let change = zone.following(any).next().filter(|_| random.u8(..4) > 0);
            let near = change.map_or(any, |change| change.timestamp());
            let now = near.checked_add(random.i64(-90_000..90_000).seconds()).unwrap();
            let day = random.bool().then(|| random.choice(days).unwrap());
            // Where clocks are set, if anywhere.
            let (hour, minute) = (random.i8(0..24), random.i8(0..60));
            let hour = *random.choice(&[0, 1, 2, 3, 23, hour]).unwrap();
            let minute = *random.choice(&[0, 30, minute]).unwrap();
            let time = civil::time(hour, minute, *random.choice(&[0, 7]).unwrap(), 0);
            let text = format!("{} {time}", day.map_or("", |day| day.0));
            let found = next_of_day(text.trim(), now, &zone);
            let wanted = seen(now, &zone, day.map(|day| day.1), time);
            assert_eq!(found, Some(wanted), "'{text}' after {now} in {}", zone.iana_name().unwrap());
        });
    }

    /// What `date` prints, in several locales, is read back; the abbreviation tells which pass of an hour it is.
    #[test]
    fn what_date_prints_is_a_time() {
        const FORMS: [&str; 7] = [
            "%a %b %e %H:%M:%S %Z %Y",
            "%a %b %e %I:%M:%S %p %Z %Y",
            "%a %d %b %H:%M:%S %Z %Y",
            "%a %d %b %Y %H:%M:%S %Z",
            "%a %d %b %Y %I:%M:%S %p %Z",
            "%a, %d %b %Y %H:%M:%S %z",
            "%Y-%m-%dT%H:%M:%S%:z",
        ];
        let zones = ["Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Asia/Kathmandu", "UTC"];
        for_each_seed(200, |random| {
            let zone = TimeZone::get(random.choice(zones).unwrap()).unwrap();
            let any = Timestamp::from_second(random.i64(1_000_000_000..2_000_000_000)).unwrap();
            let change = zone.following(any).next().filter(|_| random.bool());
            let near = change.map_or(any, |change| change.timestamp());
            let at = near.checked_add(random.i64(-7200..7200).seconds()).unwrap();
            let text = at.to_zoned_datetime(zone.clone()).strftime(random.choice(FORMS).unwrap()).to_string();
            let read = printed(&text, &zone).unwrap().or_else(|| parse_timestamp(&text, Some(&zone)));
            assert_eq!(read, Some(at), "{text}");
        });
        let error = printed("Wed Nov 25 21:12:06 EST 2026", &TimeZone::UTC).unwrap_err().to_string();
        assert!(error.starts_with("EST in 'Wed Nov 25 21:12:06 EST 2026' is not the zone here"), "{error}");
    }

    #[test]
    fn a_zone_may_follow() {
        let berlin = parse_instant("2023-11-14T23:13:20,tz=Europe/Berlin");
        assert_eq!(berlin.unwrap(), Time(1_700_000_000 * SECOND));
        let next = |text| parse_instant(text).unwrap().0 / SECOND % 86_400;
        assert_eq!(next("06:00,tz=UTC"), 6 * 3600);
        assert_eq!(next("06:00,tz=+01:30"), 4 * 3600 + 1800);
        assert!(parse_instant("06:00,tz=Mars").unwrap_err().to_string().starts_with("no time zone 'Mars'"));
    }

    #[test]
    fn a_time_or_a_duration() {
        let until = |text: &str| text.parse::<Until>().unwrap();
        assert_eq!(until("1h30m"), Until::After(5400 * SECOND));
        assert_eq!(until("0"), Until::After(0));
        assert_eq!(until("2023-11-14T22:13:20Z"), Until::At(Time(1_700_000_000 * SECOND)));
        for (text, why) in [
            ("-1s", "duration"),
            ("tomorrow", "or 1h, nor a time such as 09:00 or 2026-11-21T09:00"),
            ("17:60", "from 1970 to 2554"),
        ] {
            let error = text.parse::<Until>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
