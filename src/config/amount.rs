//! A count for each period: `10/s`, `1.5/s`, `100/2m`, `60rpm`, `10 per second`.

use std::num::NonZeroU64;

use anyhow::{Context, Error, Result, bail, ensure};

use super::duration::{format_duration, has_month, parse_duration};
use super::fraction::{exact, greatest_common_divisor, round_down};
use super::quantity::{parse_count, parse_scaled};
use super::rate::{CountFrom, RUNNING, Rate};
use super::remark::Remark;

/// Units of rates written as one word, and their periods.
pub(super) const WORDS: [(&str, &str); 4] = [("rps", "s"), ("qps", "s"), ("rpm", "m"), ("rph", "h")];

/// More than this many times what is written may not go at once without a word.
const MANY: u128 = 10;

pub(super) const NO_PERIOD: &str = "a period of 0 is no limit: the minimum is 1ns";

/// Parses a rate that is to be found, `1..100/s`.
fn parse_range(least: &str, most: &str, period: &str) -> Result<Rate> {
    ensure!(!most.contains(".."), "the rates to search have two bounds, as in 1..100/s");
    let parse = |number: &str| parse_amount(&format!("{}/{period}", number.trim()));
    let (least, most) = (parse(least)?, parse(most)?);
    let divisor = greatest_common_divisor(least.period.into(), most.period.into());
    let common = u64::try_from(u128::from(least.period) / divisor * u128::from(most.period)).ok();
    let count = |rate: &Rate| rate.count.checked_mul(common? / rate.period);
    let counts = count(&least).zip(count(&most)).zip(common);
    let ((least, count), period) = counts.context("the bounds have too many decimals")?;
    let least =
        NonZeroU64::new(least).context("the lowest rate must be more than 0: that is where it begins")?;
    ensure!(least.get() < count, "the range is reversed or empty: put the lower rate first, as in 1..100/s");
    Ok(Rate { least: Some(least), count, period, remarks: most.remarks, ..Rate::default() })
}

/// Parses an amount exactly, `1.5/s` as 3 per 2 s, as a limit with nothing else filled in. With too many decimals for
/// that, rounds down. The count may be 0.
pub(super) fn parse_amount(text: &str) -> Result<Rate> {
    let Some((number, period)) = split(text).filter(|(_, period)| !period.is_empty()) else {
        bail!("a rate needs a period");
    };
    if period == RUNNING {
        ensure!(!number.contains(".."), "only a rate can be found: write the number of commands");
        return Ok(Rate { count: parse_count(number)?, from: CountFrom::Running, ..Rate::default() });
    }
    if let Some((least, most)) = number.split_once("..") {
        return parse_range(least, most, period);
    }
    if let Some((least, most)) =
        number.split_once('-').filter(|(least, _)| parse_scaled(least.trim()).is_ok())
    {
        bail!("for a rate that is to be found, write {}..{}/{period}", least.trim(), most.trim());
    }
    let (digits, scale) = parse_scaled(number)?;
    ensure!(digits / scale <= u64::MAX.into(), "too large: the maximum is 2^64-1");
    let nanos = parse_period(period)?;
    ensure!(nanos > 0, NO_PERIOD);
    let as_written = exact(digits, scale, nanos);
    let (count, nanos) = as_written
        .or_else(|| round_down(digits, scale, nanos))
        .with_context(|| format!("'{text}' is too slow: the longest period is 584 years"))?;
    let amount = || format!("{count}/{}", format_duration(nanos));
    let rounded = || Remark::Rounded(format!("{} is rounded down to {}", text.trim(), amount()));
    let remarks = [
        months(text, period, nanos, &format!("{number}/")),
        as_written.is_none().then(rounded),
        burst(text.trim(), &amount(), (count, nanos), digits.div_ceil(scale)),
    ];
    Ok(Rate { count, period: nanos, remarks: remarks.into_iter().flatten().collect(), ..Rate::default() })
}

/// Warns that far more may go at once than `text` says for a period, which is `expected` when rounded up: in its
/// `amount`, decimals make both numbers large.
fn burst(text: &str, amount: &str, (count, nanos): (u64, u64), expected: u128) -> Option<Remark> {
    let many = u128::from(count) > MANY.checked_mul(expected)?;
    let period = (expected * u128::from(nanos)).div_ceil(count.max(1).into());
    let period = format_duration(u64::try_from(period).ok().filter(|_| many)?);
    Some(Remark::Burst(format!(
        "{text} is {amount}, of which {count} may go at once; for {expected} at once, write {expected}/{period}, and \
         for one at a time add algo=interval"
    )))
}

/// Warns that a period of months may have been meant as minutes. What to write instead begins with `before`.
fn months(text: &str, period: &str, nanos: u64, before: &str) -> Option<Remark> {
    let (month, minutes) = (format_duration(nanos), period.replace('M', "m"));
    let warning =
        format!("'{text}': M is a month, so the period is {month}; for minutes, write {before}{minutes}");
    has_month(period).then_some(Remark::Months(warning))
}

/// The count and the period, as typed.
fn split(text: &str) -> Option<(&str, &str)> {
    if let Some((number, period)) = text.split_once('/').or_else(|| text.split_once(" per ")) {
        return Some((number.trim(), period.trim()));
    }
    WORDS.iter().find_map(|(word, period)| Some((text.strip_suffix(word)?.trim_end(), *period)))
}

fn parse_period(text: &str) -> Result<u64> {
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return parse_duration(text);
    }
    // The error of `1{text}` would quote text that nobody typed.
    parse_duration(&format!("1{text}"))
        .map_err(|_| Error::msg(format!("'{text}' is not a period such as s, 2m or 500ms")))
}

