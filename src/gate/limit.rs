//! One of several limits: a rule, what was released under it, its key, and the hours at which it is asked.

mod evict;

use std::borrow::Cow;

use super::accounts::Accounts;
use super::learning::{Feedback, Learned, Learning};
use super::memory::Memory;
use super::sums::Sums;
use super::{Opening, Request};
use crate::charge::Key;
use crate::config::{Rate, key_indices};
use crate::rule::{Algorithm, AnyRule, AnyState, Ask, InHours, Terms};
use crate::time::{SECOND, Time, Wall};

/// The availability of a limit at an instant, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Availability {
    /// All items share the limit.
    Common {
        /// The number of releases of cost 1 that are allowed now: up to N, or a burst.
        available: u64,
    },
    /// The limit applies to each key separately.
    Keyed {
        /// The number of keys with a history.
        keys: usize,
    },
}

/// Whether a release is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Allowance {
    None,
    /// At this instant, as earlier releases no longer count.
    ByNow,
    /// Whatever the instant is.
    Plenty,
}

/// One of several limits, with one history for all items, or one for each key.
///
/// A key is looked up once to find its *account*, the index of its history. It is evicted once it equals a fresh one.
#[derive(Clone)]
pub struct Limit {
    /// What it is the limit of.
    rate: Rate,
    rule: AnyRule,
    accounts: Accounts<AnyState>,
    /// The index of its key in a request's keys, if it applies to each key separately.
    key: Option<usize>,
    /// The hours in which it is asked, if not always. It counts always.
    hours: Option<Box<InHours>>,
    /// The costs of running releases, if a release takes up quota from its start but counts as made when it ends.
    ///
    /// So with a sliding window, at most `count` are running or ended less than `period` ago. With a minimum gap, each
    /// starts at least the gap after the end of the one before, and they never overlap.
    running: Option<Sums<Key>>,
    /// What is known of its rate, if that is to be found. Its rule is that of the highest.
    learning: Option<Box<Learning>>,
    memory: Memory,
    /// A history at least as strict as any that was evicted.
    evicted: AnyState,
    /// The shortest time between two searches for histories to evict, in nanoseconds.
    pause: u64,
    evict_at: Time,
    /// No history is idle before this instant, by the last search and what was charged since; the origin if not known.
    idle_from: Time,
}

/// For each limit, the index of its key, if it applies to each key separately.
pub(super) fn key_parts(rates: &[Rate]) -> Vec<Option<usize>> {
    let keys = rates.iter().zip(key_indices(rates));
    keys.map(|(rate, key)| key.filter(|_| rate.is_by_key())).collect()
}

impl Limit {
    /// The limit of a RATE. `start` is the start of the run.
    pub(super) fn new(rate: &Rate, key: Option<usize>, start: Time, wall: Wall) -> Self {
        let mut limit = Limit::of(rate.algorithm, Terms { wall, ..rate.padded_terms() }, key);
        limit.rate = rate.clone();
        limit.running = rate.counts_exits().then(|| Sums::new(key.is_some()));
        limit.hours = InHours::of(rate.during.as_deref(), wall).map(Box::new);
        limit.learning = Learning::of(rate);
        if rate.starts_empty {
            limit.exhaust(start);
        }
        limit
    }

    /// A limit that is always asked and counts from starts. Idle keys are searched for about every period, at most once
    /// a second.
    pub fn of(algorithm: Algorithm, terms: Terms, key: Option<usize>) -> Self {
        let rule = AnyRule::new(algorithm, terms);
        Limit {
            rate: Rate { algorithm, ..Rate::default() },
            accounts: Accounts::new(rule.unused(), key.is_some()),
            evicted: rule.unused(),
            rule,
            key,
            hours: None,
            running: None,
            learning: None,
            memory: Memory::default(),
            pause: terms.period.max(SECOND),
            evict_at: Time::NEVER,
            idle_from: Time::ZERO,
        }
    }

    /// The RATE that it is the limit of.
    pub(super) fn rate(&self) -> &Rate {
        &self.rate
    }

    /// True if all items share it.
    pub(crate) fn is_common(&self) -> bool {
        self.key.is_none()
    }

