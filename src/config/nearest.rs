//! Suggestions for a RATE that cannot be read.

use anyhow::Error;

use super::amount::Amount;
use super::duration::parse_duration;
use super::quantity::{parse_count, parse_decimal, without_exponent};

/// Extends `error` with what `text` may have been meant to be. A rate in bytes is suggested only if it `is_rate`.
pub(super) fn nearest(text: &str, error: &Error, is_rate: impl Fn(&str) -> bool) -> Error {
    if let Some(rate) = in_bytes(text).filter(|rate| is_rate(rate)) {
        return Error::msg(format!("bytes are a cost, not a count: try {rate}"));
    }
    // A count of 0 is a pause, valid only in files: it is never what a bare 0 was meant to be.
    let is_valid = |rate: &String| Amount::parse(rate).is_ok_and(|amount| amount.rate.count > 0);
    let valid: Vec<_> = candidates(text).into_iter().filter(is_valid).collect();
    match valid.split_last() {
        None => {
            Error::msg(format!("{error:#}; a rate is a count and a period, such as 10/s, 100/2m or 1/500ms"))
        }
        Some((last, [])) => Error::msg(format!("{error:#}: try {last}")),
        Some((last, others)) => Error::msg(format!("{error:#}: try {} or {last}", others.join(", "))),
    }
}

fn candidates(text: &str) -> Vec<String> {
    let (digits, rest) = leading_number(text);
    let rest = rest.split(',').next().unwrap_or_default();
    let words: Vec<_> =
        rest.split(['/', ' ']).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let Some((word, others)) = words.split_last() else {
        return ["s", "m", "500ms"].map(|period| format!("{digits}/{period}")).into();
    };
    // It is not clear which of several numbers is the count.
    if others.iter().any(|word| word.contains(|c: char| c.is_ascii_digit())) {
        return Vec::new();
    }
    match word.as_str() {
        "hz" => return vec![format!("{digits}/s")],
        _ if rest == word && parse_duration(&format!("1{word}")).is_ok() => {
            return vec![format!("{digits}/{word}"), format!("1/{digits}{word}")];
        }
        _ => {}
    }
    let almost = [word.trim_start_matches("per"), word.get(..1).unwrap_or_default()];
    let periods = words.iter().rev().map(String::as_str).chain(almost);
    let rates = periods.map(|period| format!("{digits}/{period}"));
    rates.filter(|rate| Amount::parse(rate).is_ok()).take(1).collect()
}

