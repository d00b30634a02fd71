//! Durations: `500ms`, `1m30s`, `1.5h`, and bare seconds with decimals. They are held as whole nanoseconds.

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::quantity::parse_decimal;
use crate::time::SECOND;

/// Parses a duration into nanoseconds. A fraction of a nanosecond is rounded up.
///
/// # Errors
/// Not a duration, or one of 2^64 nanoseconds (584 years) or more.
pub fn parse_duration(text: &str) -> Result<u64> {
    let nanos = u64::try_from(parse_any_duration(text)?).ok();
    nanos.with_context(|| format!("'{text}' is too long: the maximum is 584 years"))
}

/// Like [`parse_duration`], but returns the longest duration for any that is longer.
///
/// # Errors
/// Not a duration.
pub fn clamped_duration(text: &str) -> Result<u64> {
    Ok(u64::try_from(parse_any_duration(text)?).unwrap_or(u64::MAX))
}

/// Parses seconds, or numbers that each have a unit. The sum saturates.
fn parse_any_duration(text: &str) -> Result<u128> {
    let is_digit = |c: char| c.is_ascii_digit();
    let is_number = |text: &str| text.contains(is_digit) && text.chars().all(|c| is_digit(c) || c == '.');
    if is_number(text) {
        return parse_seconds(text);
    }
    let invalid = || anyhow!("'{text}' is not a duration such as 500ms, 2s, 1m30s or 1h");
    let (mut nanos, mut rest) = (0u128, text.trim_end());
    loop {
        let (number, tail) = rest.split_at(rest.find(char::is_alphabetic).ok_or_else(invalid)?);
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len()));
        // Two letters look like the one for micro; humantime knows the sign, not the letter of the Greek.
        let one = format!("1{unit}").replace('\u{3bc}', "\u{b5}");
        let unknown = || anyhow!("{} ('{unit}' is none of ns, us, ms, s, m, h, d, w, M and y)", invalid());
        let number = number.trim();
        ensure!(is_number(number), invalid());
        let unit = humantime::parse_duration(&one).map_err(|_| unknown())?.as_nanos();
        nanos = nanos.saturating_add(parse_number_of(number, unit)?);
        if tail.is_empty() {
            return Ok(nanos);
        }
        rest = tail;
    }
}

/// Parses seconds with decimals into nanoseconds. A fraction of a nanosecond is rounded up.
///
/// # Errors
/// Not a number, or one with far too many digits.
pub fn parse_seconds(text: &str) -> Result<u128> {
    parse_number_of(text, SECOND.into())
}

/// Parses a number of units of this many nanoseconds. If it is too large, it is the largest number.
fn parse_number_of(text: &str, unit: u128) -> Result<u128> {
    let (digits, decimals) = parse_decimal(text)?;
    match digits.checked_mul(unit) {
        Some(nanos) => Ok(nanos.div_ceil(10u128.pow(decimals))),
        None if decimals == 0 => Ok(u128::MAX),
        None => bail!("'{text}' has too many digits"),
    }
}

/// True of a duration that has months written as `M`, which may have been meant as minutes.
pub(super) fn has_month(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|unit| unit == "M")
}

/// Writes nanoseconds as [`parse_duration`] reads them back exactly: `1m30s`.
pub fn format_duration(nanos: u64) -> String {
    let text = humantime::format_duration(std::time::Duration::from_nanos(nanos)).to_string();
    text.replace(' ', "")
}

/// Writes nanoseconds for people: below a minute, as one number rounded up to a thousandth of its unit, `996.526ms`;
/// from a minute on, rounded up to a second.
pub fn rounded_duration(nanos: u64) -> String {
    if nanos < 1000 {
        return format!("{nanos}ns");
    }
    for (unit, name, most) in [(1000, "us", 1000), (1_000_000, "ms", 1000), (SECOND, "s", 60)] {
        let thousandths = nanos.div_ceil(unit / 1000);
        if thousandths < 1000 * most {
            let number = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            return format!("{}{name}", number.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    format_duration(nanos.checked_next_multiple_of(SECOND).unwrap_or(nanos - nanos % SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let good = [
            ("1", SECOND),
            ("0", 0),
            ("0.1", SECOND / 10),
            (".5", SECOND / 2),
            ("1.000000001", SECOND + 1),
            ("0.0000000001", 1),
            ("500ms", SECOND / 2),
            ("1m30s", 90 * SECOND),
            ("1.1s", 1_100_000_000),
            (".5s", SECOND / 2),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            (".3333333333333333s", 333_333_334),
            ("0.3s", 300_000_000),
            ("1.3333333333333333s", 1_333_333_334),
            ("0.016666666666666666h", 60 * SECOND),
            ("1.33333333333333333333m30s", 110 * SECOND),
            ("1m 1.33333333333333333333s", 61_333_333_334),
            ("2h", 7200 * SECOND),
            ("1d", 86400 * SECOND),
            ("9007199254740991ns", 9_007_199_254_740_991),
        ];
        for (text, nanos) in good {
            assert_eq!(parse_duration(text).unwrap(), nanos, "{text}");
        }
        for text in [
            "",
            ".",
            ".s",
            "s",
            "-1",
            "-1s",
            "1e400",
            "1x",
            "600y",
            "18446744073.709551616",
            "99999999999999999999y",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in [format!("0.{}s", "3".repeat(40)), format!("0.{}y", "3".repeat(30))] {
            let error = parse_duration(&text).unwrap_err().to_string();
            assert!(error.ends_with("has too many digits"), "{error}");
        }
    }

    #[test]
    fn people_read_one_number() {
        for (nanos, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_500, "1.5us"),
            (999_999, "999.999us"),
            (996_525_075, "996.526ms"),
            (500_000_000, "500ms"),
            (999_999_999, "1s"),
            (59_998_000_001, "59.999s"),
            (59_999_999_999, "1m"),
            (60_990_000_000, "1m1s"),
            (100 * SECOND, "1m40s"),
            (u64::MAX, "584years6months15days8h12m57s"),
        ] {
            assert_eq!(rounded_duration(nanos), text);
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for nanos in [0, 1, 999, 1_500_000_000, 90 * SECOND, 9_007_199_254_740_991, u64::MAX] {
            assert_eq!(parse_duration(&format_duration(nanos)).unwrap(), nanos, "{nanos}");
        }
    }
}
