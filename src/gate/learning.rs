//! A limit whose rate is found: what each key has learned, and the rule that follows from it.

use std::collections::HashMap;
use std::num::NonZeroU64;

use foldhash::fast::RandomState;

use crate::charge::Key;
use crate::config::Rate;
use crate::rule::{AnyRule, AnyState, Ask, Cubic, Terms};
use crate::time::{SECOND, Time};

/// The rate of a key that was not used for this long, in nanoseconds, is forgotten.
const KEPT_FOR: u64 = 3600 * SECOND;

/// The part of the rate at which a server throttled that it is taken to bear.
const JUST_BELOW: f64 = 0.95;

/// What was served in less than this, in nanoseconds, tells no rate, and in less than a second not even that a rate is
/// too high.
const TELLING: u64 = 5 * SECOND;

/// The number of served attempts that tell of a server as it is now.
const RECENT: u64 = 1000;

/// A rate is followed to this part of a unit per period, if its rule accrues.
const SCALE: u64 = 1000;

/// What a limit with a range has learned.
#[derive(Clone)]
pub(super) struct Learning {
    rate: Rate,
    keys: HashMap<Key, Learned, RandomState>,
}

/// What is known of the rate of a key.
#[derive(Clone, Debug)]
pub struct Learned {
    cubic: Cubic,
    /// The number of attempts that succeeded or were throttled.
    pub attempts: u64,
    /// The number of attempts that were throttled.
    pub throttled: u64,
    /// The last answer, and the end of the last pause that a server asked for.
    answered_at: Time,
    held_until: Time,
    since: Since,
}

/// What a server answered to an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// The instant of the attempt.
    pub started: Time,
    /// It throttled it.
    pub is_throttled: bool,
    /// The end of the pause that it asked for; the origin if for none.
    pub held_until: Time,
}

/// What became of attempts since one was first throttled after a success. All is halved when it is more than is needed.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    /// The numbers of attempts.
    served: u64,
    throttled: u64,
    /// The cost of what was served.
    cost: u64,
    /// The nanoseconds for which the rate, or a pause that a server asked for, held attempts back.
    used: u64,
}

impl Learned {
    /// The rate a second, now.
    pub fn rate(&self) -> f64 {
        self.cubic.rate()
    }

    /// The nanoseconds from one unit to the next at this rate.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn gap(&self) -> u64 {
        (SECOND as f64 / self.rate()).ceil() as u64
    }

    /// The rate a second that a server bears, as far as it is known: a little less than the one at which it last
    /// throttled or, if more, the present one; and no more than it has served on average since it did so first, of
    /// late. `None` if it never throttled.
    pub fn borne(&self) -> Option<f64> {
        let Since { served, throttled, cost, used } = self.since;
        #[expect(clippy::cast_precision_loss)]
        let average = cost as f64 / used as f64 * 1e9;
        let tells = used >= TELLING || (used >= SECOND && served < throttled);
        let served = if tells { average } else { f64::INFINITY };
        let (peak, now) = (self.cubic.peak()?, self.rate());
        let known = if now > self.cubic.low() { peak.max(now) } else { peak };
        Some((known * JUST_BELOW).min(served))
    }

    /// True if a server bears less than the lowest rate, as far as it is known.
    pub fn lowest_is_too_fast(&self) -> bool {
        self.borne().is_some_and(|borne| borne < self.cubic.low() * JUST_BELOW)
    }
}

impl Learning {
    /// Nothing, unless `rate` is a range.
    pub(super) fn of(rate: &Rate) -> Option<Box<Self>> {
        rate.least?;
        Some(Box::new(Learning { rate: rate.clone(), keys: HashMap::default() }))
    }

    /// The rule by which a key is paced now.
    pub(super) fn rule(&self, key: &[u8]) -> AnyRule {
        let learned = self.keys.get(key).map(Learned::rate);
        self.rule_at(learned.unwrap_or_else(|| self.a_second(self.least())))
    }

