//! A limit that each key has for itself.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::{Algorithm, Ask, Limiter, Terms, Verdict};
use crate::charge::Key;
use crate::time::{SECOND, Time};

/// A rule with a history for each key, which is evicted once it equals that of a new key.
pub struct Keyed<A: Algorithm> {
    rule: A,
    /// The history of a key that is not known.
    fresh: A::State,
    accounts: IndexMap<Key, A::State, RandomState>,
    /// At least so many nanoseconds lie between two searches for what can be evicted.
    pause: u64,
    evict_at: Option<Time>,
}

impl<A: Algorithm> Keyed<A> {
    /// With no history. Idle accounts are looked for about every `period` nanoseconds, at most once a second.
    pub fn new(rule: A, period: u64) -> Self {
        Keyed {
            rule,
            fresh: A::State::default(),
            accounts: IndexMap::default(),
            pause: period.max(SECOND),
            evict_at: None,
        }
    }

    fn of(&self, key: &[u8]) -> &A::State {
        self.accounts.get(key).unwrap_or(&self.fresh)
    }
}

impl<A: Algorithm> Limiter for Keyed<A> {
    fn earliest(&self, key: &[u8], ask: Ask) -> Verdict {
        self.rule.earliest(self.of(key), ask)
    }

    fn account(&mut self, key: &[u8], now: Time) -> usize {
        if let Some((account, _, state)) = self.accounts.get_full_mut(key) {
            self.rule.expire(state, now);
            return account;
        }
        if self.evict_at.is_none() {
            self.evict_at = now.checked_add(self.pause.into());
        }
        self.accounts.insert_full(Key::from_slice(key), self.fresh.clone()).0
    }

    fn available(&self, account: usize, now: Time, ask: Ask, pending: u64) -> u64 {
        self.rule.available(&self.accounts[account], now, ask, pending)
    }

    fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Verdict {
        self.rule.last_of(self.of(key), ask, count)
    }

    fn copied(&self) -> Option<Box<dyn Limiter>> {
        None
    }

    fn commit(&mut self, account: usize, now: Time, ask: Ask) {
        self.rule.commit(&mut self.accounts[account], now, ask);
    }

    fn finish(&mut self, account: usize, now: Time, ask: Ask) {
        self.rule.finish(&mut self.accounts[account], now, ask);
    }

    fn exhaust(&mut self, at: Time) {
        self.rule.exhaust(&mut self.fresh, at);
        self.accounts.values_mut().for_each(|state| self.rule.exhaust(state, at));
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        let new = self.rule.with_terms(terms);
        self.rule.carry_over(&mut self.fresh, &new, now);
        self.accounts.values_mut().for_each(|state| self.rule.carry_over(state, &new, now));
        self.rule = new;
        self.pause = terms.period.max(SECOND);
    }

    fn depends_on_since(&self, cost: u64) -> bool {
        self.rule.depends_on_since(cost)
    }

    fn evict_at(&self) -> Option<Time> {
        self.evict_at
    }

    fn evict(&mut self, now: Time, horizon: Time) {
        if self.evict_at.is_some_and(|at| at > now) {
            return;
        }
        self.accounts.retain(|_, state| !self.rule.idle_at(state).allows(horizon));
        if self.accounts.len() < self.accounts.capacity() / 4 {
            self.accounts.shrink_to_fit();
        }
        self.evict_at = if self.accounts.is_empty() { None } else { now.checked_add(self.pause.into()) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sliding;
    use super::super::table::{one, terms};
    use super::*;

    fn commit(limiter: &mut dyn Limiter, key: &[u8], at: u64) {
        let account = limiter.account(key, Time(at));
        limiter.commit(account, Time(at), one(at));
    }

    #[test]
    fn each_key_has_a_limit_of_its_own() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, 10)), 10);
        commit(&mut limiter, b"a", 0);
        assert_eq!(limiter.earliest(b"a", one(1)), Verdict::At(Time(10)));
        assert_eq!(limiter.earliest(b"b", one(1)), Verdict::At(Time(1)));
    }

    #[test]
    fn idle_accounts_are_evicted_and_no_others() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, SECOND)), SECOND);
        for key in 0..10_000u32 {
            commit(&mut limiter, &key.to_le_bytes(), u64::from(key));
        }
        assert_eq!(limiter.evict_at(), Some(Time(SECOND)));
        limiter.evict(Time(SECOND + 9_000), Time(SECOND + 9_000));
        assert_eq!(limiter.accounts.len(), 999);
        assert!(limiter.accounts.capacity() < 5_000);
        assert_eq!(limiter.earliest(&9_001u32.to_le_bytes(), one(0)), Verdict::At(Time(SECOND + 9_001)));
        limiter.evict(Time(3 * SECOND), Time(3 * SECOND));
        assert_eq!((limiter.accounts.capacity(), limiter.evict_at()), (0, None));
    }

    #[test]
    fn a_new_key_of_an_exhausted_limit_is_exhausted() {
        let mut limiter = Keyed::new(Sliding::new(terms(1, 10)), 10);
        limiter.exhaust(Time(5));
        assert_eq!(limiter.earliest(b"a", one(7)), Verdict::At(Time(15)));
    }
}
