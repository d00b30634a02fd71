//! The calendar for a server, which knows no zones: when periods begin, and the hours in which a limit is asked.
//!
//! It is on the server's clock, by the zones of this machine, and reaches somewhat further than slots are booked ahead.
//! If the server's clock shows another time than expected, the script says so, and is asked again.

use std::ops::Range;

use super::clock::Micros;
use super::terms::EXACT;
use crate::store::{Policy, Quota};

/// The arguments that tell a script the calendar of a limit, in microseconds since 1970; both empty if it does not go
/// by the calendar:
///
/// - the time from a period's start to its opening, the time from its closing to its end, and the starts of all
///   periods;
/// - the time that the last slot is before the hours, the first and last instant that is covered, and the start of each
///   of the hours and the instant from which slots are outside them.
pub(super) type ScriptCalendar = [String; 2];

/// The calendar of a limit when the server's clock shows about `now`.
pub(super) fn calendar(now: Micros, quota: &Quota, policy: &Policy) -> ScriptCalendar {
    // Any later, there would be no dates.
    let (now, horizon) = (i128::from(now.min(EXACT)) * 1000, i128::from(policy.horizon));
    // In nanoseconds since 1970.
    let reach = (now - horizon).max(0)..now + 2 * horizon;
    let late = policy.deadline.into();
    [periods(quota, late, &reach), hours(quota, late, &reach)].map(told)
}

/// A release that is as late as allowed must still be in its period.
fn periods(quota: &Quota, late: i128, reach: &Range<i128>) -> Option<Vec<i128>> {
    let (civil, zone) = quota.algorithm.facts().civil(&quota.terms)?;
    let margin = i128::from(quota.terms.margin);
    let mut periods = vec![(margin + 999) / 1000, (margin + late) / 1000];
    let mut period = civil.around(zone, reach.start);
    while period.start <= reach.end {
        periods.push(period.start.max(0) / 1000);
        period = civil.around(zone, period.end);
    }
    periods.push(period.start / 1000);
    Some(periods)
}

/// A release that is as late as allowed must not be in the hours, even if the clock is set forward by as much; nor one
/// after them, if it is set back by as much.
fn hours(quota: &Quota, late: i128, reach: &Range<i128>) -> Option<Vec<i128>> {
    let hours = quota.during.as_ref()?;
    let ahead = 2 * late;
    let mut told = vec![ahead / 1000, reach.start / 1000, reach.end / 1000];
    let mut at = reach.start;
    while let Some(start) = hours.first(at, true).filter(|start| *start <= reach.end + ahead) {
        at = hours.first(start, false)?;
        told.extend([start / 1000, (at + late) / 1000]);
    }
    Some(told)
}

fn told(numbers: Option<Vec<i128>>) -> String {
    numbers.unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rate;
    use crate::store::Reserve;

    /// In seconds, for the limits of a policy at this instant.
    fn calendars(now: &str, rates: &[&str]) -> Vec<[Vec<i64>; 2]> {
        let rate = |text: &&str| text.parse::<Rate>().unwrap();
        let policy = Policy::new(&rates.iter().map(rate).collect::<Vec<_>>(), Reserve::REMOTE);
        let now = now.parse::<jiff::Timestamp>().unwrap().as_microsecond().try_into().unwrap();
        let seconds = |text: &str| {
            text.split_whitespace().map(|number| number.parse::<i64>().unwrap() / 1_000_000).collect()
        };
        let calendar = |quota| calendar(now, quota, &policy).map(|text| seconds(&text));
        policy.quotas.iter().map(calendar).collect()
    }

    #[test]
    fn days_and_hours_when_clocks_change() {
        let hour = 3600;
        let told = calendars(
            "2026-03-28T23:30:00Z",
            &[
                "9/d,algo=calendar,margin=7s,tz=Europe/Berlin",
                "9/h,margin=5s,during=02:00-03:30,tz=Europe/Berlin",
                "9/h",
            ],
        );
        // By the last limit, releases may be late by 2 s. 2026-03-29 has 23 hours in Berlin, and its clocks do not show
        // 02:00.
        let midnight = 1_774_738_800;
        let now = midnight + hour / 2;
        assert_eq!(told[0], [vec![7, 9, midnight - 24 * hour, midnight, midnight + 23 * hour], vec![]]);
        let hours =
            vec![4, now - hour, now + 2 * hour, midnight + 2 * hour, midnight + 2 * hour + hour / 2 + 2];
        assert_eq!(told[1], [vec![], hours]);
        assert!(told[2].iter().all(Vec::is_empty));
    }

    /// Beyond the last date there would be no next one.
    #[test]
    fn a_clock_that_shows_no_date_is_told_of_one() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        let rates = ["9/d,algo=calendar,tz=UTC", "9/h,during=02:00-03:30,tz=UTC"].map(rate);
        let policy = Policy::new(&rates, Reserve::REMOTE);
        for now in [0, Micros::MAX / 1000, Micros::MAX] {
            let told = policy.quotas.iter().flat_map(|quota| calendar(now, quota, &policy));
            assert!(told.map(|told| told.len()).sum::<usize>() < 300, "{now}");
        }
    }

    #[test]
    fn what_is_told_stays_short_however_short_the_periods_are() {
        let told = calendars("2026-03-28T23:30:00Z", &["9/s,algo=calendar,margin=1ms,tz=UTC", "100000/d"]);
        assert!((180..200).contains(&told[0][0].len()), "{}", told[0][0].len());
        let mut minutes: Vec<_> =
            (0..30).map(|minute| format!("00:{:02}-00:{:02}", 2 * minute, 2 * minute + 1)).collect();
        minutes.push("Mon".to_owned());
        let told = calendars("2026-03-28T23:30:00Z", &[&format!("9/h,tz=UTC,during={}", minutes.join("+"))]);
        assert_eq!(told[0][1].len(), 3 + 2 * 30);
    }
}
