//! Counts and sizes as people write them: `100`, `1k`, `2M`, `1.5G`, `4Ki`.

use anyhow::{Context, Error, Result, bail, ensure};

const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("k", 1000),
    ("K", 1000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
];

/// Parses a whole number with an optional decimal (`k M G T`) or binary (`Ki Mi Gi Ti`) unit.
///
/// # Errors
/// Not a number, an unknown unit, not whole, or 2^64 or more.
pub fn parse_count(text: &str) -> Result<u64> {
    let (total, scale) = parse_scaled(text).map_err(|error| {
        match without_exponent(text).or_else(|| without_groups(text)) {
            Some(digits) => Error::msg(format!("write the number in digits only: {digits}")),
            None => error,
        }
    })?;
    ensure!(total % scale == 0, "'{text}' is not a whole number");
    u64::try_from(total / scale).ok().context("too large: the maximum is 2^64-1")
}

/// A whole number with an exponent, such as `1e3`, written out.
pub(super) fn without_exponent(text: &str) -> Option<String> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let zeros = exponent.parse().ok().filter(|&zeros: &usize| zeros < 20)?;
    is_whole(number).then(|| format!("{number}{}", "0".repeat(zeros)))
}

/// A number with separators between groups of three digits, such as `10,000`, without them.
pub(super) fn without_groups(text: &str) -> Option<String> {
    let (first, groups) = text.split_once([',', '_', '\'', ' '])?;
    let mut groups = groups.split([',', '_', '\'', ' ']);
    let are_groups = is_whole(first) && groups.all(|group| group.len() == 3 && is_whole(group));
    are_groups.then(|| text.replace([',', '_', '\'', ' '], ""))
}

fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Like [`parse_count`], but allows fractions. Returns a numerator and a denominator, which is a power of 10.
///
/// # Errors
/// Not a number, an unknown unit, or too large.
pub(super) fn parse_scaled(text: &str) -> Result<(u128, u128)> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    ensure!(!number.is_empty(), "a number is needed, such as 100, 1k or 4Ki");
    let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        bail!("unknown unit '{unit}': use k, M, G or T, or Ki, Mi, Gi or Ti");
    };
    let (digits, decimals) = parse_decimal(number)?;
    let total = digits.checked_mul(u128::from(scale)).context("too large: the maximum is 2^64-1")?;
    Ok((total, 10u128.pow(decimals)))
}

/// Like [`parse_count`], for bytes: a `B` may follow the unit.
///
/// # Errors
/// As [`parse_count`].
pub fn parse_size(text: &str) -> Result<u64> {
    parse_count(text.strip_suffix('B').unwrap_or(text))
}

/// Parses an unsigned decimal exactly: all its digits as one number, and the number of digits after the point.
///
/// # Errors
/// Not a decimal, or too many digits to hold.
pub(super) fn parse_decimal(text: &str) -> Result<(u128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    ensure!(!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()), "'{text}' is not a number");
    ensure!(digits.len() <= 38, "'{text}' has too many digits");
    Ok((digits.parse()?, u32::try_from(fraction.len())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        let good = [
            ("0", 0),
            ("10", 10),
            ("1k", 1000),
            ("2M", 2_000_000),
            ("4Ki", 4096),
            ("1.5k", 1500),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, value) in good {
            assert_eq!(parse_count(text).unwrap(), value, "{text}");
        }
        for text in ["", "k", "-1", "1.5", "1x", "1 k", "1e3", "1.0001k", "18446744073709551616", "99999999T"]
        {
            assert!(parse_count(text).is_err(), "{text}");
        }
        assert_eq!(parse_size("64MiB").unwrap(), 64 << 20);
    }

    #[test]
    fn digits_are_suggested_for_a_number_in_another_form() {
        for (text, digits) in
            [("10,000", "10000"), ("1e3", "1000"), ("2E0", "2"), ("1_000_000", "1000000"), ("5 000", "5000")]
        {
            let error = parse_count(text).unwrap_err().to_string();
            assert_eq!(error, format!("write the number in digits only: {digits}"));
        }
        for text in ["1,5", "1,00,000", "1e99", "1e", "1ex", "10,000k", "1,,000"] {
            let error = parse_count(text).unwrap_err().to_string();
            assert!(error.contains("unknown unit"), "{text}: {error}");
        }
        for text in ["e3", ",000"] {
            let error = parse_count(text).unwrap_err().to_string();
            assert!(error.contains("a number is needed"), "{text}: {error}");
        }
    }
}