    /// The index of its key in a request's keys, if it applies to each key separately.
    pub(crate) fn key(&self) -> Option<usize> {
        self.key
    }

    /// The key of a request that it charges; empty if all items share it.
    pub(crate) fn key_of<'a>(&self, request: &Request<'a>) -> &'a [u8] {
        self.key.map_or(&[], |key| request.keys[key].as_slice())
    }

    #[inline]
    fn running(&self, key: &[u8]) -> u64 {
        self.running.as_ref().map_or(0, |running| running.of(key))
    }

    /// The rule for a key.
    fn rule(&self, key: &[u8]) -> Cow<'_, AnyRule> {
        rule_for(&self.rule, self.learning.as_deref(), key)
    }

    /// The first opening for a key, at or after `from`: inside the hours, the rule's answer or the end of the hours,
    /// whichever is first.
    pub fn opening(&self, key: &[u8], ask: Ask, from: Time) -> Opening {
        // *Never* may mean not before something ends.
        let opening = Opening::of(&self.rule(key), self.accounts.of(key), ask, self.running(key), from);
        let Some(hours) = &self.hours else { return opening };
        let end = hours.first(from, false);
        if opening.from < end { opening } else { Opening { from: end, until: hours.first(end, true) } }
    }

    /// As [`Limit::opening`], for a request with this cost.
    pub(crate) fn opening_for(&self, request: &Request, cost: u64, from: Time) -> Opening {
        self.opening(self.key_of(request), request.ask(cost), from)
    }

    /// The account of a key, opened at `now` if there is none. Valid until the next [`Limit::evict`].
    #[inline]
    pub fn account(&mut self, key: &[u8], now: Time) -> usize {
        if self.accounts.are_keyed() { self.account_of_key(key, now) } else { 0 }
    }

    fn account_of_key(&mut self, key: &[u8], now: Time) -> usize {
        self.evict_at = self.evict_at.min(now.saturating_add(self.pause));
        self.idle_from = self.idle_from.min(now);
        self.accounts.account(key)
    }

    /// The number of releases allowed at `now`, up to `most`, after others that cost `pending`.
    pub fn available(&mut self, account: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64 {
        if self.is_outside_hours(now) {
            return most;
        }
        let pending = match self.running {
            None => pending,
            Some(_) => pending.saturating_add(self.running(self.accounts.key(account))),
        };
        let rule = rule_for(&self.rule, self.learning.as_deref(), self.accounts.key(account));
        let state = self.accounts.get_mut(account);
        if most == 1 && rule.is_plenty(state, ask.cost, pending) {
            return 1;
        }
        // What has left the window tells since when the limit has held this release back.
        if self.learning.is_none() {
            rule.expire(state, now);
        }
        rule.available(state, now, ask, pending).min(most)
    }

    /// Whether a release is allowed at `now`. Changes nothing that a later question at an earlier instant depends on.
    #[inline]
    pub(super) fn allowance(&self, account: usize, now: Time, ask: Ask) -> Allowance {
        let key = self.accounts.key(account);
        let (running, state) = (self.running(key), self.accounts.get(account));
        let rule = rule_for(&self.rule, self.learning.as_deref(), key);
        if rule.is_plenty(state, ask.cost, running) {
            return Allowance::Plenty;
        }
        let is_allowed = rule.available(state, now, ask, running) > 0 || self.is_outside_hours(now);
        if is_allowed { Allowance::ByNow } else { Allowance::None }
    }

    /// Charges a release that begins at `now` and counts until it ends, unless it is `over` at once.
    #[inline]
    pub(super) fn begin(
        &mut self,
        (account, allowance): (usize, Allowance),
        now: Time,
        ask: Ask,
        over: bool,
    ) {
        let Limit { rule, accounts, running, .. } = self;
        if allowance == Allowance::ByNow {
            rule.expire(accounts.get_mut(account), now);
        }
        match running {
            Some(running) if !over => running.add(accounts.key(account), ask.cost),
            _ => self.charge_end(account, now, ask),
        }
    }

    /// Its availability at `now`, for display. Outside its hours, when it allows anything, only keys are counted.
    pub(crate) fn standing(&self, now: Time) -> Option<Availability> {
        if self.accounts.are_keyed() {
            return Some(Availability::Keyed { keys: self.accounts.len() });
        }
        if self.is_outside_hours(now) {
            return None;
        }
        let ask = Ask { eligible_at: now, cost: 1 };
        let available = self.rule(&[]).available(&self.accounts.fresh, now, ask, self.running(&[]));
        Some(Availability::Common { available })
    }

    /// True if the limit is not asked now, and so allows anything.
    fn is_outside_hours(&self, now: Time) -> bool {
        self.hours.as_ref().is_some_and(|hours| !hours.contain(now))
    }

    /// The instant of the last of `count` releases, if each goes as soon as this limit alone allows it and commands
    /// take no time.
    pub(crate) fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Time {
        let end = self.hours.as_ref().map_or(Time::NEVER, |hours| hours.first(ask.eligible_at, false));
        self.rule(key).last_of(self.accounts.of(key), ask, count).min(end)
    }

    /// Charges `count` releases. A limit with hours charges them one by one, as those made outside its hours leave no
    /// debt and may exceed what it allows at once.
    pub fn commit(&mut self, account: usize, now: Time, ask: Ask, count: u64) {
        if self.hours.is_none() {
            return self.charge(account, now, Ask { cost: ask.cost.saturating_mul(count), ..ask });
        }
        (0..count).for_each(|_| self.charge(account, now, ask));
    }

    fn charge(&mut self, account: usize, now: Time, ask: Ask) {
        let Some(running) = &mut self.running else { return self.charge_end(account, now, ask) };
        running.add(self.accounts.key(account), ask.cost);
    }

    /// Notes at `now` what a server answered to an attempt. Returns whether the rate has fallen.
    pub(super) fn answered(
        &mut self,
        (request, cost): (&Request, u64),
        now: Time,
        feedback: &Feedback,
    ) -> bool {
        let Some(mut learning) = self.learning.take() else { return false };
        let account = self.account(self.key_of(request), now);
        let (key, state) = self.accounts.entry(account);
        let has_fallen = learning.answered(key, state, now, cost, feedback);
        self.learning = Some(learning);
        has_fallen
    }

    /// What was learned of the rates of keys, if they are to be found.
    pub fn learned(&self) -> impl Iterator<Item = (&[u8], &Learned)> {
        self.learning.iter().flat_map(|learning| learning.all())
    }

    /// The limit, under which a release takes up quota from its start and counts as made when it ends.
    pub(super) fn until_ended(mut self) -> Self {
        self.running.get_or_insert_with(|| Sums::new(self.key.is_some()));
        self
    }

    /// True if a release that `request` would have to wait for has begun and not ended.
    pub(crate) fn runs(&self, request: &Request) -> bool {
        self.running(self.key_of(request)) > 0
    }

    /// Forgets a release that began and never took place.
    pub(super) fn withdraw(&mut self, request: &Request, cost: u64) {
        let key = self.key_of(request);
        self.running.iter_mut().for_each(|running| running.remove(key, cost));
    }

    /// Notes that a release that was charged `cost` ended at `now`.
    #[inline]
    pub(super) fn finish(&mut self, now: Time, request: &Request, cost: u64) {
        if cost > 0 && self.running.is_some() {
            let account = self.account(self.key_of(request), now);
            self.end(account, now, request.ask(cost));
        }
    }

    /// As [`Limit::finish`], for an account.
    #[inline]
    pub(super) fn end(&mut self, account: usize, now: Time, ask: Ask) {
        let Some(running) = &mut self.running else { return };
        running.remove(self.accounts.key(account), ask.cost);
        self.charge_end(account, now, ask);
    }

    /// Charges a release as of its end, outside the hours without a debt.
    #[inline]
    fn charge_end(&mut self, account: usize, now: Time, ask: Ask) {
        self.memory.note(now);
        if let Some(learning) = &mut self.learning {
            let (key, state) = self.accounts.entry(account);
            learning.commit(key, state, now, ask);
        } else {
            self.rule.commit(self.accounts.get_mut(account), now, ask);
        }
        if self.hours.is_some() {
            self.rule.waive_debt(self.accounts.get_mut(account));
        }
    }

    /// Uses up the whole limit at `at`, for every key.
    pub(crate) fn exhaust(&mut self, at: Time) {
        self.accounts.iter_mut().for_each(|state| self.rule.exhaust(state, at));
        self.memory.note(at);
    }

    /// The limit, with another index of its key.
    pub(super) fn with_key(self, key: Option<usize>) -> Self {
        Limit { key, ..self }
    }

    /// Becomes the limit of another RATE with the same algorithm, cost and key from `now` on, keeping its history.
    pub(super) fn set_rate(&mut self, now: Time, rate: &Rate, wall: Wall) {
        self.retune(now, AnyRule::new(rate.algorithm, Terms { wall, ..rate.padded_terms() }));
        self.learning = match self.learning.take() {
            Some(learning) => learning.set_rate(rate),
            None => Learning::of(rate),
        };
        self.pause = rate.padded_terms().period.max(SECOND);
        self.hours = InHours::of(rate.during.as_deref(), wall).map(Box::new);
        self.rate = rate.clone();
    }

    /// Follows the wall clock, which was set at `now`.
    pub(super) fn set_wall(&mut self, now: Time, wall: Wall) {
        if self.rule.spec().is_civil() {
            return self.set_rate(now, &self.rate.clone(), wall);
        }
        self.hours = InHours::of(self.rate.during.as_deref(), wall).map(Box::new);
    }

    /// Changes the rule at `now`, as by [`Rule::carry_over`](crate::rule::Rule::carry_over).
    fn retune(&mut self, now: Time, new: AnyRule) {
        let forgotten = self.memory.change_terms(now, self.rule.memory());
        // A log that was kept for a lower rate is shorter.
        let forgotten = if self.learning.is_some() { Some(now) } else { forgotten };
        let Limit { rule, accounts, evicted, .. } = self;
        accounts.iter_mut().for_each(|state| {
            rule.note_forgotten(state, evicted);
            rule.carry_over(state, &new, now, forgotten);
        });
        // An unknown key may be one that was evicted.
        if new.idle_at(evicted) > new.idle_at(&accounts.fresh) {
            accounts.fresh = evicted.clone();
        }
        self.rule = new;
        self.idle_from = Time::ZERO;
    }
}

