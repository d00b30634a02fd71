//! The token bucket (Turner 1986, as the "leaky bucket as a meter"), with continuous exact refill.

use super::{Ask, Limiter, Terms, Verdict};
use crate::time::Time;

/// Bursts of up to `burst`, then `count` per `period`: at most `burst + count·W/period` in any window W.
///
/// The level is kept in *grains*: one unit of cost is `period` grains, and `count` grains accrue each
/// nanosecond. So the refill is exact for any rate, with no fraction to lose.
///
/// While an item dearer than `burst` waits, the cap is its cost instead, so that it is served, later.
#[derive(Clone, Debug)]
pub struct Bucket {
    terms: Terms,
    /// Grains at the instant `at`.
    level: u128,
    at: Time,
}

impl Bucket {
    /// Full.
    pub fn new(terms: Terms) -> Self {
        let mut bucket = Bucket { terms, level: 0, at: Time::ZERO };
        bucket.level = bucket.grains(terms.burst);
        bucket
    }

    fn grains(&self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.terms.period)
    }

    fn accrued(&self, level: u128, nanos: u64, cap: u64) -> u128 {
        let sum = level.saturating_add(u128::from(self.terms.count) * u128::from(nanos));
        sum.min(self.grains(cap))
    }

    /// The level at `now`, while `ask` has been waiting since it became next in line.
    fn level(&self, now: Time, ask: &Ask) -> u128 {
        let since = ask.since.max(self.at);
        let level = self.accrued(self.level, since.since(self.at), self.terms.burst);
        match now.since(since) {
            0 => level,
            waited => self.accrued(level, waited, self.terms.burst.max(ask.cost)),
        }
    }

    /// When `lacking` grains will have accrued, from `at` on.
    fn after(&self, at: Time, lacking: u128) -> Verdict {
        match u128::from(self.terms.count) {
            _ if lacking == 0 => Verdict::At(at),
            0 => Verdict::Never,
            count => Verdict::after(at, lacking.div_ceil(count)),
        }
    }
}

impl Limiter for Bucket {
    fn earliest(&self, ask: &Ask) -> Verdict {
        if self.terms.count == 0 {
            return Verdict::Never;
        }
        let since = ask.since.max(self.at);
        self.after(since, self.grains(ask.cost).saturating_sub(self.level(since, ask)))
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        if self.terms.count == 0 {
            return 0;
        }
        let releases = self.level(now, ask) / self.grains(ask.cost);
        u64::try_from(releases).unwrap_or(u64::MAX)
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        let now = now.max(self.at);
        self.level = self.level(now, ask).saturating_sub(self.grains(ask.cost));
        self.at = now;
    }

    fn settled(&self) -> Verdict {
        self.after(self.at, self.grains(self.terms.burst).saturating_sub(self.level))
    }

    fn drain(&mut self, at: Time) {
        self.level = 0;
        self.at = at;
    }

