//! The years of dates that name none, as in syslog's own stamps.

use super::Fault;
use super::calendar::YearDay;

const DAY: i64 = 86_400;
const HALF_YEAR: i64 = 183 * DAY;

/// Finds the years of ascending dates. Unless the first year is given, none is later than now.
pub(super) struct Years {
    /// The year of the first date, if it is given.
    given: Option<i64>,
    /// The year and seconds of the last date, read as UTC.
    last: Option<(i64, i64)>,
    /// Seconds since 1970.
    now: fn() -> i64,
}

impl Years {
    pub(super) fn new(given: Option<i64>, now: fn() -> i64) -> Self {
        Years { given, last: None, now }
    }

    /// The seconds since 1970 of the next date, read as UTC.
    ///
    /// # Errors
    /// No year puts it between the previous date and now.
    pub(super) fn seconds(&mut self, date: &YearDay) -> Result<i64, Fault> {
        let found = match (self.last, self.given) {
            (Some((year, last)), _) => following(date, year, last),
            (None, Some(year)) => in_year(date, year),
            (None, None) => self.newest(date),
        };
        let is_known = self.given.is_some();
        let found = found.filter(|(_, seconds)| is_known || *seconds <= self.latest());
        self.last = found;
        found.map(|(_, seconds)| seconds).ok_or(Fault::NoYear)
    }

    /// The newest such date that is not later than now. A leap day may be up to eight years old.
    fn newest(&self, date: &YearDay) -> Option<(i64, i64)> {
        let latest = self.latest();
        let this_year = 1970 + latest / (365 * DAY);
        let years = (this_year - 9..=this_year).rev();
        years.filter_map(|year| in_year(date, year)).find(|(_, seconds)| *seconds <= latest)
    }

    /// A day after now, as clocks and zones differ.
    fn latest(&self) -> i64 {
        (self.now)() + DAY
    }
}

/// The next date after one in `year`. It may be out of order.
fn following(date: &YearDay, year: i64, last: i64) -> Option<(i64, i64)> {
    // After New Year, dates of the old year may still come.
    let late = in_year(date, year - 1).filter(|(_, seconds)| *seconds >= last - DAY);
    let same = || in_year(date, year).filter(|(_, seconds)| *seconds >= last - HALF_YEAR);
    late.or_else(same).or_else(|| in_year(date, year + 1))
}

fn in_year(date: &YearDay, year: i64) -> Option<(i64, i64)> {
    date.seconds(year).map(|seconds| (year, seconds))
}

#[cfg(test)]
mod tests {
    use super::super::calendar;
    use super::*;

    /// 2026-03-10 12:00:00.
    fn now() -> i64 {
        1_773_144_000
    }

    #[track_caller]
    fn check(given: Option<i64>, dates: &[(&str, Option<&str>)]) {
        let mut years = Years::new(given, now);
        for (text, wanted) in dates {
            let text = format!("{text} 00:00:00");
            let (date, _) = calendar::year_day(text.as_bytes()).expect("a date");
            let found = years.seconds(&date).ok().map(|seconds| {
                let at = jiff::Timestamp::from_second(seconds).unwrap();
                at.strftime("%Y-%m-%d").to_string()
            });
            assert_eq!(found.as_deref(), *wanted, "{text}");
        }
    }

    #[test]
    fn dates_ascend_and_the_last_is_not_later_than_now() {
        check(None, &[("Mar  9", Some("2026-03-09")), ("Mar 10", Some("2026-03-10"))]);
        check(None, &[("Mar 11", Some("2026-03-11")), ("Mar 12", None)]);
        check(
            None,
            &[("Mar 12", Some("2025-03-12")), ("Dec 31", Some("2025-12-31")), ("Jan  1", Some("2026-01-01"))],
        );
        check(None, &[("Feb 29", Some("2024-02-29")), ("Feb 28", Some("2024-02-28"))]);
        // Of the old year, or out of order.
        check(
            None,
            &[("Dec 31", Some("2025-12-31")), ("Jan 1", Some("2026-01-01")), ("Dec 31", Some("2025-12-31"))],
        );
        check(None, &[("Feb 9", Some("2026-02-09")), ("Feb 5", Some("2026-02-05"))]);
        // The first date is more than a year old.
        check(None, &[("Feb 1", Some("2026-02-01")), ("Dec 1", None)]);
    }

    #[test]
    fn the_year_of_the_first_may_be_given() {
        check(
            Some(2023),
            &[("Feb  1", Some("2023-02-01")), ("Dec 30", Some("2023-12-30")), ("Feb 29", Some("2024-02-29"))],
        );
        check(Some(2023), &[("Feb 29", None)]);
    }
}