/// Parses the period of a limit whose count is given separately, as once per period.
///
/// # Errors
/// Not a duration. If it is a rate, the error says how to write it.
pub fn parse_limit_period(text: &str) -> Result<Rate> {
    let period = parse_duration(text).map_err(|error| match parse_amount(text) {
        Ok(_) => Error::msg(format!("that is a rate: write -r {text}")),
        Err(_) => error,
    })?;
    let remarks = months(&format!("-p {text}"), text, period, "-p ").into_iter().collect();
    Ok(Rate { count: 1, period, remarks, ..Rate::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    fn amount(text: &str) -> (u64, u64) {
        let amount = parse_amount(text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
        (amount.count, amount.period)
    }

    fn is_rounded(amount: &Rate) -> bool {
        matches!(amount.remarks[..], [Remark::Rounded(_), ..])
    }

    #[test]
    fn fractions_are_exact() {
        for (text, count, seconds) in [
            ("1.5/s", 3, 2),
            ("0.5/s", 1, 2),
            ("0.1/m", 1, 600),
            (".25/s", 1, 4),
            ("2.0/s", 2, 1),
            ("1.5k/s", 1500, 1),
            ("1.0001k/s", 10001, 10),
            ("1.5/2m", 3, 240),
            ("0.0/s", 0, 1),
        ] {
            assert_eq!(amount(text), (count, seconds * SECOND), "{text}");
        }
        assert_eq!(amount("0.3333/s"), (3333, 10_000 * SECOND));
        assert!(parse_amount("0.00000000001/s").is_err());
    }

    /// Rates as programs print them.
    #[test]
    fn what_does_not_fit_is_rounded_down() {
        for (text, count, period) in [
            ("0.7692307692307693/s", 1, 1_300_000_000),
            ("33.333333333333336/s", 34, 1_020_000_000),
            ("16.666666666666668/m", 17, 61_200_000_000),
            ("66666.66666666667/s", 66667, 1_000_005_000),
            ("16.66666666666666666666666667/m", 17, 61_200_000_000),
            ("12345678901.23456789012345/s", 12_485_596_258, 1_011_333_306),
        ] {
            let amount = parse_amount(text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
            assert!(is_rounded(&amount), "{text}");
            assert_eq!((amount.count, amount.period), (count, period), "{text}");
        }
        for text in ["1.5/s", "0.3333333333/s", "0.5000000000000000000000/s"] {
            assert!(!is_rounded(&parse_amount(text).unwrap()), "{text}");
        }
        for text in ["18446744073709551616.5/s", "99999999999999999999.99999999999/s"] {
            assert_eq!(parse_amount(text).unwrap_err().to_string(), "too large: the maximum is 2^64-1");
        }
    }

    /// Rates of all sizes, in the shortest decimals from which a float can be read back.
    #[test]
    fn a_rate_is_never_rounded_up_nor_by_more_than_1e_15() {
        let mut random = fastrand::Rng::with_seed(3);
        let units =
            [("ns", 1), ("ms", 1_000_000), ("s", SECOND), ("m", 60 * SECOND), ("1.7h", 6120 * SECOND)];
        for _ in 0..20_000 {
            let value = (random.f64() + 0.1) * 10f64.powi(random.i32(-4..9));
            let (unit, nanos) = units[random.usize(..units.len())];
            let text = format!("{value}/{unit}");
            let Ok(amount) = parse_amount(&text) else { panic!("{text}") };
            let (whole, decimals) = text.split_once('/').unwrap().0.split_once('.').unwrap();
            let digits: u128 = format!("{whole}{decimals}").parse().unwrap();
            let scale = 10u128.pow(decimals.len().try_into().unwrap());
            // count / period against digits / (scale · nanos).
            let wanted = digits * u128::from(amount.period);
            let found = u128::from(amount.count) * scale * u128::from(nanos);
            let missing =
                wanted.checked_sub(found).unwrap_or_else(|| panic!("{text} is {amount:?}: too fast"));
            assert!(missing <= wanted / 10u128.pow(15), "{text} is {amount:?}: too slow");
            assert!((is_rounded(&amount) || missing == 0) && amount.period >= nanos, "{text} is {amount:?}");
        }
    }

    #[test]
    fn rates_are_written_in_many_ways() {
        for (text, count, seconds) in [
            ("60rpm", 60, 60),
            ("60 rpm", 60, 60),
            ("10rps", 10, 1),
            ("10qps", 10, 1),
            ("1.5rps", 3, 2),
            ("5krph", 5000, 3600),
            ("60/min", 60, 60),
            ("10 per second", 10, 1),
            ("100 per 2 minutes", 100, 120),
            ("10 / s", 10, 1),
            ("10/day", 10, 86400),
        ] {
            assert_eq!(amount(text), (count, seconds * SECOND), "{text}");
        }
    }

    #[test]
    fn a_month_warns() {
        for (text, instead) in [("100/M", "100/m"), ("100/2M", "100/2m"), ("1k/1h 2M", "1k/1h 2m")] {
            let remarks = parse_amount(text).unwrap().remarks;
            let [Remark::Months(warning)] = &remarks[..] else { panic!("{text}: {remarks:?}") };
            assert!(
                warning.contains("is a month") && warning.ends_with(&format!("write {instead}")),
                "{warning}"
            );
            assert!(parse_amount(instead).unwrap().remarks.is_empty());
        }
        for text in ["1M/s", "1/month", "100/m", "100/Ms"] {
            assert!(parse_amount(text).map_or(true, |amount| amount.remarks.is_empty()), "{text}");
        }
    }
}
