//! Changes limits while they are in force, keeping their histories.

use std::rc::Rc;

use super::{Limit, Request};
use crate::config::Rate;
use crate::time::{Time, Wall};

/// A limit that was replaced by a pause. It keeps its history, as nothing it applies to is released until it is back.
#[derive(Clone)]
pub(super) struct Paused {
    limit: Limit,
    /// The index of a limit in force that charges the same.
    alike: Option<usize>,
}

impl Paused {
    fn all(known: Vec<Rc<Limit>>, new: &[(&Rate, Option<usize>)]) -> Vec<Self> {
        let paused = known.into_iter().filter(|known| is_paused(known.rate(), new)).map(|known| {
            let alike = new.iter().position(|(rate, _)| charges_alike(rate, known.rate()));
            let key = alike.and_then(|at| new[at].1);
            Paused { limit: Rc::unwrap_or_clone(known).with_key(key), alike }
        });
        paused.collect()
    }

    /// Follows the wall clock, which was set at `now`.
    pub(super) fn set_wall(&mut self, now: Time, wall: Wall) {
        self.limit.set_wall(now, wall);
    }

    /// Notes that a release that was charged before the pause ended at `now`, with its `costs` under the limits in
    /// force.
    pub(super) fn finish(&mut self, now: Time, request: &Request, costs: &[u64]) {
        let cost = self.alike.and_then(|at| costs.get(at)).copied().unwrap_or(0);
        self.limit.finish(now, request, cost);
    }
}

/// The `new` limits, each with the index of its key, which at `now` replace those that are in force and those that are
/// paused. Also which of them count beyond the start of a release and did not continue a history.
///
/// A limit that is in both keeps its history. Any other continues the history of the nearest one with the same
/// algorithm, cost and key, as all of these have seen the same releases. If there is none, it begins as its `start=`
/// says.
pub(super) fn change(
    in_force: Vec<Limit>,
    paused: Vec<Paused>,
    new: &[(&Rate, Option<usize>)],
    now: Time,
    wall: Wall,
) -> (Vec<Limit>, Vec<Paused>, Vec<bool>) {
    // A pause has no history of its own; a count of 0 at some hours has, as it counts always.
    let in_force = in_force.into_iter().filter(|limit| !limit.rate().pauses());
    let known = in_force.chain(paused.into_iter().map(|paused| paused.limit)).map(Rc::new);
    let known: Vec<_> = known.collect();
    let source =
        |rate| predecessor(rate, known.iter().map(|known| known.rate())).map(|at| Rc::clone(&known[at]));
    let sources: Vec<_> = new.iter().map(|(rate, _)| source(rate)).collect();
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
fn go_on(source: Rc<Limit>, rate: &Rate, new: &[(&Rate, Option<usize>)], now: Time, wall: Wall) -> Limit {
    let mut limit = Rc::unwrap_or_clone(source);
    if limit.rate() != rate {
        let is_kept = new.iter().any(|(other, _)| *other == limit.rate());
        limit.set_rate(now, rate, wall);
        if rate.starts_empty && is_kept {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{release, request};
    use super::super::{Gate, Scope};
    use super::*;
    use crate::config::{Defaults, RateText};
    use crate::time::SECOND;

    fn rates(texts: &[&str]) -> Vec<Rate> {
        let rate =
            |text: &&str| RateText::parse_pausing(text).unwrap().resolve(&Defaults::default()).unwrap();
        texts.iter().map(rate).collect()
    }

    #[test]
    fn a_history_is_continued_from_itself_or_the_nearest_of_its_kind() {
        for (rate, known, expected) in [
            ("5/30s", &["5/1s", "5/100s"][..], Some(1)),
            ("5/3s", &["5/1s", "5/100s"], Some(0)),
            ("40/s", &["5/s", "50/s", "41/2s"], Some(1)),
            ("9/s,algo=bucket,burst=5", &["9/s,algo=bucket,burst=9", "9/s,algo=bucket,burst=4"], Some(1)),
            ("9/s", &["9/s,start=empty", "9/s"], Some(1)),
            ("9/s", &["0/s,during=Mon,tz=UTC", "1/h"], Some(1)),
            ("9/s", &["0/s,during=Mon,tz=UTC"], Some(0)),
            ("9/s", &["9/s,algo=fixed", "9/s,cost=col:1", "9/s,key=col:1", "9/s,from=exit"], None),
            ("0/s", &["9/s"], None),
        ] {
            assert_eq!(predecessor(&rates(&[rate])[0], rates(known).iter()), expected, "{rate} of {known:?}");
        }
    }

    /// In seconds: when one release at 5 and changes of the limits at 10 and 20 allow the next.
    #[test]
    fn a_change_forgets_no_release_and_invents_none() {
        for (limits, next) in [
            ([&["1/100s"][..], &["1/200s"], &["1/100s"]], 105),
            ([&["1/200s"], &["1/100s"], &["1/100s"]], 105),
            // What begins empty was not used before, unless what it continues is in force, too.
            ([&["1/100s,start=empty"], &["1/100s,start=empty"], &["1/100s,start=empty"]], 100),
            ([&["1/100s"], &["1/100s"], &["1/50s,start=empty"]], 55),
            ([&["1/100s"], &["1/100s"], &["1/100s", "1/150s,start=empty"]], 170),
            // A pause keeps what it pauses; so does one of several limits.
            ([&["1/100s"], &["0/s"], &["1/100s"]], 105),
            ([&["1/100s"], &["0/s", "9/s,algo=interval"], &["1/100s"]], 105),
            ([&["1/100s"], &["1/100s", "0/s"], &["1/100s"]], 105),
            // Unless it is only for some, or only for what costs something.
            ([&["1/100s"], &["0/s,key=col:1,only=a"], &["1/100s"]], 20),
            ([&["1/100s"], &["0/s,cost=col:1"], &["1/100s"]], 20),
            ([&["1/100s"], &["9/s,algo=interval"], &["1/100s"]], 20),
        ] {
            let mut gate = Gate::new(rates(limits[0]), Time(0), Wall::EPOCH);
            let costs = [1; 2];
            let request = |at: u64, limits: &[&str]| request(at * SECOND, &costs[..limits.len()], &[]);
            if !limits[0][0].contains("empty") {
                release(&mut gate, 5 * SECOND, &request(5, limits[0]));
            }
            gate.set_limits(Time(10 * SECOND), rates(limits[1]));
            gate.set_limits(Time(20 * SECOND), rates(limits[2]));
            let found = gate.opening(Scope::All, &request(20, limits[2]), Time(0)).from;
            assert_eq!(found, Time(next * SECOND), "{limits:?}");
        }
        // What was paused is what was in force last.
        let mut gate = Gate::new(rates(&["1/100s"]), Time(0), Wall::EPOCH);
        gate.set_limits(Time(1), rates(&["1/200s"]));
        release(&mut gate, 5, &request(5, &[1], &[]));
        gate.set_limits(Time(6), rates(&["1/100s"]));
        assert_eq!(gate.opening(Scope::All, &request(6, &[1], &[]), Time(0)).from, Time(100 * SECOND + 5));
    }
}