/// The number at the start, as this program writes it, and the rest. Without a number, it is 1.
fn leading_number(text: &str) -> (String, &str) {
    let text = text.trim_start_matches(|c: char| "+-~<=".contains(c) || c.is_whitespace());
    let is_part = |(at, c): (usize, char)| {
        let goes_on = text[at + c.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
        c.is_ascii_digit() || goes_on && at > 0 && "._,' e".contains(c)
    };
    let end = text.char_indices().find(|&at| !is_part(at)).map_or(text.len(), |(at, _)| at);
    let (number, rest) = text.split_at(end);
    // A comma is a decimal one unless three digits follow it.
    let is_decimal = |(_, decimals): (&str, &str)| decimals.len() != 3 && !decimals.contains(['.', ',']);
    let number = match number.split_once(',') {
        Some(parts) if is_decimal(parts) => number.replace(',', "."),
        _ => number.to_owned(),
    };
    let digits: String = number.chars().filter(|c| !"_,' ".contains(*c)).collect();
    let unit = rest.len() - rest.trim_start_matches(['k', 'K', 'M', 'G', 'T', 'i']).len();
    let (unit, after) = rest.split_at(unit);
    let has_unit = !after.starts_with(char::is_alphabetic) && parse_count(&format!("1{unit}")).is_ok();
    let (unit, rest) = if has_unit { (unit, after) } else { ("", rest) };
    let number = match without_exponent(&digits) {
        Some(expanded) => expanded,
        None if digits.is_empty() => "1".to_owned(),
        None => digits,
    };
    (format!("{number}{unit}"), rest)
}

/// Bytes or bits per period, such as `1MB/s` or `100 Mbps`, as a RATE whose items cost their bytes.
fn in_bytes(text: &str) -> Option<String> {
    let (number, rest) = leading_number(text);
    let rest = rest.trim_start();
    let (word, period) = rest.split_at(rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len()));
    let (word, period, is_short) = match word.strip_suffix("ps") {
        Some(word) => (word, "s", true),
        None => (word, period.trim().trim_start_matches("per ").trim_start_matches('/').trim(), false),
    };
    let period = period.split(',').next().filter(|period| !period.is_empty()).unwrap_or("s");
    let unit = word.len() - word.trim_start_matches(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T', 'i']).len();
    let (unit, what) = word.split_at(unit);
    let is_in_bits = match what {
        "B" | "byte" | "bytes" | "Byte" | "Bytes" => false,
        "bit" | "bits" => true,
        // In common usage `Mb` and `mbps` are bits, and `mb` is sloppy for `MB`.
        "b" => is_short || !unit.starts_with(char::is_lowercase),
        _ => return None,
    };
    let number = if is_in_bits { eighth(&number)? } else { number };
    let unit = unit.replace('m', "M").replace('g', "G").replace('t', "T");
    // A sliding window would never admit an item of more than N bytes.
    Some(format!("{number}{unit}/{period},cost=bytes,algo=bucket"))
}

/// An eighth of a decimal number, exactly.
fn eighth(number: &str) -> Option<String> {
    let (digits, decimals) = parse_decimal(number).ok()?;
    let decimals = usize::try_from(decimals).ok()? + 3;
    let digits = format!("{:0>width$}", digits.checked_mul(125)?, width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    Some(format!("{whole}.{fraction}").trim_end_matches('0').trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use crate::config::RateText;

    /// The text as typed, and the suggestion for it.
    #[test]
    fn what_is_suggested_can_be_read() {
        for (text, suggested) in [
            ("10", &["10/s", "10/m", "10/500ms"][..]),
            ("10/", &["10/s", "10/m", "10/500ms"]),
            ("1.5k", &["1.5k/s", "1.5k/m", "1.5k/500ms"]),
            ("", &["1/s", "1/m", "1/500ms"]),
            ("/s", &["1/s"]),
            ("-5/s", &["5/s"]),
            ("10/S", &["10/s"]),
            ("10/Min", &["10/min"]),
            ("10//s", &["10/s"]),
            ("10/x s", &["10/s"]),
            ("10/s/host", &["10/s"]),
            ("10/s algo=bucket", &["10/s"]),
            ("10Hz", &["10/s"]),
            ("10s", &["10/s", "1/10s"]),
            ("10 req/s", &["10/s"]),
            ("10 requests per minute", &["10/minute"]),
            ("10persec", &["10/sec"]),
            ("10/seconde", &["10/s"]),
            ("1,000/s", &["1000/s"]),
            ("1,5/s", &["1.5/s"]),
            ("1,000,000/h", &["1000000/h"]),
            ("1_000/s", &["1000/s"]),
            ("1 000/h", &["1000/h"]),
            ("1e3/s", &["1000/s"]),
            ("5Ki req/s", &["5Ki/s"]),
        ] {
            let error = text.parse::<RateText>().unwrap_err().to_string();
            let list = error.rsplit_once(": try ").unwrap_or_else(|| panic!("{text}: {error}")).1;
            let list: Vec<_> = list.split(", ").flat_map(|part| part.split(" or ")).collect();
            assert_eq!(list, suggested, "{text}");
            list.iter().for_each(|text| assert!(text.parse::<RateText>().is_ok(), "{text}"));
        }
        for text in [
            "fast",
            "0",
            "0k",
            "s/10",
            "99999999999999999999/s",
            "10/\u{fc}",
            "\u{fc}",
            "10/s 20/m",
            "-r 10/s",
            "1/2/s",
        ] {
            let error = text.parse::<RateText>().unwrap_err().to_string();
            assert!(error.contains("10/s, 100/2m or 1/500ms") || error.contains("try 1"), "{text}: {error}");
        }
    }

    #[test]
    fn bytes_and_bits_are_costs() {
        for (text, suggested) in [
            ("1MB/s", "1M/s"),
            ("1.5 MiB/s", "1.5Mi/s"),
            ("100kB/m", "100k/m"),
            ("100kb/2m", "100k/2m"),
            ("512 bytes per second", "512/second"),
            ("1Mbit/s", "0.125M/s"),
            ("100Mbps", "12.5M/s"),
            ("8mbps", "1M/s"),
            ("16MBps", "16M/s"),
            ("1Gb/s,margin=5ms", "0.125G/s"),
            ("9600 bits/s", "1200/s"),
            ("10Mbit", "1.25M/s"),
            ("64kB", "64k/s"),
        ] {
            let error = text.parse::<RateText>().unwrap_err().to_string();
            let wanted = format!("bytes are a cost, not a count: try {suggested},cost=bytes,algo=bucket");
            assert_eq!(error, wanted, "{text}");
        }
    }
}
