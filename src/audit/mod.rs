//! Judging releases that have happened: which were too early, by how much, and how close to the limits the rest came.
//!
//! It is pure, and fed with instants that must not decrease.

mod history;
mod rule;
mod trace;
mod window;

use std::collections::HashMap;

use foldhash::fast::RandomState;

pub use self::history::{Tally, Worst};
pub use self::rule::Stairs;
pub use self::trace::{Step, Trace};

use self::history::History;
use self::rule::Terms;
use crate::charge::Key;
use crate::config::{Algorithm, Rate, keys};
use crate::limiter::Verdict;
use crate::time::Time;

/// The histories of so many keys are kept to be drawn.
const MOST_TRACES: usize = 4096;

/// Some limits, and how well releases have kept to them.
pub struct Audit {
    limits: Vec<Limit>,
    releases: u64,
    too_early: u64,
    is_traced: bool,
}

/// A limit, with what was released under it.
pub struct Limit {
    rate: Rate,
    terms: Terms,
    /// Which of the keys it goes by.
    key: Option<usize>,
    common: History,
    keyed: HashMap<Key, History, RandomState>,
}

/// A release that a limit would not have allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation<'a> {
    /// Its number in the input.
    pub number: u64,
    /// When it was.
    pub at: Time,
    /// The limit.
    pub rate: &'a Rate,
    /// Its key, if each has a limit of its own.
    pub key: Option<&'a [u8]>,
    /// How much there is in the period that ends with it.
    pub count: u64,
    /// By how many nanoseconds it was too early; nothing if it is never allowed.
    pub early: Option<u64>,
}

impl Audit {
    /// Judges by these limits.
    pub fn new(rates: &[Rate]) -> Self {
        let selectors = keys(rates);
        let limit = |rate: &Rate| Limit {
            rate: rate.clone(),
            terms: Terms::new(rate),
            key: rate.key.as_ref().and_then(|key| selectors.iter().position(|known| *known == key)),
            common: History::default(),
            keyed: HashMap::default(),
        };
        Audit { limits: rates.iter().map(limit).collect(), releases: 0, too_early: 0, is_traced: false }
    }

    /// Keeps what is needed to draw it.
    pub fn traced(mut self) -> Self {
        self.is_traced = true;
        self
    }

    /// Judges a release. `costs` are what it costs each limit, 0 where that does not apply, and `keys` those by which the
    /// limits tell releases apart. Whatever a limit would not have allowed is given to `tell`.
    pub fn judge(
        &mut self,
        number: u64,
        at: Time,
        costs: &[u64],
        keys: &[Key],
        mut tell: impl FnMut(&Violation),
    ) {
        self.releases += 1;
        let (mut is_early, is_traced) = (false, self.is_traced);
        for (limit, &cost) in self.limits.iter_mut().zip(costs).filter(|(_, cost)| **cost > 0) {
            if let Some(violation) = limit.judge(number, at, cost, keys, is_traced) {
                is_early = true;
                tell(&violation);
            }
        }
        self.too_early += u64::from(is_early);
    }

    /// How many releases there were.
    pub fn releases(&self) -> u64 {
        self.releases
    }

    /// How many of them some limit would not have allowed.
    pub fn too_early(&self) -> u64 {
        self.too_early
    }

    /// The limits.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }
}

impl Limit {
    fn judge<'a>(
        &'a mut self,
        number: u64,
        at: Time,
        cost: u64,
        keys: &'a [Key],
        is_traced: bool,
    ) -> Option<Violation<'a>> {
        let is_traced = is_traced && self.keyed.len() <= MOST_TRACES;
        let key = self.key.map(|key| &keys[key]);
        let history = match key {
            None => &mut self.common,
            Some(key) if self.keyed.contains_key(key) => self.keyed.get_mut(key)?,
            Some(key) => self.keyed.entry(key.clone()).or_default(),
        };
        let (count, verdict) = history.judge(&self.terms, number, at, cost, is_traced);
        if verdict.allows(at) {
            return None;
        }
        let early = match verdict {
            Verdict::At(allowed) => Some(allowed.since(at)),
            Verdict::Never => None,
        };
        history.note_violation(early);
        let key = key.map(Key::as_slice);
        Some(Violation { number, at, rate: &self.rate, key, count, early })
    }

    /// What it is.
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// The period with its margin, in nanoseconds.
    pub fn period(&self) -> u64 {
        self.terms.period
    }

    /// The most that it allows within one period.
    pub fn most(&self) -> u64 {
        self.terms.most()
    }

    /// What it allows in the long run.
    pub fn stairs(&self) -> Stairs {
        self.terms.stairs()
    }

    /// The histories of the keys with the highest totals, at most `most` of them; or that of all releases.
    pub fn traces(&self, most: usize) -> Vec<(Option<&[u8]>, &Trace)> {
        let mut keyed: Vec<_> = self.keyed.iter().collect();
        keyed.sort_by_key(|(key, history)| (std::cmp::Reverse(history.tally.cost), *key));
        let keyed = keyed.into_iter().map(|(key, history)| (Some(key.as_slice()), history));
        let all = keyed.chain([(None, &self.common)]);
        all.filter_map(|(key, history)| Some((key, history.trace.as_ref()?))).take(most).collect()
    }

    /// How many keys it was asked about, if it goes by key.
    pub fn keys(&self) -> Option<usize> {
        self.key.map(|_| self.keyed.len())
    }

    /// What was released under it, all keys together; the worst window is that of one key.
    pub fn tally(&self) -> Tally {
        let tallies = self.keyed.values().map(|history| &history.tally);
        tallies.fold(self.common.tally, Tally::with)
    }

    /// The mean cost per second; nothing for less than a period, of which a burst would be the mean.
    pub fn mean_rate(&self, tally: &Tally) -> Option<f64> {
        (tally.span() >= self.period()).then(|| tally.mean_rate())
    }

    /// What was released, as a part of the most that the limit allows from the first release to the last, both included.
    ///
    /// What may go at once counts as well as what accrues, so that nothing that kept to the limit is more than all of it,
    /// however short the time.
    #[expect(clippy::cast_precision_loss)]
    pub fn mean_share(&self, tally: &Tally) -> f64 {
        let at_once = match self.terms.algorithm {
            Algorithm::Sliding | Algorithm::Fixed => self.terms.count,
            // What costs more goes later, and whole.
            Algorithm::Bucket => self.terms.burst.max(tally.dearest),
            Algorithm::Interval => tally.dearest,
        };
        let accrued = self.terms.count as f64 * tally.span() as f64 / self.period() as f64;
        tally.cost as f64 / (at_once as f64 + accrued)
    }

    /// The keys with the worst windows, the worst first: at most `most` of them.
    pub fn worst_keys(&self, most: usize) -> Vec<(&[u8], Tally)> {
        let mut worst: Vec<(&[u8], Tally)> =
            self.keyed.iter().map(|(key, history)| (key.as_slice(), history.tally)).collect();
        let place = |&(key, tally): &(&[u8], Tally)| {
            (std::cmp::Reverse((tally.worst.count, tally.violations)), key.to_vec())
        };
        if worst.len() > most {
            worst.select_nth_unstable_by_key(most, place);
            worst.truncate(most);
        }
        worst.sort_by_cached_key(place);
        worst
    }
}

#[cfg(test)]
mod tests;
