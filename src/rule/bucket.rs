//! The token bucket (Turner 1986, as the "leaky bucket as a meter"), with continuous, exact refill.

use super::{Ask, Extra, Rule, Spec, Terms};
use crate::time::Time;

/// Bursts of up to `burst`, then `count` per `period`: at most `burst + count·W/period` in any window W.
///
/// The level is kept in *grains*: one unit of cost is `period` grains, and `count` grains accrue each nanosecond. So
/// the refill is exact for any rate; no fraction is lost.
///
/// While an item that costs more than `burst` waits, the cap is its cost instead, so it is served, but later.
#[derive(Clone, Debug)]
pub struct Bucket {
    terms: Terms,
}

/// The grains missing from a full bucket at an instant. Packed, as there is one for each key.
#[repr(Rust, packed(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct Lacking {
    at: Time,
    used: u128,
}

impl Bucket {
    fn grains(&self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.terms.period)
    }

    fn accrued(&self, nanos: u64) -> u128 {
        u128::from(self.terms.count) * u128::from(nanos)
    }

    fn full(&self) -> u128 {
        self.grains(self.terms.burst)
    }

    /// The grains missing from a full bucket at `now`, with nothing waiting.
    fn lack(&self, lacking: &Lacking, now: Time) -> u128 {
        lacking.used.saturating_sub(self.accrued(now.since(lacking.at)))
    }

    /// The level at `now`, given that `ask` has been waiting since `ask.since`, and what is owed. One of the two is 0.
    ///
    /// Only releases that were too early leave a debt, such as an audit finds.
    fn level_for(&self, lacking: &Lacking, now: Time, ask: Ask) -> (u128, u128) {
        let eligible_at = ask.eligible_at.max(lacking.at);
        let (lack, accrued) = (self.lack(lacking, eligible_at), self.accrued(now.since(eligible_at)));
        let (level, owed) = (self.full().saturating_sub(lack), lack.saturating_sub(self.full()));
        let cap = self.grains(self.terms.burst.max(ask.cost));
        let level = level.saturating_add(accrued).saturating_sub(owed).min(cap);
        (level, owed.saturating_sub(accrued))
    }

    /// The instant at which this number of grains will have accrued, from `at` on.
    fn after(&self, at: Time, grains: u128) -> Time {
        match u128::from(self.terms.count) {
            _ if grains == 0 => at,
            0 => Time::NEVER,
            count => at.after(grains.div_ceil(count)),
        }
    }
}

impl Rule for Bucket {
    const SPEC: Spec = Spec {
        name: "bucket",
        help: "Up to B (-b, by default N) at once, then N per P. Unused quota\n\
               is saved, up to B. For servers that have a token bucket.",
        takes: &[Extra::Burst],
        accrues: true,
        burst: |terms| terms.burst,
        max_per_window: |terms| terms.burst.saturating_add(terms.count),
        check: |_| Ok(()),
    };

    type State = Lacking;

    fn new(terms: Terms) -> Self {
        Bucket { terms }
    }

    fn earliest(&self, lacking: &Lacking, ask: Ask) -> Time {
        if self.terms.count == 0 {
            return Time::NEVER;
        }
        let eligible_at = ask.eligible_at.max(lacking.at);
        let (level, owed) = self.level_for(lacking, eligible_at, ask);
        self.after(eligible_at, self.grains(ask.cost).saturating_sub(level).saturating_add(owed))
    }

    /// Beyond the burst, nothing is saved up for several.
    fn earliest_during(&self, lacking: &Lacking, ask: Ask, running: u64) -> Time {
        let sum = ask.cost.checked_add(running).filter(|sum| *sum <= self.terms.burst);
        sum.map_or(Time::NEVER, |cost| self.earliest(lacking, Ask { cost, ..ask }))
    }

    fn available(&self, lacking: &Lacking, now: Time, ask: Ask, pending: u64) -> u64 {
        if self.terms.count == 0 {
            return 0;
        }
        let (level, _) = self.level_for(lacking, now, ask);
        let level = level.saturating_sub(self.grains(pending));
        u64::try_from(level / self.grains(ask.cost)).unwrap_or(u64::MAX)
    }

