//! Hours of the week: `Mon-Fri@09:00-17:00+Sat`, in a zone.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

use super::zone::DAY;
use super::{SECOND, Zone};

/// The days of the week, as they are typed.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// In nanoseconds.
const WEEK: i128 = 7 * DAY;

const MINUTE: i128 = 60 * SECOND as i128;

/// Minutes of a day.
const MIDNIGHT: u32 = 24 * 60;

/// Some hours of each week. Prints as it was typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Week {
    spans: Vec<Span>,
    /// Half-open spans in nanoseconds since Monday 00:00, in order; no two touch.
    covered: Vec<(i128, i128)>,
}

/// One span of time, on each of some days.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    /// The first and the last day; `None` for every day.
    days: Option<(usize, usize)>,
    /// The first minute, and the one after the last, which is on the next day if it is not later; `None` for all day.
    times: Option<(u32, u32)>,
}

impl Week {
    fn new(spans: Vec<Span>) -> Self {
        let mut all: Vec<_> = spans.iter().flat_map(Span::covered).collect();
        all.sort_unstable();
        let mut covered: Vec<(i128, i128)> = Vec::new();
        for (start, end) in all {
            match covered.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => covered.push((start, end)),
            }
        }
        Week { spans, covered }
    }

    pub(crate) fn is_all(&self) -> bool {
        self.covered == [(0, WEEK)]
    }

    /// Reports whether it covers the time `shown` by clocks, and for how many nanoseconds at least that will not
    /// change.
    fn covers(&self, shown: i128) -> (bool, i128) {
        // 1970 began on a Thursday.
        let at = (shown + 3 * DAY).rem_euclid(WEEK);
        match self.covered.iter().find(|(_, end)| at < *end) {
            Some((start, end)) if *start <= at => (true, end - at),
            Some((start, _)) => (false, start - at),
            None => (false, WEEK - at),
        }
    }
}

impl Span {
    /// The spans it covers, in nanoseconds since Monday 00:00.
    fn covered(&self) -> Vec<(i128, i128)> {
        let (first, last) = self.days.unwrap_or((0, 6));
        let (start, end) = self.times.unwrap_or((0, MIDNIGHT));
        let end = if end > start { end } else { end + MIDNIGHT };
        let mut covered = Vec::new();
        for day in (first..first + 7).take((last + 7 - first) % 7 + 1).map(|day| day % 7) {
            let at = |minute: u32| day as i128 * DAY + i128::from(minute) * MINUTE;
            covered.push((at(start), at(end).min(WEEK)));
            if at(end) > WEEK {
                covered.push((0, at(end) - WEEK));
            }
        }
        covered
    }

    fn parse(text: &str) -> Option<Self> {
        let (days, times) = match text.split_once('@') {
            Some((days, times)) => (Some(parse_days(days)?), Some(parse_times(times)?)),
            None if text.contains(':') => (None, Some(parse_times(text)?)),
            None => (Some(parse_days(text)?), None),
        };
        Some(Span { days, times })
    }
}

fn parse_days(text: &str) -> Option<(usize, usize)> {
    let day = |text: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(text));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((day(first)?, day(last)?))
}

fn parse_times(text: &str) -> Option<(u32, u32)> {
    let (start, end) = text.split_once('-')?;
    let (start, end) = (parse_time(start)?, parse_time(end)?);
    (start < MIDNIGHT).then_some((start, end))
}

/// Parses a time up to `24:00`, such as `09:05`, into minutes.
fn parse_time(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str, digits: &[usize]| {
        let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_number)
    };
    let (hour, minute) = (number(hour, &[1, 2])?, number(minute, &[2])?);
    Some(hour * 60 + minute).filter(|&time| minute < 60 && time <= MIDNIGHT)
}

impl FromStr for Week {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let spans = text.split('+').map(|span| {
            Span::parse(span).with_context(|| {
                format!(
                    "'{span}' is not a time of the week: write Mon-Fri@09:00-17:00, 22:00-06:00 or Sat, \
                     with times from 00:00 to 24:00; join several with +"
                )
            })
        });
        Ok(Week::new(spans.collect::<Result<_>>()?))
    }
}

