//! From what limits are to what keeps them: the one match over the algorithms.

use crate::config::{Algorithm, From, Rate, Start, keys};
use crate::limiter::{
    Bucket, Fixed, FromExit, Interval, Keyed, Limit, Limiter, Limits, Single, Sliding, Terms,
};
use crate::time::Time;

/// Builds the limiters. `start` is the start of the run.
pub(super) fn build(rates: &[Rate], start: Time) -> Limits {
    let parts = key_parts(rates);
    rates.iter().zip(parts).map(|(rate, key)| Limit { limiter: limiter(rate, start), key }).collect()
}

/// Builds the limiters for `new` limits, which take the place of `old` ones at `now`.
///
/// A limit that stands in both keeps its history. Of the others, one that has changed keeps what it knows of past
/// releases; they are paired in their order among those with the same algorithm, cost and key. One that has no
/// counterpart begins as its `start=` says.
pub(super) fn rebuild(old: &[Rate], limits: Limits, new: &[Rate], now: Time) -> Limits {
    let mut old: Vec<_> = old.iter().zip(limits).map(Some).collect();
    let mut take = |matches: &dyn Fn(&Rate) -> bool| {
        let found = old.iter_mut().find(|limit| limit.as_ref().is_some_and(|(rate, _)| matches(rate)));
        found.and_then(Option::take).map(|(_, limit)| limit.limiter)
    };
    let mut limiters: Vec<_> = new.iter().map(|rate| take(&|old| old == rate)).collect();
    for (rate, limiter) in new.iter().zip(&mut limiters).filter(|(_, limiter)| limiter.is_none()) {
        *limiter = take(&|old| has_same_history(old, rate));
        limiter.iter_mut().for_each(|limiter| limiter.retune(now, terms(rate)));
    }
    let limiters = new.iter().zip(limiters).map(|(rate, kept)| kept.unwrap_or_else(|| limiter(rate, now)));
    limiters.zip(key_parts(new)).map(|(limiter, key)| Limit { limiter, key }).collect()
}

/// Whether what one limit remembers means the same to the other.
fn has_same_history(a: &Rate, b: &Rate) -> bool {
    (a.algorithm, a.from, &a.cost, &a.key, &a.only) == (b.algorithm, b.from, &b.cost, &b.key, &b.only)
}

/// For each limit, which of the [`keys`] it goes by, if each key has a limit of its own.
fn key_parts(rates: &[Rate]) -> Vec<Option<usize>> {
    let keys = keys(rates);
    let part = |rate: &Rate| {
        let key = rate.key.as_ref().filter(|_| rate.only.is_none())?;
        keys.iter().position(|known| *known == key)
    };
    rates.iter().map(part).collect()
}

fn terms(rate: &Rate) -> Terms {
    let &Rate { count, period, margin, burst, .. } = rate;
    Terms { count, period: period + margin, burst: burst.unwrap_or(count) }
}

fn limiter(rate: &Rate, start: Time) -> Box<dyn Limiter> {
    let terms = terms(rate);
    let mut limiter: Box<dyn Limiter> = match rate.algorithm {
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
        limiter.exhaust(start);
    }
    limiter
}

/// One limiter for all, or one for each key.
fn for_keys<A: crate::limiter::Algorithm + Clone + 'static>(rate: &Rate, rule: A) -> Box<dyn Limiter> {
    match (&rate.key, &rate.only) {
        (Some(_), None) => Box::new(Keyed::new(rule, terms(rate).period)),
        _ => Box::new(Single::new(rule)),
    }
}