    /// Takes as long as one release that costs as much as all together. But if each release empties the bucket, what
    /// rounding up leaves over is lost each time.
    fn last_of(&self, lacking: &Lacking, ask: Ask, count: u64) -> Time {
        if let Some(gaps) = count.checked_sub(1).filter(|_| ask.cost >= self.terms.burst) {
            let gap = self.grains(ask.cost).div_ceil(self.terms.count.max(1).into());
            return self.earliest(lacking, ask).after(gap.saturating_mul(gaps.into()));
        }
        self.earliest(lacking, Ask { cost: ask.cost.saturating_mul(count), ..ask })
    }

    fn commit(&self, lacking: &mut Lacking, now: Time, ask: Ask) {
        let now = now.max(lacking.at);
        let ((level, owed), price) = (self.level_for(lacking, now, ask), self.grains(ask.cost));
        let left = level.saturating_sub(price);
        let owed = price.saturating_sub(level).saturating_add(owed);
        *lacking = Lacking { used: (self.full() - left).saturating_add(owed), at: now };
    }

    fn waive_debt(&self, lacking: &mut Lacking) {
        lacking.used = lacking.used.min(self.full());
    }

    fn idle_at(&self, lacking: &Lacking) -> Time {
        self.after(lacking.at, lacking.used)
    }

    fn exhaust(&self, lacking: &mut Lacking, at: Time) {
        *lacking = Lacking { used: self.full(), at };
    }

    fn recede(&self, lacking: &mut Lacking, at: Time) {
        *lacking = Lacking { used: lacking.used.max(self.full()), at };
    }

    fn restart(&self, lacking: &mut Lacking) {
        lacking.at = Time::ZERO;
    }

    fn carry_over(&self, lacking: &mut Lacking, new: &Self, now: Time, _: Option<Time>) {
        let now = now.max(lacking.at);
        let level = self.full().saturating_sub(self.lack(lacking, now));
        // Keeps the level: whole units exactly, the fraction of a unit rounded down.
        let (units, rest) = (level / self.grains(1), level % self.grains(1));
        let level = units * new.grains(1) + rest * u128::from(new.terms.period) / self.grains(1);
        let full = new.grains(new.terms.burst);
        *lacking = Lacking { used: full.saturating_sub(level), at: now };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Stateful, one};
    use super::*;

    fn bucket(count: u64, period: u64, burst: u64) -> Stateful<Bucket> {
        Stateful::new(Bucket::new(Terms::new(count, period, burst)))
    }

    #[test]
    fn starts_full_then_keeps_the_rate() {
        let mut limiter = bucket(1, 10, 3);
        assert_eq!(limiter.instants(&[0, 0, 0, 0, 0]), [0, 0, 0, 10, 20]);
    }

    #[test]
    fn three_a_second_is_three_a_second() {
        let mut limiter = bucket(3, 1_000_000_000, 2);
        let at = limiter.instants(&[0; 6]);
        assert_eq!(at, [0, 0, 333_333_334, 666_666_667, 1_000_000_000, 1_333_333_334]);
    }

    #[test]
    fn a_burst_below_two_has_no_place_for_what_rounding_up_leaves_over() {
        let mut limiter = bucket(3, 10, 1);
        assert_eq!(limiter.instants(&[0; 4]), [0, 4, 8, 12]);
    }

    #[test]
    fn idling_fills_no_more_than_the_burst() {
        let mut limiter = bucket(1, 10, 2);
        assert_eq!(limiter.instants(&[0, 0, 1000, 1000, 1000]), [0, 0, 1000, 1000, 1010]);
    }

    #[test]
    fn dearer_than_the_burst_is_served_later() {
        let mut limiter = bucket(1, 2, 10);
        let items = [(0, 5), (0, 20), (30, 1), (34, 1), (34, 1)];
        assert_eq!(limiter.releases(&items), [0, 30, 32, 34, 36].map(Some));
    }

