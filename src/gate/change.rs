//! Limits that change while they are in force, with the history of each.

use std::rc::Rc;

use super::build::{key_parts, limiter};
use super::{Limit, Limiter, Limits, Request};
use crate::config::{CountFrom, Rate};
use crate::rule::Terms;
use crate::time::{Time, Wall};

/// A limit that a pause has taken the place of. It keeps its history: until it is back, nothing that it applies to is
/// released.
pub(super) struct Paused {
    rate: Rate,
    limit: Limit,
    /// The index of a limit in force that charges the same.
    alike: Option<usize>,
}

impl Paused {
    fn all(known: Vec<OldLimit>, new: &[Rate]) -> Vec<Self> {
        let parts = key_parts(new);
        let paused = known.into_iter().filter(|known| is_paused(&known.rate, new)).map(|known| {
            let alike = new.iter().position(|rate| charges_alike(rate, &known.rate));
            let limit = Limit::new(owned(known.limiter), alike.and_then(|at| parts[at]));
            Paused { rate: known.rate, limit, alike }
        });
        paused.collect()
    }

    /// The wall clock was set at `now`.
    pub(super) fn set_wall(&mut self, now: Time, wall: Wall) {
        self.limit.set_wall(now, &self.rate, wall);
    }

    /// A release that was charged before the pause has come to its end at `now`.
    pub(super) fn finish(&mut self, now: Time, request: &Request) {
        let cost = self.alike.and_then(|at| request.costs.get(at)).copied().unwrap_or(0);
        self.limit.finish(now, request, cost);
    }
}

/// A limit with its history. Several limits may go on with it.
#[derive(Clone)]
struct OldLimit {
    rate: Rate,
    limiter: Rc<Box<dyn Limiter>>,
}

/// The limiters for `new` limits, which at `now` take the place of `old` ones and of those that are paused.
///
/// A limit that stands in both keeps its history. Any other goes on with the history of the nearest one with the same
/// algorithm, cost and key: all of these have seen the same releases. One that finds none begins as its `start=` says.
pub(super) fn change(
    old: &[Rate],
    limits: Limits,
    paused: Vec<Paused>,
    new: &[Rate],
    now: Time,
    wall: Wall,
) -> (Limits, Vec<Paused>, Vec<bool>) {
    let known = known(old, limits, paused);
    let sources: Vec<_> = new.iter().map(|rate| nearest(rate, &known).cloned()).collect();
    let counts_anew = |(rate, source): (&Rate, &Option<_>)| rate.from != CountFrom::Start && source.is_none();
    let is_new = new.iter().zip(&sources).map(counts_anew).collect();
    let paused = Paused::all(known, new);
    let limiters = new.iter().zip(sources).map(|(rate, source)| match source {
        Some(source) => go_on(source, rate, new, now, wall),
        None => limiter(rate, now, wall),
    });
    let limits = limiters.zip(key_parts(new)).zip(new);
    let limits = limits.map(|((limiter, key), rate)| Limit::new(limiter, key).asked(rate, wall));
    (limits.collect(), paused, is_new)
}

/// The histories that there are. A pause has none of its own.
fn known(old: &[Rate], limits: Limits, paused: Vec<Paused>) -> Vec<OldLimit> {
    let in_force = old.iter().cloned().zip(limits.all).filter(|(rate, _)| rate.count > 0);
    let known = in_force.chain(paused.into_iter().map(|paused| (paused.rate, paused.limit)));
    known.map(|(rate, limit)| OldLimit { rate, limiter: Rc::new(limit.limiter) }).collect()
}

/// The history with which a limit goes on, if there is one: its own, if it is known.
fn nearest<'a>(rate: &Rate, known: &'a [OldLimit]) -> Option<&'a OldLimit> {
    let candidates = known.iter().filter(|known| rate.count > 0 && has_same_history(&known.rate, rate));
    candidates.min_by_key(|known| (known.rate != *rate, distance(&known.rate, rate)))
}

/// The ratios of the terms, by which limits are near each other: first of the periods, then counts, then bursts.
fn distance(a: &Rate, b: &Rate) -> [u128; 3] {
    let (a, b) = (a.padded_terms(), b.padded_terms());
    [ratio(a.period, b.period), ratio(a.count, b.count), ratio(a.burst, b.burst)]
}

/// The larger of two numbers by the smaller, in 2^-64.
fn ratio(a: u64, b: u64) -> u128 {
    (u128::from(a.max(b)) << 64) / u128::from(a.min(b)).max(1)
}

/// The limiter of a limit that goes on with the history of another, which may stay in force beside it.
fn go_on(source: OldLimit, rate: &Rate, new: &[Rate], now: Time, wall: Wall) -> Box<dyn Limiter> {
    let mut limiter = owned(source.limiter);
    if source.rate != *rate {
        limiter.retune(now, Terms { wall, ..rate.padded_terms() });
        if rate.starts_empty && new.contains(&source.rate) {
            limiter.exhaust(now);
        }
    }
    limiter
}

/// The last to have it takes it, the others copies.
fn owned(limiter: Rc<Box<dyn Limiter>>) -> Box<dyn Limiter> {
    Rc::try_unwrap(limiter).unwrap_or_else(|limiter| limiter.copied())
}

/// True of a limit that is not among the `new` ones, under which nothing is released that it applies to.
fn is_paused(rate: &Rate, new: &[Rate]) -> bool {
    let pauses = |pause: &Rate| pause.pauses() && (charges_alike(pause, rate) || is_for_all(pause, rate));
    !new.contains(rate) && new.iter().any(pauses)
}

/// True if a pause is for all items. A limit that counts beyond the start has to be told of ends by one that charges
/// the same.
fn is_for_all(pause: &Rate, rate: &Rate) -> bool {
    pause.cost.is_none() && pause.only.is_none() && rate.from == CountFrom::Start
}

/// Both limits apply to the same items, for the same cost and key.
fn charges_alike(a: &Rate, b: &Rate) -> bool {
    (&a.cost, &a.key, &a.only) == (&b.cost, &b.key, &b.only)
}

/// Both limits may go on with one history.
fn has_same_history(a: &Rate, b: &Rate) -> bool {
    (a.algorithm, a.from) == (b.algorithm, b.from) && charges_alike(a, b)
}
