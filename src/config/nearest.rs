//! Suggestions for a RATE that cannot be read.

use anyhow::Error;

use super::amount::WORDS;
use super::duration::parse_duration;
use super::quantity::{parse_count, parse_decimal, without_exponent, without_groups};
use super::rate::RUNNING;

/// More units that are not read as they are after a slash, and what they are there.
const ALIASES: [(&str, &str); 4] = [("hz", "s"), ("tps", "s"), ("rpd", "d"), (RUNNING, RUNNING)];

/// Units of which the beginning, or more than the whole, is understood: `mon`, `hourly`.
const PERIODS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

/// Words after the period that say nothing.
const FILLERS: [&str; 6] = ["per", "for", "by", "each", "max", "maximum"];

/// Extends `error` with what `text` may have been meant to be. Only what `is_rate`, and means the same, is suggested.
pub(super) fn nearest(text: &str, error: &Error, is_rate: impl Fn(&str) -> bool) -> Error {
    if let Some(rate) = in_bytes(text).filter(|rate| is_rate(rate)) {
        return Error::msg(format!("bytes are a cost, not a count: try {rate}"));
    }
    let parts: Vec<_> = text.split([' ', ';', '+', '|', '&']).filter(|part| !part.is_empty()).collect();
    if parts.len() > 1 && parts.iter().all(|part| is_rate(part)) {
        return Error::msg(format!(
            "for several limits, give each its own option or line: {}",
            parts.join(" and ")
        ));
    }
    let valid: Vec<_> = candidates(text).into_iter().filter(|rate| is_rate(rate)).collect();
    match valid.split_last() {
        None if text.contains(['.', '/']) && !text.contains(|c: char| c.is_ascii_digit() || c == ',') => {
            Error::msg(format!("{error:#}: for limits in a file, write @{text}"))
        }
        None => {
            Error::msg(format!("{error:#}; a rate is a count and a period, such as 10/s, 100/2m or 1/500ms"))
        }
        Some((last, [])) => Error::msg(format!("{error:#}: try {last}")),
        Some((last, others)) => Error::msg(format!("{error:#}: try {} or {last}", others.join(", "))),
    }
}

fn candidates(text: &str) -> Vec<String> {
    let (count, rest) = leading_number(text);
    let (rest, options) = rest.split_once(',').map_or((rest, ""), |(rest, options)| (rest, options.trim()));
    let Some((count, rest)) = with_unit(&count, rest) else { return Vec::new() };
    let words: Vec<_> = rest.split(['/', ' ', ';']).filter(|word| !word.is_empty()).collect();
    let rates = match &words[..] {
        [] => ["s", "m", "500ms"].map(|period| format!("{count}/{period}")).into(),
        [unit] if rest == *unit && parse_duration(&format!("1{unit}")).is_ok() => {
            let mut rates = vec![format!("{count}/{unit}"), format!("1/{count}{unit}")];
            rates.truncate(if count == "1" { 1 } else { 2 });
            rates
        }
        _ => per_period(&count, &words).into_iter().collect(),
    };
    let options = options.split(',').map(str::trim).filter(|option| !option.is_empty());
    let options = options.flat_map(|option| [",", option]).collect::<String>();
    rates.into_iter().map(|rate| rate + &options).collect()
}

/// A unit that is written in lower case follows the count. `None` if another seems to: then the count is not known.
fn with_unit<'a>(count: &str, rest: &'a str) -> Option<(String, &'a str)> {
    let word = &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())];
    let after = &rest[word.len()..];
    match word {
        "m" | "g" | "t" | "mi" | "gi" | "ti" | "ki" if after.starts_with(['/', ' ']) => {
            Some((format!("{count}{}{}", word[..1].to_uppercase(), &word[1..]), after))
        }
        _ if word.starts_with(['k', 'K', 'M', 'G', 'T']) && alias(&word.to_lowercase()).is_none() => None,
        _ => Some((count.to_owned(), rest)),
    }
}

/// The first of these words that is a period; before it, anything may name the items. `None` if words after it say what
/// is not understood.
fn per_period(count: &str, words: &[&str]) -> Option<String> {
    let is_number = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
    let (at, period) = words.iter().enumerate().find_map(|(at, word)| Some((at, period(word)?)))?;
    if words[..at].iter().any(is_number) {
        return None;
    }
    let options = words[at + 1..].iter().filter(|word| !FILLERS.contains(*word));
    let options = options.map(|word| match *word {
        "host" => Some(",key=host".to_owned()),
        // A regular expression may have been taken apart.
        word => (word.contains('=') && !word.contains("=re:")).then(|| format!(",{word}")),
    });
    let options = options.collect::<Option<String>>()?;
    let needs_bucket = options.contains(",burst=") && !options.contains(",algo=");
    Some(format!("{count}/{period}{options}{}", if needs_bucket { ",algo=bucket" } else { "" }))
}