    fn minds_since(&self, cost: u64) -> bool {
        cost > self.terms.burst
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        let now = now.max(self.at);
        let level = self.accrued(self.level, now.since(self.at), self.terms.burst);
        // What is in the bucket stays in it: whole units exactly, and the rest of one rounded down.
        let (units, rest) = (level / self.grains(1), level % self.grains(1));
        let rest = rest * u128::from(terms.period) / self.grains(1);
        // A pause is no smaller bucket.
        let burst = if terms.count == 0 { self.terms.burst } else { terms.burst };
        (self.terms, self.at) = (Terms { burst, ..terms }, now);
        self.level = (units * self.grains(1) + rest).min(self.grains(burst));
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{instants, one, releases};
    use super::*;

    fn bucket(count: u64, period: u64, burst: u64) -> Bucket {
        Bucket::new(Terms { count, period, burst })
    }

    #[test]
    fn starts_full_then_keeps_the_rate() {
        let mut limiter = bucket(1, 10, 3);
        assert_eq!(instants(&mut limiter, &[0, 0, 0, 0, 0]), [0, 0, 0, 10, 20]);
    }

    #[test]
    fn three_a_second_is_three_a_second() {
        let mut limiter = bucket(3, 1_000_000_000, 2);
        let at = instants(&mut limiter, &[0; 6]);
        assert_eq!(at, [0, 0, 333_333_334, 666_666_667, 1_000_000_000, 1_333_333_334]);
    }

    #[test]
    fn a_burst_below_two_has_no_place_for_what_rounding_up_leaves_over() {
        let mut limiter = bucket(3, 10, 1);
        assert_eq!(instants(&mut limiter, &[0; 4]), [0, 4, 8, 12]);
    }

    #[test]
    fn idling_fills_no_more_than_the_burst() {
        let mut limiter = bucket(1, 10, 2);
        assert_eq!(instants(&mut limiter, &[0, 0, 1000, 1000, 1000]), [0, 0, 1000, 1000, 1010]);
    }

    #[test]
    fn dearer_than_the_burst_is_served_later() {
        let mut limiter = bucket(1, 2, 10);
        let items = [(0, 5), (0, 20), (30, 1), (34, 1), (34, 1)];
        assert_eq!(releases(&mut limiter, &items), [0, 30, 32, 34, 36].map(Some));
    }

    #[test]
    fn without_a_burst_each_waits_for_its_own_tokens() {
        let mut limiter = bucket(1, 300, 0);
        assert_eq!(instants(&mut limiter, &[100, 450]), [400, 750]);
    }

    #[test]
    fn drained_starts_at_nothing() {
        let mut limiter = bucket(1, 10, 3);
        limiter.drain(Time(5));
        assert_eq!(instants(&mut limiter, &[5, 5]), [15, 25]);
    }

    #[test]
    fn the_largest_parameters_do_not_overflow() {
        let mut limiter = bucket(u64::MAX, u64::MAX, u64::MAX);
        let items = [(0, u64::MAX), (0, 1), (u64::MAX - 1, u64::MAX)];
        assert_eq!(releases(&mut limiter, &items), [Some(0), Some(1), None]);
    }

    #[test]
    fn other_terms_keep_what_is_in_it() {
        let mut limiter = bucket(1, 10, 4);
        assert_eq!(instants(&mut limiter, &[0, 0, 0]), [0, 0, 0]);
        limiter.retune(Time(5), Terms { count: 1, period: 100, burst: 2 });
        assert_eq!(instants(&mut limiter, &[5, 5]), [5, 55]);
        limiter.retune(Time(55), Terms { count: 0, period: 1, burst: 0 });
        assert_eq!(releases(&mut limiter, &[(60, 1)]), [None]);
        assert_eq!(limiter.terms.burst, 2);
    }

    #[test]
    fn settled_once_it_is_full() {
        let mut limiter = bucket(1, 10, 3);
        instants(&mut limiter, &[0, 4]);
        assert_eq!(limiter.settled(), Verdict::At(Time(20)));
    }

    #[test]
    fn a_pause_holds_back_what_is_in_it() {
        let mut limiter = bucket(1, 10, 3);
        limiter.retune(Time(0), Terms { count: 0, period: 1, burst: 0 });
        assert_eq!((limiter.earliest(&one(5)), limiter.room(Time(5), &one(5))), (Verdict::Never, 0));
        assert_eq!(limiter.settled(), Verdict::At(Time(0)), "it is full");
        limiter.retune(Time(7), Terms { count: 1, period: 10, burst: 3 });
        assert_eq!(instants(&mut limiter, &[7, 7, 7, 7]), [7, 7, 7, 17]);
        limiter.retune(Time(18), Terms { count: 0, period: 1, burst: 0 });
        assert_eq!(limiter.settled(), Verdict::Never);
    }

    #[test]
    fn only_what_is_dearer_than_the_burst_minds_how_long_it_waits() {
        let limiter = bucket(1, 10, 3);
        assert_eq!([1, 3, 4].map(|cost| limiter.minds_since(cost)), [false, false, true]);
    }
}