    /// The rule at a rate a second.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn rule_at(&self, rate: f64) -> AnyRule {
        let terms = self.rate.padded_terms();
        let spec = self.rate.algorithm.spec();
        let scale = if spec.accrues { SCALE } else { 1 };
        let scale = if terms.period.checked_mul(scale).is_some() { scale } else { 1 };
        let count = rate * terms.period as f64 / SECOND as f64 * scale as f64;
        let count = (count as u64).clamp(1, terms.count.saturating_mul(scale));
        AnyRule::new(self.rate.algorithm, Terms { count, period: terms.period * scale, ..terms })
    }

    fn least(&self) -> u64 {
        self.rate.least.map_or(1, NonZeroU64::get)
    }

    #[expect(clippy::cast_precision_loss)]
    fn a_second(&self, count: u64) -> f64 {
        count as f64 * SECOND as f64 / self.rate.padded_terms().period as f64
    }

    fn learned(&mut self, key: &[u8]) -> &mut Learned {
        let (low, high) = self.bounds();
        let new = || Learned {
            cubic: Cubic::new(low, high),
            attempts: 0,
            throttled: 0,
            answered_at: Time::ZERO,
            held_until: Time::ZERO,
            since: Since::default(),
        };
        self.keys.entry(key.into()).or_insert_with(new)
    }

    /// Charges a release at `now` to the state of its key, and follows the rate.
    pub(super) fn commit(&mut self, key: &[u8], state: &mut AnyState, now: Time, ask: Ask) {
        let rule = self.rule(key);
        let allowed = rule.earliest(state, Ask { eligible_at: Time::ZERO, ..ask });
        rule.commit(state, now, ask);
        let learned = self.learned(key);
        let was_held = now.since(allowed) <= learned.gap();
        if let Some(last) = learned.cubic.last().filter(|_| learned.cubic.peak().is_some()) {
            // A server that asks for a pause saves up what it will serve after that, so the pause counts, at whose end
            // what waited becomes eligible; time in which commands ran does not.
            let was_paused = ask.eligible_at <= learned.held_until;
            let idle_until = if was_paused { Time::ZERO } else { ask.eligible_at };
            let from = if was_held { last } else { last.max(idle_until).max(learned.answered_at) };
            learned.since.used += now.since(from);
        }
        learned.cubic.released(now, was_held);
        self.follow(&rule, key, state, now);
    }

    /// Notes at `now` what a server answered to an attempt of this cost.
    pub(super) fn answered(
        &mut self,
        key: &[u8],
        state: &mut AnyState,
        now: Time,
        cost: u64,
        &Feedback { started, is_throttled, held_until }: &Feedback,
    ) -> bool {
        let rule = self.rule(key);
        let learned = self.learned(key);
        learned.attempts += 1;
        learned.throttled += u64::from(is_throttled);
        learned.answered_at = now;
        learned.held_until = learned.held_until.max(held_until);
        let has_fallen = learned.cubic.answered(started, now, is_throttled);
        if learned.cubic.peak().is_some() {
            let Since { served, throttled, cost: sum, used } = &mut learned.since;
            *served += u64::from(!is_throttled);
            *throttled += u64::from(is_throttled);
            *sum = sum.saturating_add(if is_throttled { 0 } else { cost });
            if *served >= 2 * RECENT && *used >= 2 * TELLING {
                [served, throttled, sum, used].into_iter().for_each(|count| *count /= 2);
            }
        }
        if has_fallen {
            self.follow(&rule, key, state, now);
        }
        has_fallen
    }

    /// Converts a state from the rule that it had to the present one.
    fn follow(&self, before: &AnyRule, key: &[u8], state: &mut AnyState, now: Time) {
        before.carry_over(state, &self.rule(key), now, None);
    }

    /// Goes on with other bounds; ends if `rate` is no range.
    pub(super) fn set_rate(mut self: Box<Self>, rate: &Rate) -> Option<Box<Self>> {
        rate.least?;
        self.rate = rate.clone();
        let (low, high) = self.bounds();
        self.keys.values_mut().for_each(|learned| learned.cubic.bound(low, high));
        Some(self)
    }

    /// The lowest rate a second, and the highest.
    fn bounds(&self) -> (f64, f64) {
        (self.a_second(self.least()), self.a_second(self.rate.count))
    }

    /// Forgets, at `now`, the keys that were not used for long.
    pub(super) fn evict(&mut self, now: Time) {
        self.keys.retain(|_, learned| learned.cubic.last().is_none_or(|last| now.since(last) < KEPT_FOR));
    }

    /// What was learned, by key.
    pub(super) fn all(&self) -> impl Iterator<Item = (&[u8], &Learned)> {
        self.keys.iter().map(|(key, learned)| (key.as_slice(), learned))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::{Limit, Request};
    use super::*;
    use crate::time::Wall;

    /// What a run at a server that serves `bears` in any second, and answers after 50 ms, releases in two minutes:
    /// whether each attempt was served, and when it was made.
    fn run(limit: &mut Limit, key: &Key, bears: usize) -> Vec<(u64, bool)> {
        let (keys, mut now) = ([key.clone()], 0);
        let (mut answers, mut made) = (VecDeque::new(), Vec::<(u64, bool)>::new());
        while now < 120 * SECOND {
            let request = Request { eligible_at: Time(now), costs: &[1], keys: &keys, waits: true };
            let at = limit.opening(key.as_slice(), request.ask(1), Time(now)).from;
            let is_answered = |(started, _): &(u64, bool)| started + SECOND / 20 <= at.0;
            if let Some((started, is_throttled)) = answers.front().copied().filter(is_answered) {
                answers.pop_front();
                now = now.max(started + SECOND / 20);
                let feedback = Feedback { started: Time(started), is_throttled, held_until: Time::ZERO };
                limit.answered((&request, 1), Time(now), &feedback);
                continue;
            }
            now = at.0;
            let recent = made.iter().rev().take_while(|(at, _)| at + SECOND > now);
            let is_served = recent.filter(|(_, is_served)| *is_served).count() < bears;
            let account = limit.account(key.as_slice(), at);
            limit.commit(account, at, request.ask(1), 1);
            made.push((now, is_served));
            answers.push_back((now, !is_served));
        }
        made.truncate(made.len() - answers.len());
        made
    }

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn it_finds_what_a_server_bears_and_stays_within_its_bounds() {
        let (found, low, high) = (36.0..41.0, 49.0..51.0, 99.0..101.0);
        for (text, key, bears, rates, borne) in [
            ("2..100/s,algo=sliding", &b""[..], 40, &found, Some(36.0..40.0)),
            ("2..100/s,algo=interval", b"", 40, &found, Some(36.0..40.0)),
            ("120..6000/m,algo=interval,key=col:1", b"a", 40, &found, Some(36.0..40.0)),
            ("2..100/s,key=col:1", b"a", 1000, &high, None),
            ("50..100/s,algo=interval", b"", 3, &low, Some(2.9..3.1)),
        ] {
            let rate = rate(text);
            let mut limit = Limit::new(&rate, rate.is_by_key().then_some(0), Time(0), Wall::EPOCH);
            let made = run(&mut limit, &Key::from_slice(key), bears);
            let learned: Vec<_> = limit.learned().collect();
            let [(of, learned)] = learned[..] else { panic!("{learned:?}") };
            let throttled = made.iter().filter(|(_, is_served)| !is_served).count() as u64;
            assert_eq!(
                (of, learned.attempts, learned.throttled),
                (key, made.len() as u64, throttled),
                "{text}"
            );
            let of_a_minute = made.iter().filter(|(at, _)| *at >= 60 * SECOND).count();
            let per_second = f64::from(u32::try_from(of_a_minute).unwrap()) / 60.0;
            assert!(rates.contains(&per_second), "{text}: {per_second}");
            assert!(
                borne.is_none_or(|borne| borne.contains(&learned.borne().unwrap())),
                "{text}: {:?}",
                learned.borne()
            );
            assert!(made.windows(101).all(|window| window[100].0 - window[0].0 >= SECOND), "{text}");
        }
    }

    /// In the first seconds, what was served tells nothing, unless it is less than what was throttled.
    #[test]
    fn what_a_server_bears_is_just_below_what_it_throttled_until_more_is_known() {
        let mut learned = Learning::of(&rate("2..100/s")).unwrap().learned(b"").clone();
        assert_eq!(learned.borne(), None);
        learned.cubic.answered(Time(0), Time(1), false);
        learned.cubic.answered(Time(0), Time(1), true);
        for (served, throttled, used, borne) in [
            (1, 1, TELLING - 1, 1.9),
            (1, 2, SECOND - 1, 1.9),
            (1, 2, SECOND, 1.0),
            (1, 1, TELLING, 0.2),
            (45, 1, TELLING, 1.9),
            (15, 1, 2 * TELLING, 1.5),
        ] {
            let since = Since { served, throttled, cost: served, used };
            let learned = Learned { since, ..learned.clone() };
            assert!((learned.borne().unwrap() - borne).abs() < 1e-9, "{:?}", learned.borne());
            assert_eq!(learned.lowest_is_too_fast(), borne < 1.9);
        }
        // It has grown, and nothing was throttled.
        learned.cubic.bound(30.0, 40.0);
        learned.cubic.bound(2.0, 40.0);
        assert!((learned.borne().unwrap() - 0.95 * 30.0).abs() < 1e-9, "{:?}", learned.borne());
    }

    /// Of an average, what is long ago counts less and less. A pause that a server asks for counts; time without items,
    /// and in which commands run, does not; nor does anything before the first that is served.
    #[test]
    fn what_is_served_is_counted_over_the_time_in_which_the_limit_or_the_server_held_items_back() {
        let mut learning = Learning::of(&rate("1..100/s,cost=col:2")).unwrap();
        let mut state = learning.rule(b"").unused();
        let mut sent = |learning: &mut Learning, at: u64, eligible_at: u64, took: u64, is_throttled: bool| {
            let held_until = if at == 23 { 33 } else { 0 };
            let (at, eligible_at) = (Time(at * SECOND), Time(eligible_at * SECOND));
            learning.commit(b"", &mut state, at, Ask { eligible_at, cost: 2 });
            let answered = Time(at.0 + took * SECOND);
            let feedback = Feedback { started: at, is_throttled, held_until: Time(held_until * SECOND) };
            learning.answered(b"", &mut state, answered, 2, &feedback);
        };
        sent(&mut learning, 0, 0, 0, true);
        sent(&mut learning, 10, 0, 0, true);
        sent(&mut learning, 20, 0, 0, false);
        assert_eq!(learning.learned(b"").since.used, 0);
        sent(&mut learning, 21, 0, 0, true);
        // The rate is 1/s: of the others, more than two seconds are not its.
        for (at, eligible_at, took, used) in
            [(23, 21, 0, 2), (33, 33, 0, 12), (50, 49, 0, 13), (60, 50, 9, 23), (70, 60, 0, 24)]
        {
            sent(&mut learning, at, eligible_at, took, false);
            assert_eq!(learning.learned(b"").since.used, used * SECOND, "{at}");
        }
        let mut at = 70;
        for count in 6..=2 * RECENT {
            at += 3;
            sent(&mut learning, at, 0, 0, false);
            let (served, cost) = if count < 2 * RECENT { (count, 2 * count) } else { (RECENT, 2 * RECENT) };
            let since = learning.learned(b"").since;
            assert_eq!((since.served, since.cost), (served, cost));
        }
        assert_eq!(learning.learned(b"").since.used, (3 * (2 * RECENT - 5) + 24) * SECOND / 2);
    }

    #[test]
    fn what_was_learned_is_kept_for_an_hour_whatever_the_bounds() {
        let mut learning = Learning::of(&rate("2..100/s,key=col:1")).unwrap();
        learning.learned(b"a").cubic.released(Time(5), true);
        let count = |learning: &Learning| learning.all().count();
        let one = learning.clone().set_rate(&rate("9/s,key=col:1"));
        let other = learning.clone().set_rate(&rate("3..100/s,key=col:1")).unwrap();
        let mut same = learning.set_rate(&rate("2..100/s,key=col:1,start=empty")).unwrap();
        assert!(one.is_none());
        assert_eq!((count(&other), count(&same), other.all().next().unwrap().1.rate()), (1, 1, 3.0));
        for (after, left) in [(KEPT_FOR - 1, 1), (KEPT_FOR, 0)] {
            same.evict(Time(5 + after));
            assert_eq!(count(&same), left);
        }
    }

    /// What goes at once is charged at once. A limit that its releases do not reach stays where it is.
    #[test]
    fn it_doubles_each_second_while_it_is_used() {
        for algorithm in ["sliding", "interval"] {
            let rate = rate(&format!("10..1000/s,algo={algorithm}"));
            let mut limit = Limit::new(&rate, None, Time(0), Wall::EPOCH);
            let mut rate_at = |end: u64, gap: u64| {
                let mut now = Time(end - 5 * SECOND);
                while now < Time(end) {
                    let request = Request { eligible_at: now, costs: &[1], keys: &[], waits: true };
                    now = limit.opening(b"", request.ask(1), now).from;
                    let account = limit.account(b"", now);
                    let most = if gap == 0 { u64::MAX } else { 1 };
                    let count = limit.available(account, now, request.ask(1), 0, most);
                    limit.commit(account, now, request.ask(1), count);
                    now = now.saturating_add(gap);
                }
                limit.learned().next().expect("it was used").1.rate()
            };
            let (slow, fast) = (rate_at(5 * SECOND, SECOND / 4), rate_at(20 * SECOND, 0));
            assert!((10.0..=20.0).contains(&slow) && fast >= 160.0, "{algorithm}: {slow}, then {fast}");
        }
    }
}