/// The period that a word stands for.
fn period(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let is_unit = |unit: &&str| parse_duration(&format!("1{unit}")).is_ok();
    let unit = word.strip_prefix("per").or_else(|| word.strip_prefix('p').filter(is_unit));
    let word = unit.unwrap_or(&word);
    let has_number = word.starts_with(|c: char| c.is_ascii_digit());
    let length = if has_number { word.to_owned() } else { format!("1{word}") };
    if word.contains(char::is_alphabetic) && parse_duration(&length).is_ok() {
        return Some(word.to_owned());
    }
    let is_about = |name: &&&str| word.len() > 1 && (name.starts_with(word) || word.starts_with(**name));
    alias(word).or_else(|| PERIODS.iter().find(is_about).copied()).map(str::to_owned)
}

fn alias(word: &str) -> Option<&'static str> {
    WORDS.iter().chain(&ALIASES).find(|(name, _)| *name == word).map(|(_, period)| *period)
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
    let unit = rest.len() - rest.trim_start_matches(['k', 'K', 'M', 'G', 'T', 'i']).len();
    let (unit, after) = rest.split_at(unit);
    let has_unit = !after.starts_with(char::is_alphabetic) && parse_count(&format!("1{unit}")).is_ok();
    let (unit, rest) = if has_unit { (unit, after) } else { ("", rest) };
    // A comma is a decimal one unless three digits follow it.
    let digits = without_exponent(number).or_else(|| without_groups(number));
    let number =
        digits.unwrap_or_else(|| if number.is_empty() { "1".to_owned() } else { number.replace(',', ".") });
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
    let (period, options) = period.split_once(',').unwrap_or((period, ""));
    let period = if period.is_empty() { "s" } else { period };
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
    let ours = ["cost=bytes", "algo=bucket"].into_iter().filter(|ours| !options.contains(&ours[..5]));
    let options = ours.chain(options.split(',').filter(|option| !option.is_empty()));
    Some(format!("{number}{unit}/{period},{}", options.collect::<Vec<_>>().join(",")))
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
            ("10/s/host", &["10/s,key=host"]),
            ("10 per second per host", &["10/second,key=host"]),
            ("10/s algo=bucket", &["10/s,algo=bucket"]),
            ("10/s;burst=5", &["10/s,burst=5,algo=bucket"]),
            ("10/S,key=re:(A/b)", &["10/s,key=re:(A/b)"]),
            ("10/s max", &["10/s"]),
            ("10 RPM", &["10/m"]),
            ("10TPS", &["10/s"]),
            ("10/mo", &["10/month"]),
            ("10 hourly", &["10/hour"]),
            ("1m", &["1/m"]),
            ("5m/s", &["5M/s"]),
            ("1ki req/s", &["1Ki/s"]),
            ("every 5s", &["1/5s"]),
            ("10Hz", &["10/s"]),
            ("10s", &["10/s", "1/10s"]),
            ("10 req/s", &["10/s"]),
            ("10 requests per minute", &["10/minute"]),
            ("10persec", &["10/sec"]),
            ("10/seconde", &["10/second"]),
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
            "-r 10/s",
            "1/2/s",
            "1/600y",
            "1/1h30",
            "1/1000000000000s",
            "10/s/5",
            "10/s burst 5",
            "10/h/key",
            "10/host",
            "10/m/s",
            "10mps",
            "10kreq/s",
            "10kk/h",
            "5 every 10 seconds",
            "10/s key=re:(A/b)",
        ] {
            let error = text.parse::<RateText>().unwrap_err().to_string();
            assert!(error.contains("10/s, 100/2m or 1/500ms"), "{text}: {error}");
        }
    }

    #[test]
    fn several_limits_are_several_options() {
        for text in ["10/s 100/m", "10/s+100/m", "10/s | 100/m"] {
            let error = text.parse::<RateText>().unwrap_err().to_string();
            assert!(
                error.starts_with("for several limits, give each its own option or line: 10/s"),
                "{error}"
            );
            assert!(error.ends_with(" and 100/m"), "{error}");
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
            ("1Gb/s", "0.125G/s"),
            ("9600 bits/s", "1200/s"),
            ("10Mbit", "1.25M/s"),
            ("64kB", "64k/s"),
        ] {
            let error = text.parse::<RateText>().unwrap_err().to_string();
            let wanted = format!("bytes are a cost, not a count: try {suggested},cost=bytes,algo=bucket");
            assert_eq!(error, wanted, "{text}");
        }
        for (text, suggested) in [
            ("1MB/s,margin=5ms", "1M/s,cost=bytes,algo=bucket,margin=5ms"),
            ("1MB/s,cost=bytes", "1M/s,algo=bucket,cost=bytes"),
        ] {
            let error = text.parse::<RateText>().unwrap_err().to_string();
            assert!(error.ends_with(&format!(": try {suggested}")), "{text}: {error}");
        }
    }
}
