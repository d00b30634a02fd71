//! Builds limiters from RATEs.

use super::{History, Limit, Limiter};
use crate::config::{Rate, key_indices};
use crate::rule::{InHours, Rule, Terms, Visitor};
use crate::time::{Time, Wall};

/// As [`key_indices`], but only for limits that apply to each key separately.
pub(super) fn key_parts(rates: &[Rate]) -> Vec<Option<usize>> {
    let keys = rates.iter().zip(key_indices(rates));
    keys.map(|(rate, key)| key.filter(|_| rate.is_by_key())).collect()
}

/// Limits, each with the limiter that `limiter` gives it.
pub(super) fn limits(
    rates: &[Rate],
    wall: Wall,
    mut limiter: impl FnMut(&Rate) -> Box<dyn Limiter>,
) -> Vec<Limit> {
    let limit = |(rate, key): (&Rate, Option<usize>)| {
        let hours = InHours::of(rate.during.as_deref(), wall).map(Box::new);
        Limit { limiter: limiter(rate), key, hours }
    };
    rates.iter().zip(key_parts(rates)).map(limit).collect()
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

    fn visit<R: Rule>(self) -> Box<dyn Limiter> {
        let BuildHistory(rate, wall) = self;
        let terms = Terms { wall, ..rate.padded_terms() };
        let rule = R::new(terms);
        let history =
            if rate.is_by_key() { History::keyed(rule, terms.period) } else { History::common(rule) };
        Box::new(if rate.counts_exits() { history.from_exit() } else { history })
    }
}
