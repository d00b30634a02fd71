//! A limiter of its own for each key.

use indexmap::IndexMap;

use super::{Ask, Limiter, Terms, Verdict};
use crate::charge::Key;
use crate::time::{SECOND, Time};

/// Gives each key a copy of a limiter, and forgets it once it cannot be told from a new one.
pub struct Keyed<L> {
    /// What a key that is not known behaves like.
    fresh: L,
    limiters: IndexMap<Key, L>,
    /// At least so many nanoseconds lie between two searches for what can be forgotten.
    pause: u64,
    tidy_at: Option<Time>,
}

impl<L: Limiter + Clone> Keyed<L> {
    /// A copy of `fresh` for each key; what has settled is looked for about every `period` nanoseconds.
    pub fn new(fresh: L, period: u64) -> Self {
        Keyed { fresh, limiters: IndexMap::new(), pause: period.max(SECOND), tidy_at: None }
    }

    fn of(&self, key: &[u8]) -> &L {
        self.limiters.get(key).unwrap_or(&self.fresh)
    }
}

impl<L: Limiter + Clone> Limiter for Keyed<L> {
    fn earliest(&self, ask: &Ask) -> Verdict {
        self.of(ask.key).earliest(ask)
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        self.of(ask.key).room(now, ask)
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        if let Some(limiter) = self.limiters.get_mut(ask.key) {
            limiter.commit(now, ask);
        } else {
            let mut limiter = self.fresh.clone();
            limiter.commit(now, ask);
            self.limiters.insert(Key::from_slice(ask.key), limiter);
        }
        if self.tidy_at.is_none() {
            self.tidy_at = now.checked_add(self.pause.into());
        }
    }

    fn finish(&mut self, now: Time, ask: &Ask) {
        if let Some(limiter) = self.limiters.get_mut(ask.key) {
            limiter.finish(now, ask);
        }
    }

    fn settled(&self) -> Verdict {
        self.limiters.values().map(L::settled).fold(self.fresh.settled(), Verdict::max)
    }

    fn drain(&mut self, at: Time) {
        self.fresh.drain(at);
        self.limiters.values_mut().for_each(|limiter| limiter.drain(at));
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        self.fresh.retune(now, terms);
        self.limiters.values_mut().for_each(|limiter| limiter.retune(now, terms));
        self.pause = terms.period.max(SECOND);
    }

    fn tidy_at(&self) -> Option<Time> {
        self.tidy_at
    }

    fn tidy(&mut self, now: Time, horizon: Time) {
        if self.tidy_at.is_some_and(|at| at > now) {
            return;
        }
        self.limiters.retain(|_, limiter| !limiter.settled().allows(horizon));
        if self.limiters.len() < self.limiters.capacity() / 4 {
            self.limiters.shrink_to_fit();
        }
        self.tidy_at = if self.limiters.is_empty() { None } else { now.checked_add(self.pause.into()) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::terms;
    use super::super::{FromExit, Sliding};
    use super::*;

    fn ask(since: u64, key: &[u8]) -> Ask<'_> {
        Ask { since: Time(since), cost: 1, key }
    }

    #[test]
    fn each_key_has_a_limit_of_its_own() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, 10)), 10);
        limiter.commit(Time(0), &ask(0, b"a"));
        assert_eq!(limiter.earliest(&ask(1, b"a")), Verdict::At(Time(10)));
        assert_eq!(limiter.earliest(&ask(1, b"b")), Verdict::At(Time(1)));
    }

    #[test]
    fn what_has_settled_is_forgotten_and_the_rest_is_not() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, SECOND)), SECOND);
        for key in 0..10_000u32 {
            limiter.commit(Time(u64::from(key)), &ask(0, &key.to_le_bytes()));
        }
        assert_eq!(limiter.tidy_at(), Some(Time(SECOND)));
        limiter.tidy(Time(SECOND + 9_000), Time(SECOND + 9_000));
        assert_eq!(limiter.limiters.len(), 999);
        assert!(limiter.limiters.capacity() < 5_000);
        assert_eq!(limiter.earliest(&ask(0, &9_001u32.to_le_bytes())), Verdict::At(Time(SECOND + 9_001)));
        limiter.tidy(Time(3 * SECOND), Time(3 * SECOND));
        assert_eq!((limiter.limiters.capacity(), limiter.tidy_at()), (0, None));
    }

    #[test]
    fn a_new_key_of_a_drained_limit_is_drained() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, 10)), 10);
        limiter.drain(Time(5));
        assert_eq!(limiter.earliest(&ask(7, b"a")), Verdict::At(Time(15)));
    }

    #[test]
    fn room_is_that_of_the_key() {
        let mut limiter = Keyed::new(Sliding::new(terms(3, 10)), 10);
        limiter.commit(Time(0), &ask(0, b"a"));
        assert_eq!([&b"a"[..], b"b"].map(|key| limiter.room(Time(1), &ask(1, key))), [2, 3]);
    }

    #[test]
    fn an_end_counts_for_its_key() {
        let mut limiter = Keyed::new(FromExit::overlapping(Sliding::new(terms(1, 10))), 10);
        limiter.commit(Time(0), &ask(0, b"a"));
        assert_eq!(limiter.earliest(&ask(1, b"a")), Verdict::Never);
        limiter.finish(Time(5), &ask(0, b"a"));
        assert_eq!(limiter.earliest(&ask(6, b"a")), Verdict::At(Time(15)));
    }

    #[test]
    fn other_terms_are_those_of_known_and_new_keys() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, 10)), 10);
        limiter.commit(Time(0), &ask(0, b"a"));
        limiter.retune(Time(1), terms(1, 20));
        limiter.commit(Time(1), &ask(1, b"b"));
        let answers = [&b"a"[..], b"b"].map(|key| limiter.earliest(&ask(2, key)));
        assert_eq!(answers, [20, 21].map(|at| Verdict::At(Time(at))));
    }

    #[test]
    fn it_is_tidied_when_it_is_time_and_no_sooner() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, 10)), 10);
        limiter.commit(Time(0), &ask(0, b"a"));
        limiter.tidy(Time(SECOND - 1), Time(SECOND - 1));
        assert_eq!((limiter.limiters.len(), limiter.tidy_at()), (1, Some(Time(SECOND))));
        limiter.tidy(Time(SECOND), Time(SECOND));
        assert_eq!((limiter.limiters.len(), limiter.tidy_at()), (0, None));
    }

    #[test]
    fn memory_is_kept_as_long_as_much_of_it_is_used() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, SECOND)), SECOND);
        (0..100u8).for_each(|key| limiter.commit(Time(key.into()), &ask(0, &[key])));
        let capacity = limiter.limiters.capacity();
        limiter.tidy(Time(SECOND + 20), Time(SECOND + 20));
        assert_eq!((limiter.limiters.len(), limiter.limiters.capacity()), (79, capacity));
    }
}
