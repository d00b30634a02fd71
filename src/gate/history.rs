//! A rule with the history of past releases: one for all items, or one for each key.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::accounts::Accounts;
use super::memory::Memory;
use super::{Availability, Limiter, Opening};
use crate::charge::Key;
use crate::rule::{Ask, Rule, Terms};
use crate::time::{SECOND, Time};

/// A rule with one history for all items, or one for each key. A key's history is evicted once it equals a fresh one.
#[derive(Clone)]
pub struct History<R: Rule> {
    rule: R,
    accounts: Accounts<R::State>,
    /// The sum of the costs of running releases, by key, if a release takes up quota from its start but counts as made
    /// when it ends.
    ///
    /// So with a sliding window, at most `count` are running or ended less than `period` ago. With a minimum gap, each
    /// starts at least the gap after the end of the one before, and they never overlap.
    running: Option<HashMap<Key, u64, RandomState>>,
    memory: Memory,
    /// A history at least as strict as any that was evicted.
    evicted: R::State,
    /// The shortest time between two searches for histories to evict, in nanoseconds.
    pause: u64,
    evict_at: Option<Time>,
    /// No history is idle before this instant, by the last search and what was charged since; `None` if not known.
    idle_from: Option<Time>,
}

impl<R: Rule> History<R> {
    /// One empty history for all items. Its only account is 0.
    pub fn common(rule: R) -> Self {
        History {
            rule,
            accounts: Accounts::new(false),
            running: None,
            memory: Memory::default(),
            evicted: R::State::default(),
            pause: SECOND,
            evict_at: None,
            idle_from: None,
        }
    }

    /// One history per key, with no keys yet. Idle ones are searched for about every `period` nanoseconds, at most once
    /// a second.
    pub fn keyed(rule: R, period: u64) -> Self {
        History { accounts: Accounts::new(true), pause: period.max(SECOND), ..History::common(rule) }
    }

    /// Counts releases from their ends, with nothing running yet.
    pub fn from_exit(self) -> Self {
        History { running: Some(HashMap::default()), ..self }
    }

    fn running(&self, key: &[u8]) -> u64 {
        self.running.as_ref().and_then(|running| running.get(key)).copied().unwrap_or(0)
    }

    /// Evicts the histories that were idle by `horizon`. Returns the instant at which the first of the rest will be
    /// idle, if any are left; the origin if that is not known.
    fn evict_idle(&mut self, horizon: Time) -> Option<Time> {
        let History { rule, accounts, running, evicted, .. } = self;
        let mut next: Option<Time> = None;
        accounts.retain(|key, state| {
            let runs = running.as_ref().is_some_and(|running| running.contains_key(key));
            let idle_at = if runs { Time::NEVER } else { rule.idle_at(state) };
            let is_idle = idle_at <= horizon;
            if is_idle {
                rule.note_evicted(evicted, state);
            } else {
                next = next.into_iter().chain([idle_at.known().unwrap_or_default()]).min();
            }
            !is_idle
        });
        next
    }
}

impl<R: Rule> Limiter for History<R> {
    /// *Never* means not before something ends: a rule that accrues begins to when the running release ends.
    fn opening(&self, key: &[u8], ask: Ask, from: Time) -> Opening {
        let running = self.running(key);
        match ask.cost.checked_add(running).filter(|_| running == 0 || !R::FACTS.accrues) {
            Some(cost) => Opening::of(&self.rule, self.accounts.of(key), Ask { cost, ..ask }, from),
            None => Opening::NEVER,
        }
    }

    fn account(&mut self, key: &[u8], now: Time) -> usize {
        if self.accounts.are_keyed() {
            let soon = now.checked_add(self.pause.into());
            self.evict_at = self.evict_at.into_iter().chain(soon).min();
            self.idle_from = self.idle_from.map(|idle| idle.min(now));
        }
        self.accounts.account(key)
    }

