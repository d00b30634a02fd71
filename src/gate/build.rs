//! Builds limiters from RATEs.

use super::{History, Limiter};
use crate::config::{CountFrom, Rate, keys};
use crate::rule::{FromExit, NamedRule, Rule, Terms, Visitor};
use crate::time::{Time, Wall};

/// For each limit, the index in [`keys`] of its key, if it applies to each key separately.
pub(super) fn key_parts(rates: &[Rate]) -> Vec<Option<usize>> {
    let keys = keys(rates);
    let part = |rate: &Rate| {
        let key = rate.key.as_ref().filter(|_| rate.is_by_key())?;
        keys.iter().position(|known| *known == key)
    };
    rates.iter().map(part).collect()
}

/// Builds the limiter of a RATE. `start` is the start of the run.
pub(super) fn limiter(rate: &Rate, start: Time, wall: Wall) -> Box<dyn Limiter> {
    let mut limiter = rate.algorithm.visit(BuildHistory(rate, wall));
    if rate.starts_empty {
        limiter.exhaust(start);
    }
    limiter
}

/// Builds the history for the rule of a limit.
struct BuildHistory<'a>(&'a Rate, Wall);

impl Visitor for BuildHistory<'_> {
    type Output = Box<dyn Limiter>;

    fn visit<R: NamedRule>(self) -> Box<dyn Limiter> {
        let BuildHistory(rate, wall) = self;
        match rate.from {
            CountFrom::Start => for_keys::<R>(rate, wall),
            CountFrom::Exit | CountFrom::Running => for_keys::<FromExit<R>>(rate, wall),
        }
    }
}

/// Builds one history for all items, or one for each key.
fn for_keys<R: Rule>(rate: &Rate, wall: Wall) -> Box<dyn Limiter> {
    let terms = Terms { wall, ..rate.padded_terms() };
    let rule = R::new(terms);
    match (&rate.key, &rate.only) {
        (Some(_), None) => Box::new(History::keyed(rule, terms.period)),
        _ => Box::new(History::common(rule)),
    }
}
