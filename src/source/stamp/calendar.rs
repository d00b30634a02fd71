//! Dates and times: RFC 3339, ISO 8601, the common log format, and syslog's.

use jiff::civil::Date;

/// A date and a time, in any zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DateTime {
    /// Since 1970, read as UTC.
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const EPOCH: Date = Date::constant(1970, 1, 1);

/// A value read from the start of a text, and the rest of the text.
type Read<'a, T> = Option<(T, &'a [u8])>;

/// Reads a date and a time, after a bracket if there is one.
pub(super) fn read(text: &[u8]) -> Read<'_, DateTime> {
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let (days, rest) = match text.get(2)? {
        b'/' => common_date(text)?,
        _ => iso_date(text)?,
    };
    let (seconds, rest) = time(rest)?;
    let (nanos, rest) = fraction(rest)?;
    Some((DateTime { seconds: days * 86_400 + seconds, nanos }, rest))
}

/// A date without a year, and a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct YearDay {
    month: i64,
    day: i64,
    /// Since midnight.
    seconds: i64,
    pub(super) nanos: u32,
}

impl YearDay {
    /// The seconds since 1970 of this date in `year`, read as UTC; `None` if the year has no such day.
    pub(super) fn seconds(&self, year: i64) -> Option<i64> {
        Some(days(year, self.month, self.day)? * 86_400 + self.seconds)
    }
}

/// `Nov 22 22:13:20`, or `Nov  2`.
pub(super) fn year_day(text: &[u8]) -> Read<'_, YearDay> {
    let (&[m1, m2, m3, b' '], rest) = text.split_first_chunk()? else { return None };
    let (day, rest) = match rest.trim_ascii_start() {
        [ones, b' ', rest @ ..] => (two(b'0', *ones)?, rest),
        [tens, ones, b' ', rest @ ..] => (two(*tens, *ones)?, rest),
        _ => return None,
    };
    let (seconds, rest) = time(rest)?;
    let (nanos, rest) = fraction(rest)?;
    let month = month([m1, m2, m3])?;
    // A leap year has every day that any year has.
    days(2000, month, day)?;
    Some((YearDay { month, day, seconds, nanos }, rest))
}

/// The rest of a syslog message after its `<PRI>` and, if it has one, its version.
pub(super) fn after_priority(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"<")?;
    let priority = digits(text);
    let text = text.get(priority..)?.strip_prefix(b">").filter(|_| priority > 0)?;
    match text.split_at(digits(text)) {
        ([_, ..], rest @ [b' ' | b'\t', ..]) => Some(rest.trim_ascii_start()),
        _ => Some(text),
    }
}

/// `2023-11-14` and a `T` or blanks, as days since 1970.
fn iso_date(text: &[u8]) -> Read<'_, i64> {
    let (&[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, separator], rest) = text.split_first_chunk()? else {
        return None;
    };
    let rest = match separator {
        b'T' | b't' => rest,
        b' ' | b'\t' => rest.trim_ascii_start(),
        _ => return None,
    };
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    Some((days(year, two(m1, m2)?, two(d1, d2)?)?, rest))
}

/// `14/Nov/2023:`, as days since 1970.
fn common_date(text: &[u8]) -> Read<'_, i64> {
    let (&[d1, d2, b'/', m1, m2, m3, b'/', y1, y2, y3, y4, b':'], rest) = text.split_first_chunk()? else {
        return None;
    };
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    Some((days(year, month([m1, m2, m3])?, two(d1, d2)?)?, rest))
}

fn month(name: [u8; 3]) -> Option<i64> {
    (1..).zip(MONTHS).find(|(_, known)| *known == name).map(|(month, _)| month)
}

/// `22:13:20`, as seconds. The 60 of a leap second is the first second of the next minute.
fn time(text: &[u8]) -> Read<'_, i64> {
    let (&[h1, h2, b':', m1, m2, b':', s1, s2], rest) = text.split_first_chunk()? else { return None };
    let (hour, minute, second) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then_some((hour * 3600 + minute * 60 + second, rest))
}

/// Up to nine decimals after a point or a comma, if there is one, as nanoseconds.
fn fraction(text: &[u8]) -> Read<'_, u32> {
    let [mark @ (b'.' | b','), decimals @ ..] = text else { return Some((0, text)) };
    match digits(decimals) {
        0 if *mark == b',' => Some((0, text)),
        count @ 1..=9 => {
            let (decimals, rest) = decimals.split_at(count);
            let number = decimals.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
            Some((number * 10u32.pow(u32::try_from(9 - count).unwrap_or(0)), rest))
        }
        _ => None,
    }
}

/// The number of digits at the start of a text.
pub(super) fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// A zone after a time, in seconds ahead of UTC. Also takes a closing bracket.
pub(super) fn zone(text: &[u8]) -> Read<'_, i64> {
    let (offset, rest) = match text {
        [b'Z' | b'z', rest @ ..] => (0, rest),
        [b' ', apart @ ..] => zone_apart(apart)?,
        _ => signed_offset(text)?,
    };
    Some((offset, rest.strip_prefix(b"]").unwrap_or(rest)))
}

/// A zone after a blank: a name of UTC, or an offset that cannot be any other number.
fn zone_apart(text: &[u8]) -> Read<'_, i64> {
    if let Some(rest) = utc(text) {
        return Some((0, rest));
    }
    let (offset, rest) = signed_offset(text)?;
    let has_minutes = text.len() - rest.len() > b"+01".len();
    (has_minutes && !goes_on(rest)).then_some((offset, rest))
}

/// The text after a name of UTC; `None` if that is an offset or continues the word.
fn utc(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"UTC").or_else(|| text.strip_prefix(b"GMT"))?;
    (!goes_on(rest) && !rest.starts_with(b"+")).then_some(rest)
}

/// True if `rest` continues a word or number.
fn goes_on(rest: &[u8]) -> bool {
    rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// `+01:00`, `+0100` or `+01`, in seconds.
fn signed_offset(text: &[u8]) -> Read<'_, i64> {
    match text {
        [b'+', rest @ ..] => offset(rest),
        [b'-', rest @ ..] => offset(rest).map(|(offset, rest)| (-offset, rest)),
        _ => None,
    }
}

fn offset(text: &[u8]) -> Read<'_, i64> {
    let (&[h1, h2], rest) = text.split_first_chunk()?;
    let hours = two(h1, h2)?;
    let (minutes, rest) = match rest {
        [b':', m1, m2, rest @ ..] | [m1 @ b'0'..=b'9', m2, rest @ ..] => (two(*m1, *m2)?, rest),
        _ => (0, rest),
    };
    let is_offset = hours < 24 && minutes < 60;
    is_offset.then_some((hours * 3600 + minutes * 60, rest))
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
    is_number.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// Days since 1970, if there is such a day.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    Some(date.duration_since(EPOCH).as_secs() / 86_400)
}
