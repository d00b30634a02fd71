//! Civil periods: days, weeks, months, years and even parts of days, as a zone has them.

use jiff::ToSpan;
use jiff::civil::Date;

use super::{SECOND, Zone};

/// A civil period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Civil {
    /// One of several parts of a day, of this number of nanoseconds each; the last one of a day ends with it.
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

/// From an instant up to, but not including, another one, in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The first instant.
    pub start: i128,
    /// The first instant after it.
    pub end: i128,
}

const DAY: u64 = 86_400 * SECOND;
const HALF_DAY: u64 = DAY / 2;
const WEEK: u64 = 7 * DAY;
/// As durations count months and years.
const MONTH: u64 = 2_630_016 * SECOND;
const YEAR: u64 = 31_557_600 * SECOND;

impl Civil {
    /// The period that this number of nanoseconds stands for, as `1d`, `1w`, `1month` and `1y` are read; if there is
    /// one.
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

    /// The most nanoseconds that it lasts, unless the zone changes its clocks.
    pub fn longest(self) -> u64 {
        match self {
            Civil::Part(nanos) => nanos,
            Civil::Day => DAY,
            Civil::Week => WEEK,
            Civil::Month => 31 * DAY,
            Civil::Year => 366 * DAY,
        }
    }

    /// The one that an instant is in.
    pub fn around(self, zone: Zone, at: i128) -> Stretch {
        let whole = self.whole(zone, at);
        if let Civil::Part(nanos) = self { part(whole, nanos.into(), at) } else { whole }
    }

    /// The number of periods from the one that `first` is in to the one that `last` is in.
    pub fn number(self, zone: Zone, first: i128, last: i128) -> i128 {
        let (mut number, mut at) = (0, first);
        while at <= last {
            let Stretch { start, end } = self.whole(zone, at);
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

    /// The period, or the day of which it is a part.
    fn whole(self, zone: Zone, at: i128) -> Stretch {
        let mut first = self.first_date(zone.date(at));
        loop {
            let next = self.next_date(first);
            let end = zone.first_of(next);
            if at < end {
                return Stretch { start: zone.first_of(first), end };
            }
            // The clocks were set back across the end of this period, so the instant is in a later one.
            first = next;
        }
    }

    fn first_date(self, date: Date) -> Date {
        match self {
            Civil::Part(_) | Civil::Day => date,
            Civil::Week => date.saturating_sub(i64::from(date.weekday().to_monday_zero_offset()).days()),
            Civil::Month => date.first_of_month(),
            Civil::Year => date.first_of_year(),
        }
    }

    fn next_date(self, date: Date) -> Date {
        date.saturating_add(match self {
            Civil::Part(_) | Civil::Day => 1.day(),
            Civil::Week => 1.week(),
            Civil::Month => 1.month(),
            Civil::Year => 1.year(),
        })
    }
}

/// The part of a day that an instant is in.
fn part(day: Stretch, nanos: i128, at: i128) -> Stretch {
    let start = at - (at - day.start) % nanos;
    Stretch { start, end: day.end.min(start + nanos) }
}
