//! The rates that a run has found, in words and as JSON.

use std::num::NonZeroU64;

use serde_json::{Value, json};

use crate::config::{Rate, format_duration};
use crate::gate::Learned;
use crate::printable::{excerpt, quoted};
use crate::schedule::Schedule;
use crate::time::SECOND;

/// The most keys that are told of.
const MAX_KEYS: usize = 5;

/// A longer key, in bytes, is left out of what to write next time.
const LONGEST_KEY: usize = 80;

/// What each limit with a range has learned, a line for each key: those first that were asked for most.
pub(super) fn lines(schedule: &Schedule) -> Vec<String> {
    schedule.learned().flat_map(|(rate, keys)| of_limit(rate, &keys)).collect()
}

fn of_limit(rate: &Rate, keys: &[(&[u8], &Learned)]) -> Vec<String> {
    let told = keys.iter().take(MAX_KEYS).map(|(key, learned)| of_key(rate, key, learned));
    let rest = keys.len().saturating_sub(MAX_KEYS);
    told.chain((rest > 0).then(|| format!("learned rates for {rest} more keys"))).collect()
}

fn of_key(rate: &Rate, key: &[u8], learned: &Learned) -> String {
    let of_key = if rate.is_by_key() { format!(" for {}", excerpt(key)) } else { String::new() };
    let (attempts, throttled) = (learned.attempts, learned.throttled);
    let attempts = format!("{attempts} request{}", if attempts == 1 { "" } else { "s" });
    let Some(borne) = learned.borne() else {
        let reached = per_period(rate, learned.rate());
        return format!("learned no limit{of_key}: {attempts}, none throttled, up to {reached}");
    };
    let found = per_period(rate, borne);
    let again = next_time(rate, key, &found);
    format!("learned {found}{of_key}: {attempts}, {throttled} throttled; next time: -r {again}")
}

/// A RATE with what was found, of this key only.
fn next_time(rate: &Rate, key: &[u8], found: &str) -> String {
    let key = rate.only.as_deref().or(str::from_utf8(key).ok()).filter(|key| key.len() <= LONGEST_KEY);
    let of_key = rate.key.as_ref().zip(key);
    let of_key = of_key.map_or_else(String::new, |(selector, key)| format!(",key={selector},only={key}"));
    quoted(&[format!("{found}{of_key}").into()])
}

/// A rate a second as a RATE, rounded down to a whole number, or to a tenth if it is small.
fn per_period(rate: &Rate, a_second: f64) -> String {
    #[expect(clippy::cast_precision_loss)]
    let count = a_second * rate.period as f64 / SECOND as f64;
    let count = if count < 10.0 { (count * 10.0).floor() / 10.0 } else { count.floor() };
    #[expect(clippy::cast_precision_loss)]
    let count = count.max(rate.least.map_or(1, NonZeroU64::get) as f64);
    let period = format_duration(rate.period);
    let unit = period.strip_prefix('1').filter(|unit| unit.starts_with(|c: char| c.is_ascii_alphabetic()));
    format!("{count}/{}", unit.unwrap_or(&period))
}

/// The rate now of a limit that all items share, as a RATE.
pub(super) fn now(schedule: &Schedule) -> Option<String> {
    let (rate, keys) = schedule.learned().next()?;
    let (_, learned) = keys.first().filter(|_| !rate.is_by_key())?;
    Some(per_period(rate, learned.rate()))
}

/// What a limit has learned, by key; `null` if its rate is given.
pub(super) fn json(schedule: &Schedule, limit: &Rate) -> Value {
    let found = schedule.learned().find(|(rate, _)| *rate == limit);
    let keys = found.map(|(_, keys)| {
        keys.into_iter()
            .map(|(key, learned)| {
                json!({
                    "key": limit.is_by_key().then(|| String::from_utf8_lossy(key)),
                    "rate_per_second": learned.rate(),
                    "attempts": learned.attempts,
                    "throttled": learned.throttled,
                })
            })
            .collect::<Vec<_>>()
    });
    json!(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_write_next_time_is_of_the_same_key() {
        let table = [
            ("1..100/s", "", "18/s"),
            ("1..100/s,key=host", "a.example", "18/s,key=host,only=a.example"),
            ("1..100/s,key=.user", "Ann Lee, jr.", "'18/s,key=.user,only=Ann Lee, jr.'"),
        ];
        for (rate, key, told) in table {
            let again = next_time(&rate.parse().unwrap(), key.as_bytes(), "18/s");
            assert_eq!(again, told);
            let again: Rate = again.trim_matches('\'').parse().unwrap();
            assert_eq!(again.only.as_deref().unwrap_or_default(), key);
        }
        // All items of such a limit share it.
        let of_one = "1..100/s,key=host,only=a.example".parse().unwrap();
        assert_eq!(next_time(&of_one, b"", "18/s"), "18/s,key=host,only=a.example");
    }

    #[test]
    fn a_rate_is_told_so_that_it_can_be_typed() {
        let table = [
            ("1..100/s", 18.99, "18/s"),
            ("1..100/s", 4.56, "4.5/s"),
            ("1..100/s", 0.2, "1/s"),
            ("1..100/m", 0.5, "30/m"),
            ("1..100/2m", 0.5, "60/2m"),
        ];
        for (rate, a_second, told) in table {
            let rate: Rate = rate.parse().unwrap();
            assert_eq!(per_period(&rate, a_second), told);
            told.parse::<Rate>().unwrap();
        }
    }
}
