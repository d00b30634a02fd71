//! Civil periods of a zone: days, weeks, months, years, and parts that divide a day evenly.

use std::ops::Range;

use jiff::ToSpan;

use super::{SECOND, Zone};

/// A civil period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Civil {
    /// A part of a day, of this number of nanoseconds; the last one ends with the day.
    Part(u64),
    /// From the first instant of a date.
    Day,
    /// From Monday.
    Week,
    /// From its first day.
    Month,
    /// From January 1.
    Year,
}

const DAY: u64 = 86_400 * SECOND;
const HALF_DAY: u64 = DAY / 2;
const WEEK: u64 = 7 * DAY;
/// The average month and year that durations use.
const MONTH: u64 = 2_630_016 * SECOND;
const YEAR: u64 = 31_557_600 * SECOND;

impl Civil {
    /// The civil period that a duration in nanoseconds stands for, as `1d`, `1w`, `1month` and `1y` parse, if any.
    pub fn new(period: u64) -> Option<Self> {
        match period {
            SECOND..=HALF_DAY if DAY.is_multiple_of(period) => Some(Civil::Part(period)),
            DAY => Some(Civil::Day),
            WEEK => Some(Civil::Week),
            MONTH => Some(Civil::Month),
            YEAR => Some(Civil::Year),
            _ => None,
        }
    }

    /// The longest that it lasts, in nanoseconds, unless clocks change.
    pub fn longest(self) -> u64 {
        match self {
            Civil::Part(nanos) => nanos,
            Civil::Day => DAY,
            Civil::Week => WEEK,
            Civil::Month => 31 * DAY,
            Civil::Year => 366 * DAY,
        }
    }

    /// The period that an instant is in, in nanoseconds since 1970.
    pub fn around(self, zone: Zone, at: i128) -> Range<i128> {
        let whole = self.whole(zone, at);
        let Civil::Part(nanos) = self else { return whole };
        let start = at - (at - whole.start) % i128::from(nanos);
        start..whole.end.min(start + i128::from(nanos))
    }

    /// The number of periods from the one holding `first` to the one holding `last`, both included.
    pub fn number(self, zone: Zone, first: i128, last: i128) -> i128 {
        let (mut number, mut at) = (0, first);
        while at <= last {
            let Range { start, end } = self.whole(zone, at);
            number += match self {
                Civil::Part(nanos) => {
                    let index = |at| (at - start) / i128::from(nanos);
                    index(last.min(end - 1)) - index(at) + 1
                }
                _ => 1,
            };
            at = end;
        }
        number
    }

    /// The period that an instant is in; for a part of a day, the whole day.
    fn whole(self, zone: Zone, at: i128) -> Range<i128> {
        let date = zone.date(at);
        let (mut first, length) = match self {
            Civil::Part(_) | Civil::Day => (date, 1.day()),
            Civil::Week => {
                (date.saturating_sub(i64::from(date.weekday().to_monday_zero_offset()).days()), 1.week())
            }
            Civil::Month => (date.first_of_month(), 1.month()),
            Civil::Year => (date.first_of_year(), 1.year()),
        };
        loop {
            let next = first.saturating_add(length);
            let end = zone.first_of(next);
            if at < end {
                return zone.first_of(first)..end;
            }
            // Clocks were set back across the end of this period, so the instant is in a later one.
            first = next;
        }
    }
}