fn rule_for<'a>(rule: &'a AnyRule, learning: Option<&Learning>, key: &[u8]) -> Cow<'a, AnyRule> {
    learning.map_or(Cow::Borrowed(rule), |learning| Cow::Owned(learning.rule(key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm::{Calendar, Fixed, Interval, Sliding};
    use crate::rule::tests::{one, terms};

    fn common(algorithm: Algorithm, terms: Terms) -> Limit {
        Limit::of(algorithm, terms, None)
    }

    pub(super) fn keyed(algorithm: Algorithm, terms: Terms) -> Limit {
        Limit::of(algorithm, terms, Some(0))
    }

    fn from_exit(limit: Limit) -> Limit {
        Limit { running: Some(Sums::new(!limit.is_common())), ..limit }
    }

    pub(super) fn commit(limit: &mut Limit, key: &[u8], at: u64) {
        let account = limit.account(key, Time(at));
        limit.commit(account, Time(at), one(at), 1);
    }

    pub(super) fn earliest(limit: &Limit, key: &[u8], ask: Ask) -> Time {
        limit.opening(key, ask, ask.eligible_at).from
    }

    pub(super) fn retune(limit: &mut Limit, now: u64, algorithm: Algorithm, terms: Terms) {
        limit.retune(Time(now), AnyRule::new(algorithm, terms));
    }

    #[test]
    fn each_key_has_a_limit_of_its_own() {
        let mut limit = keyed(Sliding, terms(1, 10));
        commit(&mut limit, b"a", 0);
        assert_eq!(earliest(&limit, b"a", one(1)), Time(10));
        assert_eq!(earliest(&limit, b"b", one(1)), Time(1));
    }

    #[test]
    fn a_new_key_of_an_exhausted_limit_is_exhausted() {
        let mut limit = keyed(Sliding, terms(1, 10));
        limit.exhaust(Time(5));
        assert_eq!(earliest(&limit, b"a", one(7)), Time(15));
    }

    #[test]
    fn what_is_available_is_that_of_the_key() {
        let mut limit = keyed(Sliding, terms(3, 10));
        commit(&mut limit, b"a", 0);
        let available = [&b"a"[..], b"b"].map(|key| {
            let account = limit.account(key, Time(1));
            limit.available(account, Time(1), one(1), 0, 9)
        });
        assert_eq!(available, [2, 3]);
    }

    #[test]
    fn an_end_counts_for_its_key() {
        let mut limit = from_exit(keyed(Sliding, terms(1, 10)));
        commit(&mut limit, b"a", 0);
        assert_eq!(earliest(&limit, b"a", one(1)), Time::NEVER);
        limit.end(0, Time(5), one(0));
        assert_eq!(earliest(&limit, b"a", one(6)), Time(15));
    }

    #[test]
    fn what_runs_keeps_its_place_and_then_for_a_period() {
        let mut limit = from_exit(keyed(Sliding, terms(2, 10)));
        commit(&mut limit, b"a", 0);
        commit(&mut limit, b"a", 1);
        assert_eq!(earliest(&limit, b"a", one(50)), Time::NEVER);
        limit.evict(Time(SECOND), Time(SECOND));
        assert_eq!(limit.accounts.len(), 1);
        limit.end(0, Time(60), one(0));
        assert_eq!(earliest(&limit, b"a", one(61)), Time(70));
        limit.end(0, Time(65), one(1));
        assert_eq!(earliest(&limit, b"a", one(66)), Time(70));
        limit.evict(Time(2 * SECOND), Time(74));
        assert_eq!(limit.accounts.len(), 1);
        limit.evict(Time(3 * SECOND), Time(75));
        assert_eq!((limit.accounts.len(), limit.running(b"a")), (0, 0));
    }

    #[test]
    fn a_gap_from_end_to_start_leaves_no_overlap() {
        let mut limit = from_exit(common(Interval, terms(1, 10)));
        commit(&mut limit, &[], 0);
        assert_eq!(earliest(&limit, &[], one(50)), Time::NEVER);
        limit.end(0, Time(60), one(0));
        assert_eq!(earliest(&limit, &[], one(60)), Time(70));
    }

    #[test]
    fn what_runs_is_not_available() {
        let mut limit = from_exit(common(Sliding, terms(2, 10)));
        let available = [(); 3].map(|()| {
            let available = limit.available(0, Time(0), one(0), 0, 9);
            commit(&mut limit, &[], 0);
            available
        });
        assert_eq!(available, [2, 1, 0]);
        (0..2).for_each(|_| limit.end(0, Time(0), one(0)));
        assert_eq!([0, 1].map(|pending| limit.available(0, Time(10), one(10), pending, 9)), [1, 0]);
    }

    fn in_hours(text: &str) -> Limit {
        let rate = text.parse().unwrap();
        Limit::new(&rate, None, Time(0), Wall::EPOCH)
    }

    const MINUTE: u64 = 60 * SECOND;

    /// From 00:00 to 00:10, in minutes.
    #[test]
    fn a_limit_in_its_hours_opens_when_they_end_and_owes_nothing_then() {
        let at = |minute: u64| Time(minute * MINUTE);
        let mut limit = in_hours("1/10m,during=00:00-00:10,tz=UTC");
        limit.commit(0, at(0), one(0), 1);
        let available = Some(Availability::Common { available: 0 });
        assert_eq!([0, 9, 10].map(|minute| limit.standing(at(minute))), [available, available, None]);
        let opening = limit.opening(b"", Ask { eligible_at: at(0), cost: 1 }, at(0));
        assert_eq!(opening, Opening { from: at(10), until: at(24 * 60) });
        assert_eq!(
            [0, 10, 11].map(|from| limit.last_of(b"", Ask { eligible_at: at(from), cost: 1 }, 5)),
            [10, 10, 11].map(at)
        );
        // Five at once outside the hours are five releases, not one that costs as much.
        let mut limit = in_hours("1/20m,algo=interval,during=00:10-24:00,tz=UTC");
        limit.commit(0, at(5), Ask { eligible_at: at(5), cost: 1 }, 5);
        assert_eq!(limit.opening(b"", Ask { eligible_at: at(10), cost: 1 }, at(10)).from, at(25));
        let mut limit = in_hours("1/20m,algo=bucket,burst=2,during=00:10-24:00,tz=UTC");
        limit.commit(0, at(5), Ask { eligible_at: at(5), cost: 1 }, 5);
        assert_eq!(limit.opening(b"", Ask { eligible_at: at(10), cost: 1 }, at(10)).from, at(25));
    }

    #[test]
    fn hours_follow_the_wall_clock() {
        let rate = "0/s,during=00:00-00:10,tz=UTC".parse::<crate::config::RateText>();
        let rate = rate.unwrap().resolve(&crate::config::Defaults::default()).unwrap();
        let mut limit = Limit::new(&rate, None, Time(0), Wall::EPOCH);
        let opens = |limit: &Limit| limit.opening(b"", one(0), Time(0)).from.0 / MINUTE;
        assert_eq!(opens(&limit), 10);
        limit.set_wall(Time(0), Wall::new(Time(0), Time(4 * MINUTE)));
        assert_eq!(opens(&limit), 6);
        limit.set_rate(Time(0), &rate, Wall::new(Time(0), Time(9 * MINUTE)));
        assert_eq!(opens(&limit), 1);
    }

    #[test]
    fn what_a_limit_remembers_is_not_unknown_under_longer_terms() {
        for algorithm in [Sliding, Fixed] {
            let mut limit = common(algorithm, terms(2, 10));
            commit(&mut limit, &[], 5);
            retune(&mut limit, 8, algorithm, terms(2, 20));
            assert_eq!(earliest(&limit, &[], one(8)), Time(8));
            commit(&mut limit, &[], 8);
            assert_eq!(earliest(&limit, &[], one(8)), Time(25));
        }
    }

    #[test]
    fn what_used_a_limit_up_counts_under_longer_terms() {
        let mut limit = common(Sliding, terms(1, 10));
        limit.exhaust(Time(5));
        retune(&mut limit, 20, Sliding, terms(1, 30));
        assert_eq!(earliest(&limit, &[], one(20)), Time(35));
    }

    #[test]
    fn a_limit_that_counts_ends_is_exhausted_and_has_its_terms_changed() {
        let mut limit = from_exit(common(Sliding, terms(1, 10)));
        limit.exhaust(Time(5));
        assert_eq!(earliest(&limit, &[], one(5)), Time(15));
        retune(&mut limit, 6, Sliding, terms(1, 20));
        assert_eq!(earliest(&limit, &[], one(6)), Time(25));
    }

    #[test]
    fn other_terms_are_those_of_known_and_new_keys() {
        let mut limit = keyed(Sliding, terms(1, 10));
        commit(&mut limit, b"a", 0);
        retune(&mut limit, 1, Sliding, terms(1, 20));
        commit(&mut limit, b"b", 1);
        let answers = [&b"a"[..], b"b"].map(|key| earliest(&limit, key, one(2)));
        assert_eq!(answers, [20, 21].map(Time));
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
            let mut limit = if random.bool() { keyed(Calendar, drawn) } else { common(Calendar, drawn) };
            let (mut now, mut released) = (HOUR, Vec::new());
            for _ in 0..60 {
                match random.u8(0..13) {
                    0 => limit.evict(Time(now), Time(now)),
                    1 => {
                        let by = random.choice([1, 15, 300]).unwrap() * HOUR;
                        wall =
                            Wall::new(Time(now), Time(wall.shows(Time(now)).0 + random.u64(0..2 * by) - by));
                        drawn.wall = wall;
                        retune(&mut limit, now, Calendar, drawn);
                    }
                    2 => {
                        (drawn, period_of) = draw(&mut random, wall);
                        retune(&mut limit, now, Calendar, drawn);
                    }
                    3..=5 => now += random.u64(0..9 * HOUR),
                    _ => {
                        let keys: &[&[u8]] = if limit.accounts.are_keyed() { &[b"a", b"b"] } else { &[b""] };
                        let (key, shown) = (random.choice(keys).unwrap(), wall.shows(Time(now)).0);
                        if earliest(&limit, key, one(now)) <= Time(now) {
                            commit(&mut limit, key, now);
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
}