    fn available(&mut self, account: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64 {
        let pending = match self.running {
            None => pending,
            Some(_) => pending.saturating_add(self.running(self.accounts.key(account))),
        };
        let state = self.accounts.get_mut(account);
        if most == 1 && self.rule.is_plenty(state, ask.cost, pending) {
            return 1;
        }
        self.rule.expire(state, now);
        self.rule.available(state, now, ask, pending).min(most)
    }

    fn standing(&self, now: Time) -> Availability {
        if self.accounts.are_keyed() {
            return Availability::Keyed { keys: self.accounts.len() };
        }
        let ask = Ask { since: now, cost: 1 };
        Availability::Common {
            available: self.rule.available(&self.accounts.fresh, now, ask, self.running(&[])),
        }
    }

    /// As if commands took no time.
    fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Time {
        self.rule.last_of(self.accounts.of(key), ask, count)
    }

    fn copied(&self) -> Box<dyn Limiter> {
        Box::new(self.clone())
    }

    fn commit(&mut self, account: usize, now: Time, ask: Ask) {
        self.memory.note(now);
        match &mut self.running {
            Some(running) => {
                let sum = running.entry(self.accounts.key(account).into()).or_default();
                *sum = sum.saturating_add(ask.cost);
            }
            None => self.rule.commit(self.accounts.get_mut(account), now, ask),
        }
    }

    fn waive_debt(&mut self, account: usize) {
        self.rule.waive_debt(self.accounts.get_mut(account));
    }

    fn finish(&mut self, account: usize, now: Time, ask: Ask) {
        let Some(running) = &mut self.running else { return };
        let key = self.accounts.key(account);
        match running.get(key).map_or(0, |sum| sum.saturating_sub(ask.cost)) {
            0 => _ = running.remove(key),
            left => _ = running.insert(key.into(), left),
        }
        self.memory.note(now);
        self.rule.commit(self.accounts.get_mut(account), now, ask);
    }

    fn exhaust(&mut self, at: Time) {
        self.accounts.iter_mut().for_each(|state| self.rule.exhaust(state, at));
        self.memory.note(at);
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        let new = R::new(terms);
        let forgotten = self.memory.change_terms(now, self.rule.memory());
        self.evict_idle(now);
        let History { rule, accounts, evicted, .. } = self;
        accounts.iter_mut().for_each(|state| {
            rule.note_forgotten(state, evicted);
            rule.carry_over(state, &new, now, forgotten);
        });
        // An unknown key may be one that was evicted.
        if new.idle_at(evicted) > new.idle_at(&accounts.fresh) {
            accounts.fresh = evicted.clone();
        }
        self.rule = new;
        self.idle_from = None;
        self.pause = terms.period.max(SECOND);
    }

    fn evict_at(&self) -> Option<Time> {
        self.evict_at
    }

    fn evict(&mut self, now: Time, horizon: Time) {
        if self.evict_at.is_some_and(|at| at > now) {
            return;
        }
        if self.idle_from.is_none_or(|idle| idle <= horizon) {
            self.idle_from = self.evict_idle(horizon);
        }
        self.evict_at = self.idle_from.and_then(|next| Some(now.checked_add(self.pause.into())?.max(next)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::tests::{one, terms};
    use crate::rule::{Calendar, Fixed, Interval, Sliding};
    use crate::time::Wall;

    fn commit(limiter: &mut dyn Limiter, key: &[u8], at: u64) {
        let account = limiter.account(key, Time(at));
        limiter.commit(account, Time(at), one(at));
    }

    fn earliest(limiter: &dyn Limiter, key: &[u8], ask: Ask) -> Time {
        limiter.opening(key, ask, ask.since).from
    }

    #[test]
    fn each_key_has_a_limit_of_its_own() {
        let mut limiter = History::keyed(Sliding::new(terms(1, 10)), 10);
        commit(&mut limiter, b"a", 0);
        assert_eq!(earliest(&limiter, b"a", one(1)), Time(10));
        assert_eq!(earliest(&limiter, b"b", one(1)), Time(1));
    }

    #[test]
    fn idle_accounts_are_evicted_and_no_others() {
        let mut limiter = History::keyed(Sliding::new(terms(1, SECOND)), SECOND);
        for key in 0..10_000u32 {
            commit(&mut limiter, &key.to_le_bytes(), u64::from(key));
        }
        assert_eq!(limiter.evict_at(), Some(Time(SECOND)));
        limiter.evict(Time(SECOND + 9_000), Time(SECOND + 9_000));
        assert_eq!(limiter.accounts.len(), 999);
        assert_eq!(earliest(&limiter, &9_001u32.to_le_bytes(), one(0)), Time(SECOND + 9_001));
        limiter.evict(Time(3 * SECOND), Time(3 * SECOND));
        assert_eq!((limiter.accounts.len(), limiter.evict_at()), (0, None));
    }

    #[test]
    fn a_new_key_of_an_exhausted_limit_is_exhausted() {
        let mut limiter = History::keyed(Sliding::new(terms(1, 10)), 10);
        limiter.exhaust(Time(5));
        assert_eq!(earliest(&limiter, b"a", one(7)), Time(15));
    }

    #[test]
    fn what_is_available_is_that_of_the_key() {
        let mut limiter = History::keyed(Sliding::new(terms(3, 10)), 10);
        commit(&mut limiter, b"a", 0);
        let available = [&b"a"[..], b"b"].map(|key| {
            let account = limiter.account(key, Time(1));
            limiter.available(account, Time(1), one(1), 0, 9)
        });
        assert_eq!(available, [2, 3]);
    }

    #[test]
    fn an_end_counts_for_its_key() {
        let mut limiter = History::keyed(Sliding::new(terms(1, 10)), 10).from_exit();
        commit(&mut limiter, b"a", 0);
        assert_eq!(earliest(&limiter, b"a", one(1)), Time::NEVER);
        limiter.finish(0, Time(5), one(0));
        assert_eq!(earliest(&limiter, b"a", one(6)), Time(15));
    }

    #[test]
    fn what_runs_keeps_its_place_and_then_for_a_period() {
        let mut limiter = History::keyed(Sliding::new(terms(2, 10)), 10).from_exit();
        commit(&mut limiter, b"a", 0);
        commit(&mut limiter, b"a", 1);
        assert_eq!(earliest(&limiter, b"a", one(50)), Time::NEVER);
        limiter.evict(Time(SECOND), Time(SECOND));
        assert_eq!(limiter.accounts.len(), 1);
        limiter.finish(0, Time(60), one(0));
        assert_eq!(earliest(&limiter, b"a", one(61)), Time(70));
        limiter.finish(0, Time(65), one(1));
        assert_eq!(earliest(&limiter, b"a", one(66)), Time(70));
        limiter.evict(Time(2 * SECOND), Time(74));
        assert_eq!(limiter.accounts.len(), 1);
        limiter.evict(Time(3 * SECOND), Time(75));
        assert_eq!((limiter.accounts.len(), limiter.running(b"a")), (0, 0));
    }

    #[test]
    fn a_gap_from_end_to_start_leaves_no_overlap() {
        let mut limiter = History::common(Interval::new(terms(1, 10))).from_exit();
        commit(&mut limiter, &[], 0);
        assert_eq!(earliest(&limiter, &[], one(50)), Time::NEVER);
        limiter.finish(0, Time(60), one(0));
        assert_eq!(earliest(&limiter, &[], one(60)), Time(70));
    }

    #[test]
    fn what_runs_is_not_available() {
        let mut limiter = History::common(Sliding::new(terms(2, 10))).from_exit();
        let available = [(); 3].map(|()| {
            let available = limiter.available(0, Time(0), one(0), 0, 9);
            commit(&mut limiter, &[], 0);
            available
        });
        assert_eq!(available, [2, 1, 0]);
    }

    #[test]
    fn a_limit_that_counts_ends_is_exhausted_and_has_its_terms_changed() {
        let mut limiter = History::common(Sliding::new(terms(1, 10))).from_exit();
        limiter.exhaust(Time(5));
        assert_eq!(earliest(&limiter, &[], one(5)), Time(15));
        limiter.retune(Time(6), terms(1, 20));
        assert_eq!(earliest(&limiter, &[], one(6)), Time(25));
    }

    #[test]
    fn other_terms_are_those_of_known_and_new_keys() {
        let mut limiter = History::keyed(Sliding::new(terms(1, 10)), 10);
        commit(&mut limiter, b"a", 0);
        limiter.retune(Time(1), terms(1, 20));
        commit(&mut limiter, b"b", 1);
        let answers = [&b"a"[..], b"b"].map(|key| earliest(&limiter, key, one(2)));
        assert_eq!(answers, [20, 21].map(Time));
    }

    /// A day after its release, the first one is evicted, as by the day it is idle.
    #[test]
    fn what_a_key_had_before_it_was_evicted_counts_as_used_under_longer_terms() {
        const DAY: u64 = 86_400 * SECOND;
        let mut limiter = History::keyed(Calendar::new(terms(1, DAY)), DAY);
        commit(&mut limiter, b"a", DAY);
        limiter.evict(Time(2 * DAY), Time(2 * DAY));
        assert_eq!(limiter.accounts.len(), 0);
        commit(&mut limiter, b"a", 2 * DAY);
        limiter.retune(Time(2 * DAY), terms(2, 7 * DAY));
        // Monday is the 5th of January 1970.
        let answers = [&b"a"[..], b"b"].map(|key| earliest(&limiter, key, one(2 * DAY + 1)));
        assert_eq!(answers, [Time(4 * DAY); 2]);
    }

    /// Keys, evictions, other terms, and a wall clock that is set by up to 300 hours, forwards and back.
    #[test]
    fn no_period_of_the_calendar_has_more_however_the_clock_is_set() {
        const HOUR: u64 = 3600 * SECOND;
        const OFFSETS: [(&str, u64); 3] = [("UTC", 0), ("Etc/GMT-5", 5), ("Etc/GMT+3", 165)];
        for seed in 0..1000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let draw = |random: &mut fastrand::Rng, wall| {
                let (count, period) = (random.u64(1..4), random.choice([1, 6, 24, 168]).unwrap() * HOUR);
                let (zone, offset) = random.choice(OFFSETS).unwrap();
                // The 1st of January 1970 was a Thursday.
                let period_of = move |shown| (shown + (72 + offset) * HOUR) / period;
                (Terms { wall, zone: Some(zone.parse().unwrap()), ..terms(count, period) }, period_of)
            };
            let mut wall = Wall::new(Time(0), Time(2400 * HOUR));
            let (mut drawn, mut period_of) = draw(&mut random, wall);
            let rule = Calendar::new(drawn);
            let mut limiter =
                if random.bool() { History::keyed(rule, drawn.period) } else { History::common(rule) };
            let (mut now, mut released) = (HOUR, Vec::new());
            for _ in 0..60 {
                match random.u8(0..13) {
                    0 => limiter.evict(Time(now), Time(now)),
                    1 => {
                        let by = random.choice([1, 15, 300]).unwrap() * HOUR;
                        wall =
                            Wall::new(Time(now), Time(wall.shows(Time(now)).0 + random.u64(0..2 * by) - by));
                        drawn.wall = wall;
                        limiter.retune(Time(now), drawn);
                    }
                    2 => {
                        (drawn, period_of) = draw(&mut random, wall);
                        limiter.retune(Time(now), drawn);
                    }
                    3..=5 => now += random.u64(0..9 * HOUR),
                    _ => {
                        let keys: &[&[u8]] =
                            if limiter.accounts.are_keyed() { &[b"a", b"b"] } else { &[b""] };
                        let (key, shown) = (random.choice(keys).unwrap(), wall.shows(Time(now)).0);
                        if earliest(&limiter, key, one(now)) <= Time(now) {
                            commit(&mut limiter, key, now);
                            released.push((key, shown));
                            let like = |(key, shown): &(_, u64)| (*key, period_of(*shown));
                            let of_period = released.iter().filter(|one| like(one) == like(&(key, shown)));
                            assert!(of_period.count() as u64 <= drawn.count, "seed {seed}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_exhausted_limit_does_not_forget_what_its_evicted_keys_had() {
        let mut limiter = History::keyed(Fixed::new(terms(1, 3)), 3);
        limiter.exhaust(Time(0));
        commit(&mut limiter, b"a", 15);
        limiter.retune(Time(19), terms(1, 12));
        assert_eq!(earliest(&limiter, b"a", one(19)), Time(27));
    }

    #[test]
    fn a_search_that_can_find_nothing_is_put_off_until_something_is_charged() {
        let mut limiter = History::keyed(Interval::new(terms(1, SECOND)), SECOND);
        let account = limiter.account(b"a", Time(0));
        limiter.commit(account, Time(0), Ask { since: Time(0), cost: 1_000_000 });
        let idle_at = Time(1_000_000 * SECOND);
        limiter.evict(Time(SECOND), Time(SECOND));
        assert_eq!(limiter.evict_at(), Some(idle_at));
        commit(&mut limiter, b"b", 5 * SECOND);
        assert_eq!(limiter.evict_at(), Some(Time(6 * SECOND)));
        limiter.evict(Time(6 * SECOND), Time(6 * SECOND));
        assert_eq!((limiter.accounts.len(), limiter.evict_at()), (1, Some(idle_at)));
        limiter.evict(idle_at, idle_at);
        assert_eq!((limiter.accounts.len(), limiter.evict_at()), (0, None));
    }

    /// As long as a waiting item asks as of an instant before they were idle.
    #[test]
    fn what_cannot_be_evicted_is_not_searched_again() {
        let mut limiter = History::keyed(Sliding::new(terms(1, SECOND)), SECOND);
        commit(&mut limiter, b"a", 0);
        let new = limiter.account(b"b", Time(0));
        limiter.evict(Time(SECOND), Time(0));
        assert_eq!(limiter.accounts.len(), 1, "{new} was never charged");
        limiter.account(b"c", Time(SECOND));
        limiter.evict(Time(2 * SECOND), Time(SECOND - 1));
        assert_eq!((limiter.accounts.len(), limiter.evict_at()), (2, Some(Time(3 * SECOND))));
        limiter.evict(Time(3 * SECOND), Time(SECOND));
        assert_eq!((limiter.accounts.len(), limiter.evict_at()), (0, None));
    }

    #[test]
    fn accounts_are_evicted_when_it_is_time_and_no_sooner() {
        let mut limiter = History::keyed(Sliding::new(terms(1, 10)), 10);
        commit(&mut limiter, b"a", 0);
        limiter.evict(Time(SECOND - 1), Time(SECOND - 1));
        assert_eq!((limiter.accounts.len(), limiter.evict_at()), (1, Some(Time(SECOND))));
        limiter.evict(Time(SECOND), Time(SECOND));
        assert_eq!((limiter.accounts.len(), limiter.evict_at()), (0, None));
    }
}