    #[test]
    fn without_a_burst_each_waits_for_its_own_tokens() {
        let mut limiter = bucket(1, 300, 0);
        assert_eq!(limiter.instants(&[100, 450]), [400, 750]);
    }

    #[test]
    fn exhausted_starts_at_nothing() {
        let mut limiter = bucket(1, 10, 3);
        limiter.exhaust(5);
        assert_eq!(limiter.instants(&[0, 5]), [15, 25]);
        // What is reported late counts as of then, and other terms keep that.
        limiter.exhaust(50);
        limiter.commit(20, one(0));
        assert_eq!(limiter.idle_at(), Time(90));
        limiter.retune(20, Terms::new(1, 10, 4));
        assert_eq!(limiter.idle_at(), Time(90));
    }

    #[test]
    fn what_is_known_only_up_to_an_instant_is_used_up_then_and_owes_as_much() {
        for (debt, idle_at) in [(0, 35), (1, 35), (5, 55)] {
            let mut limiter = bucket(1, 10, 3);
            limiter.commit(0, Ask { cost: debt, ..one(0) });
            limiter.rule.recede(&mut limiter.state, Time(5));
            assert_eq!(limiter.idle_at(), Time(idle_at), "{debt}");
        }
    }

    #[test]
    fn with_what_runs_no_more_than_the_burst_is_saved_up() {
        let limiter = bucket(1, 10, 3);
        let mut exhausted = bucket(1, 10, 3);
        exhausted.exhaust(0);
        for (running, expected) in [(1, [0, 20]), (2, [0, 30]), (3, [u64::MAX; 2]), (u64::MAX, [u64::MAX; 2])]
        {
            let at = [&limiter, &exhausted].map(|of| of.rule.earliest_during(&of.state, one(0), running).0);
            assert_eq!(at, expected, "{running}");
        }
    }

    #[test]
    fn the_largest_parameters_do_not_overflow() {
        let mut limiter = bucket(u64::MAX, u64::MAX, u64::MAX);
        let items = [(0, u64::MAX), (0, 1), (u64::MAX - 1, u64::MAX)];
        assert_eq!(limiter.releases(&items), [Some(0), Some(1), None]);
        // What is missing and what the item costs together exceed 128 bits.
        let mut limiter = bucket(u64::MAX, u64::MAX - 1, u64::MAX);
        assert_eq!(limiter.releases(&[(0, u64::MAX), (0, u64::MAX)]), [Some(0), Some(u64::MAX - 1)]);
    }

    #[test]
    fn other_terms_keep_what_is_in_it() {
        let mut limiter = bucket(1, 10, 4);
        assert_eq!(limiter.instants(&[0, 0, 0]), [0, 0, 0]);
        limiter.retune(5, Terms::new(1, 100, 2));
        assert_eq!(limiter.instants(&[5, 5]), [5, 55]);
    }

    #[test]
    fn idle_once_it_is_full() {
        let mut limiter = bucket(1, 10, 3);
        limiter.instants(&[0, 4]);
        assert_eq!(limiter.idle_at(), Time(20));
    }

    #[test]
    fn the_last_of_many_is_known_without_releasing_them() {
        let mut limiter = bucket(1, 3, 20);
        assert_eq!(limiter.last_of(0, 1, 100), Some(240));
        limiter.releases(&[(0, 7), (10, 9)]);
        for count in 0..60 {
            (1..=20).for_each(|cost| _ = limiter.last_of(15, cost, count));
        }
        let mut limiter = bucket(3, 50, 2);
        limiter.releases(&[(0, 1)]);
        (0..60).for_each(|count| (1..=5).for_each(|cost| _ = limiter.last_of(15, cost, count)));
    }

    #[test]
    fn a_count_of_0_releases_nothing_however_much_is_in_it() {
        let mut limiter = bucket(0, 10, 3);
        assert_eq!((limiter.last_of(5, 4, 2), limiter.idle_at()), (None, Time(0)));
        assert_eq!((limiter.earliest(one(5)), limiter.available(Time(5), one(5), 0)), (Time::NEVER, 0));
    }
}
