//! From what limits are to what keeps them.

use crate::config::{From, Rate, Start, keys};
use crate::limiter::{Keyed, Limit, Limiter, Limits, Single};
use crate::rule::{FromExit, Named, Rule, Terms, Visitor};
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
    rate.padded_terms()
}

pub(super) fn limiter(rate: &Rate, start: Time) -> Box<dyn Limiter> {
    let mut limiter = rate.algorithm.visit(History { rate });
    if rate.start == Start::Empty {
        limiter.exhaust(start);
    }
    limiter
}

/// Gives the rule of a limit a history.
struct History<'a> {
    rate: &'a Rate,
}

impl Visitor for History<'_> {
    type Output = Box<dyn Limiter>;

    fn visit<R: Named>(self) -> Box<dyn Limiter> {
        let rule = R::new(terms(self.rate));
        match self.rate.from {
            From::Start => for_keys(self.rate, rule),
            From::Exit => for_keys(self.rate, FromExit::new(rule)),
        }
    }
}

/// One history for all, or one for each key.
fn for_keys<R: Rule + Clone + 'static>(rate: &Rate, rule: R) -> Box<dyn Limiter> {
    match (&rate.key, &rate.only) {
        (Some(_), None) => Box::new(Keyed::new(rule, terms(rate).period)),
        _ => Box::new(Single::new(rule)),
    }
}