impl fmt::Display for Week {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans: Vec<_> = self.spans.iter().map(Span::to_string).collect();
        f.write_str(&spans.join("+"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        match self.days {
            Some((first, last)) if first == last => f.write_str(DAYS[first])?,
            Some((first, last)) => write!(f, "{}-{}", DAYS[first], DAYS[last])?,
            None => {}
        }
        let Some((start, end)) = self.times else { return Ok(()) };
        let at = if self.days.is_some() { "@" } else { "" };
        write!(f, "{at}{}-{}", time(start), time(end))
    }
}

/// Hours of the week as the clocks of a zone show them. Instants are nanoseconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hours {
    /// The hours that the zone's clocks show.
    pub week: Week,
    /// The zone.
    pub zone: Zone,
}

impl Hours {
    /// Reports whether clocks show a time in these hours at `at`.
    pub fn contain(&self, at: i128) -> bool {
        self.week.covers(at + self.zone.offset(at).0).0
    }

    /// The first instant from `at` on that is inside the hours, or outside them, as `inside` says; far beyond any
    /// [`Time`](super::Time) if there is none, as these are all hours of the week.
    pub fn first(&self, at: i128, inside: bool) -> i128 {
        if !inside && self.week.is_all() {
            return i128::MAX / 2;
        }
        let mut at = at;
        loop {
            let (offset, until) = self.zone.offset(at);
            let (is_inside, length) = self.week.covers(at + offset);
            if is_inside == inside {
                return at;
            }
            at = until.min(at + length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_outside_all_hours() {
        for text in ["Wed-Tue", "00:00-12:00+12:00-24:00", "Sat-Fri@06:00-06:00"] {
            let hours = Hours { week: text.parse().unwrap(), zone: Zone::utc() };
            assert!(hours.first(5, false) > i128::from(u64::MAX) && hours.first(5, true) == 5, "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in
            ["Mon-Fri@09:00-17:00", "22:00-06:00", "Sat", "Sat-Mon", "Mon@05:00-24:00+Tue+12:00-12:30"]
        {
            assert_eq!(text.parse::<Week>().unwrap().to_string(), text);
        }
        assert_eq!("sat@9:00-17:00".parse::<Week>().unwrap().to_string(), "Sat@09:00-17:00");
    }

    #[test]
    fn what_is_no_time_of_the_week_is_told_what_is() {
        for text in [
            "",
            "Fri@25:00",
            "Fri@",
            "Fri@09:00",
            "Fri@24:00-25:00",
            "Fri@24:00-12:00",
            "Fri@09:60-10:00",
            "Fri@09:00-17:00+",
            "9-17",
            "Monday",
            "Mon-Fry",
            "+09:00-10:00",
            "09:00-10:00:00",
            "Fri@+9:00-10:00",
        ] {
            let error = text.parse::<Week>().expect_err(text).to_string();
            assert!(error.contains("from 00:00 to 24:00"), "{text}: {error}");
        }
    }

    #[test]
    fn days_and_times_wrap_around() {
        let covered = |text: &str| {
            let hours = |nanos: i128| nanos / (60 * MINUTE);
            let week = text.parse::<Week>().unwrap();
            week.covered.iter().map(|&(start, end)| (hours(start), hours(end))).collect::<Vec<_>>()
        };
        assert_eq!(covered("Sat-Mon"), [(0, 24), (120, 168)]);
        assert_eq!(covered("Sun@22:00-06:00"), [(0, 6), (166, 168)]);
        assert_eq!(covered("Mon@09:00-09:00"), [(9, 33)]);
        assert_eq!(covered("Mon-Tue+Tue@12:00-24:00+Wed@00:00-01:00"), [(0, 49)]);
        assert!(
            ["Mon-Sun", "00:00-00:00", "Tue-Mon", "06:00-06:00"]
                .map(|text| text.parse::<Week>().unwrap().is_all())
                == [true; 4]
        );
    }
}
