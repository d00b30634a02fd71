//! From what was asked for to what runs: the one match over the algorithms.

use super::rate::{Algorithm, From, Rate, Start};
use crate::limiter::{All, Bucket, Fixed, FromExit, Interval, Keyed, Limit, Limiter, Sliding, Terms};
use crate::time::Time;

/// Builds the limiters. `start` is the start of the run.
pub fn build(limits: &[Rate], start: Time) -> All {
    let parts = key_parts(limits);
    limits.iter().zip(parts).map(|(rate, key)| Limit { rule: rule(rate, start), key }).collect()
}

/// Builds the limiters for `new` limits, which take the place of `old` ones at `now`.
///
/// A limit that stands in both keeps its history. Of the others, one that has changed keeps what it knows of past
/// releases; they are paired in their order among those with the same algorithm, cost and key. One that has no
/// counterpart begins as its `start=` says.
pub fn rebuild(old: &[Rate], limits: All, new: &[Rate], now: Time) -> All {
    let mut old: Vec<_> = old.iter().zip(limits).map(Some).collect();
    let mut take = |matches: &dyn Fn(&Rate) -> bool| {
        let found = old.iter_mut().find(|slot| slot.as_ref().is_some_and(|(rate, _)| matches(rate)));
        found.and_then(Option::take).map(|(_, limit)| limit.rule)
    };
    let mut rules: Vec<_> = new.iter().map(|rate| take(&|old| old == rate)).collect();
    for (rate, rule) in new.iter().zip(&mut rules).filter(|(_, rule)| rule.is_none()) {
        *rule = take(&|old| has_same_history(old, rate));
        rule.iter_mut().for_each(|rule| rule.retune(now, terms(rate)));
    }
    let rules = new.iter().zip(rules).map(|(rate, kept)| kept.unwrap_or_else(|| self::rule(rate, now)));
    rules.zip(key_parts(new)).map(|(rule, key)| Limit { rule, key }).collect()
}

/// Whether what one limit remembers means the same to the other.
fn has_same_history(a: &Rate, b: &Rate) -> bool {
    (a.algorithm, a.from, &a.cost, &a.key, &a.only) == (b.algorithm, b.from, &b.cost, &b.key, &b.only)
}

/// For each limit, which of the [`keys`] it goes by, if each key has a limiter of its own.
fn key_parts(limits: &[Rate]) -> Vec<Option<usize>> {
    let keys = keys(limits);
    let part = |rate: &Rate| {
        let key = rate.key.as_ref().filter(|_| rate.only.is_none())?;
        keys.iter().position(|known| *known == key)
    };
    limits.iter().map(part).collect()
}

/// The different keys that limits go by, in the order in which they first occur.
pub(crate) fn keys(limits: &[Rate]) -> Vec<&super::Selector> {
    let mut keys = Vec::new();
    for key in limits.iter().filter_map(|rate| rate.key.as_ref()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn terms(rate: &Rate) -> Terms {
    let &Rate { count, period, margin, burst, .. } = rate;
    Terms { count, period: period + margin, burst: burst.unwrap_or(count) }
}

fn rule(rate: &Rate, start: Time) -> Box<dyn Limiter> {
    let terms = terms(rate);
    let mut rule: Box<dyn Limiter> = match rate.algorithm {
        Algorithm::Sliding if rate.from == From::Exit => {
            for_keys(rate, FromExit::overlapping(Sliding::new(terms)))
        }
        Algorithm::Interval if rate.from == From::Exit => {
            for_keys(rate, FromExit::serial(Interval::new(terms)))
        }
        Algorithm::Sliding => for_keys(rate, Sliding::new(terms)),
        Algorithm::Bucket => for_keys(rate, Bucket::new(terms)),
        Algorithm::Interval => for_keys(rate, Interval::new(terms)),
        Algorithm::Fixed => for_keys(rate, Fixed::new(terms)),
    };
    if rate.start == Start::Empty {
        rule.drain(start);
    }
    rule
}

/// One limiter for all, or one for each key.
fn for_keys<L: Limiter + Clone + 'static>(rate: &Rate, limiter: L) -> Box<dyn Limiter> {
    match (&rate.key, &rate.only) {
        (Some(_), None) => Box::new(Keyed::new(limiter, terms(rate).period)),
        _ => Box::new(limiter),
    }
}
