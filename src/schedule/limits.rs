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

/// For each limit, which of the [`keys`] it goes by, if each key has a limit of its own.
pub(super) fn key_parts(rates: &[Rate]) -> Vec<Option<usize>> {
    let keys = keys(rates);
    let part = |rate: &Rate| {
        let key = rate.key.as_ref().filter(|_| rate.only.is_none())?;
        keys.iter().position(|known| *known == key)
    };
    rates.iter().map(part).collect()
}

pub(super) fn terms(rate: &Rate) -> Terms {
    let &Rate { count, period, margin, burst, .. } = rate;
    Terms { count, period: period + margin, burst: burst.unwrap_or(count) }
}

pub(super) fn limiter(rate: &Rate, start: Time) -> Box<dyn Limiter> {
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
