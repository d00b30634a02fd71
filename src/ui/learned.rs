//! The rates that a run has found, in words and as JSON.

use std::num::NonZeroU64;

use serde_json::{Value, json};

use super::number::count_of;
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
    let attempts = count_of(learned.attempts, "request");
    let throttled = match learned.throttled {
        0 => "none throttled".to_owned(),
        all if all == learned.attempts => "all throttled".to_owned(),
        some => format!("{some} throttled"),
    };
    let Some(borne) = learned.borne() else {
        let reached = per_period(rate, learned.rate());
        return match learned.throttled == learned.attempts {
            true => format!("learned nothing{of_key}: {attempts}, {throttled}"),
            false => format!("learned no limit{of_key}: {attempts}, {throttled}, up to {reached}"),
        };
    };
    let (found, again) = if learned.lowest_is_too_fast() {
        below_lowest(rate)
    } else {
        let found = per_period(rate, borne);
        (found.clone(), Some(found))
    };
    let again = again.and_then(|again| next_time(rate, key, &again));
    let again = again.map_or_else(String::new, |again| format!("; next time: -r {again}"));
    format!("learned {found}{of_key}: {attempts}, {throttled}{again}")
}

/// What is told of a server that bears less than the lowest rate, and the range to try next, if there is a lower one.
fn below_lowest(rate: &Rate) -> (String, Option<String>) {
    let (least, unit) = (rate.least.map_or(1, NonZeroU64::get), unit(rate.period));
    #[expect(clippy::cast_precision_loss)]
    let tenth = rounded_down(rate, least as f64 / 10.0);
    (format!("less than {least}/{unit}"), (tenth > 0.0).then(|| format!("{tenth}..{least}/{unit}")))
}

/// The limit with `amount` in place of its range, of this key only; `None` if the key cannot be written.
fn next_time(rate: &Rate, key: &[u8], amount: &str) -> Option<String> {
    let mut rate = rate.clone();
    if rate.is_by_key() {
        rate.only = Some(str::from_utf8(key).ok().filter(|key| key.len() <= LONGEST_KEY)?.to_owned());
    }
    if rate.margin == rate.algorithm.spec().margin_for_commands(rate.period) {
        rate.margin = 0;
    }
    let written = rate.to_string();
    let options = written.split_once(',').map_or("", |(_, options)| options);
    Some(quoted(&[format!("{amount},{options}").into()]))
}

/// A rate a second as a RATE between the bounds of `rate`, rounded down.
fn per_period(rate: &Rate, a_second: f64) -> String {
    #[expect(clippy::cast_precision_loss)]
    let [second, period, least, most] =
        [SECOND, rate.period, rate.least.map_or(1, NonZeroU64::get), rate.count].map(|number| number as f64);
    let count = a_second * period / second;
    format!("{}/{}", rounded_down(rate, count).clamp(least, most), unit(rate.period))
}

/// A small count is rounded to a tenth, unless that would be a burst: 1.9/s are 19 per 10 s.
fn rounded_down(rate: &Rate, count: f64) -> f64 {
    if count < 10.0 && rate.algorithm.spec().accrues { (count * 10.0).floor() / 10.0 } else { count.floor() }
}

/// A period as people write it: `s`, `2m`.
fn unit(period: u64) -> String {
    let period = format_duration(period);
    let unit = period.strip_prefix('1').filter(|unit| unit.starts_with(|c: char| c.is_ascii_alphabetic()));
    unit.unwrap_or(&period).to_owned()
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
    use crate::config::{Defaults, RateText};

    #[test]
    fn what_to_write_next_time_is_of_the_same_key() {
        let table = [
            ("1..100/s", "", "18/s,algo=interval"),
            ("1..100/s,algo=sliding,local", "", "18/s,algo=sliding,local"),
            ("1..100/s,margin=5ms,cost=.n", "", "18/s,algo=interval,margin=5ms,cost=.n"),
            ("1..100/s,key=host", "a.example", "18/s,algo=interval,key=host,only=a.example"),
            ("1..100/s,key=.user", "Ann Lee, jr.", "'18/s,algo=interval,key=.user,only=Ann Lee, jr.'"),
        ];
        let again = |rate: &Rate, key: &[u8]| next_time(rate, key, "18/s");
        for (rate, key, told) in table {
            let again = again(&rate.parse().unwrap(), key.as_bytes());
            assert_eq!(again.as_deref(), Some(told));
            let again: Rate = told.trim_matches('\'').parse().unwrap();
            assert_eq!(again.only.as_deref().unwrap_or_default(), key);
        }
        // All items of such a limit share it.
        let of_one = "1..100/s,key=host,only=a.example".parse().unwrap();
        let told = "18/s,algo=interval,key=host,only=a.example";
        assert_eq!(again(&of_one, b"").as_deref(), Some(told));
        let by_key = "1..100/s,key=host".parse().unwrap();
        assert_eq!((again(&by_key, b"\xff"), again(&by_key, &[b'a'; 81])), (None, None));
        // The margin for commands is added again.
        let defaults = Defaults { are_for_commands: true, ..Defaults::default() };
        let for_commands = "1..100/s,algo=sliding".parse::<RateText>().unwrap().resolve(&defaults).unwrap();
        assert!(for_commands.margin > 0);
        assert_eq!(again(&for_commands, b"").as_deref(), Some("18/s,algo=sliding"));
    }

    #[test]
    fn a_rate_is_told_so_that_it_can_be_typed() {
        let table = [
            ("1..100/s", 18.99, "18/s"),
            ("1..100/s", 4.56, "4.5/s"),
            ("1..100/s", 0.2, "1/s"),
            ("1..100/m", 0.5, "30/m"),
            ("1..100/2m", 0.5, "60/2m"),
            ("1..100/s", 120.0, "100/s"),
            ("1..100/s,algo=sliding", 4.56, "4/s"),
        ];
        for (rate, a_second, told) in table {
            let rate: Rate = rate.parse().unwrap();
            assert_eq!(per_period(&rate, a_second), told);
            told.parse::<Rate>().unwrap();
        }
    }
}
