//! Changes limits while they are in force, keeping their histories.

use std::rc::Rc;

use super::{Limit, Request};
use crate::config::Rate;
use crate::time::{Time, Wall};

/// A limit that was replaced by a pause. It keeps its history, as nothing it applies to is released until it is back.
#[derive(Clone)]
pub(super) struct Paused {
    rate: Rate,
    limit: Limit,
    /// The index of a limit in force that charges the same.
    alike: Option<usize>,
}

impl Paused {
    fn all(known: Vec<OldLimit>, new: &[(&Rate, Option<usize>)]) -> Vec<Self> {
        let paused = known.into_iter().filter(|known| is_paused(&known.rate, new)).map(|known| {
            let alike = new.iter().position(|(rate, _)| charges_alike(rate, &known.rate));
            let key = alike.and_then(|at| new[at].1);
            Paused { limit: Rc::unwrap_or_clone(known.limit).with_key(key), rate: known.rate, alike }
        });
        paused.collect()
    }

    /// Follows the wall clock, which was set at `now`.
    pub(super) fn set_wall(&mut self, now: Time, wall: Wall) {
        self.limit.set_wall(now, &self.rate, wall);
    }

    /// Notes that a release that was charged before the pause ended at `now`, with its `costs` under the limits in
    /// force.
    pub(super) fn finish(&mut self, now: Time, request: &Request, costs: &[u64]) {
        let cost = self.alike.and_then(|at| costs.get(at)).copied().unwrap_or(0);
        self.limit.finish(now, request, cost);
    }
}

/// A limit with its history, which several new limits may continue.
#[derive(Clone)]
struct OldLimit {
    rate: Rate,
    limit: Rc<Limit>,
}

/// The `new` limits, each with the index of its key, which at `now` replace the `old` ones and those that are paused.
///
/// A limit that is in both keeps its history. Any other continues the history of the nearest one with the same
/// algorithm, cost and key, as all of these have seen the same releases. If there is none, it begins as its `start=`
/// says.
pub(super) fn change(
    old: &[Rate],
    in_force: Vec<Limit>,
    paused: Vec<Paused>,
    new: &[(&Rate, Option<usize>)],
    now: Time,
    wall: Wall,
) -> (Vec<Limit>, Vec<Paused>, Vec<bool>) {
    let known = known(old, in_force, paused);
    let sources: Vec<_> = new.iter().map(|(rate, _)| nearest(rate, &known).cloned()).collect();
    let counts_anew =
        |((rate, _), source): (&(&Rate, _), &Option<_>)| rate.counts_exits() && source.is_none();
    let is_new = new.iter().zip(&sources).map(counts_anew).collect();
    let paused = Paused::all(known, new);
    let limits = new.iter().zip(sources).map(|(&(rate, key), source)| match source {
        Some(source) => go_on(source, rate, new, now, wall).with_key(key),
        None => Limit::new(rate, key, now, wall),
    });
    (limits.collect(), paused, is_new)
}

/// The known histories. A pause has none of its own; a count of 0 at some hours has, as it counts always.
fn known(old: &[Rate], in_force: Vec<Limit>, paused: Vec<Paused>) -> Vec<OldLimit> {
    let in_force = old.iter().cloned().zip(in_force).filter(|(rate, _)| !rate.pauses());
    let known = in_force.chain(paused.into_iter().map(|paused| (paused.rate, paused.limit)));
    known.map(|(rate, limit)| OldLimit { rate, limit: Rc::new(limit) }).collect()
}

/// The history that a limit continues, if there is one.
fn nearest<'a>(rate: &Rate, known: &'a [OldLimit]) -> Option<&'a OldLimit> {
    predecessor(rate, known.iter().map(|known| &known.rate)).map(|at| &known[at])
}

/// The index of the limit whose history a limit continues, if there is one: its own if it is `known`.
pub fn predecessor<'a>(rate: &Rate, known: impl Iterator<Item = &'a Rate>) -> Option<usize> {
    let candidates = known.enumerate().filter(|(_, known)| !rate.pauses() && has_same_history(known, rate));
    // One with a count of 0 tells the least of when each release was.
    let nearest =
        candidates.min_by_key(|(_, known)| (*known != rate, known.count == 0, distance(known, rate)));
    nearest.map(|(at, _)| at)
}

/// The distance between two limits: the ratio of their periods, then of their counts, then of their bursts.
fn distance(a: &Rate, b: &Rate) -> [u128; 3] {
    let (a, b) = (a.padded_terms(), b.padded_terms());
    [ratio(a.period, b.period), ratio(a.count, b.count), ratio(a.burst, b.burst)]
}

/// The larger number divided by the smaller, in units of 2^-64.
fn ratio(a: u64, b: u64) -> u128 {
    (u128::from(a.max(b)) << 64) / u128::from(a.min(b)).max(1)
}

/// The limit that continues the history of another, which may itself stay in force.
fn go_on(source: OldLimit, rate: &Rate, new: &[(&Rate, Option<usize>)], now: Time, wall: Wall) -> Limit {
    let mut limit = Rc::unwrap_or_clone(source.limit);
    if source.rate != *rate {
        limit.set_rate(now, rate, wall);
        if rate.starts_empty && new.iter().any(|(other, _)| **other == source.rate) {
            limit.exhaust(now);
        }
    }
    limit
}

/// True of a limit that is not among the `new` ones, if these pause everything that it applies to.
fn is_paused(rate: &Rate, new: &[(&Rate, Option<usize>)]) -> bool {
    let pauses = |pause: &Rate| pause.pauses() && (charges_alike(pause, rate) || is_for_all(pause, rate));
    new.iter().all(|(other, _)| *other != rate) && new.iter().any(|(other, _)| pauses(other))
}

/// True if a pause covers all items. Not for a limit that counts beyond the start: it learns of ends from a limit in
/// force that charges the same.
fn is_for_all(pause: &Rate, rate: &Rate) -> bool {
    pause.cost.is_none() && pause.only.is_none() && !rate.counts_exits()
}

/// True if both limits apply to the same items, with the same cost and key.
fn charges_alike(a: &Rate, b: &Rate) -> bool {
    (&a.cost, &a.key, &a.only) == (&b.cost, &b.key, &b.only)
}

/// True if one limit can continue the history of the other.
fn has_same_history(a: &Rate, b: &Rate) -> bool {
    (a.algorithm, a.from) == (b.algorithm, b.from) && charges_alike(a, b)
}
