//! The token bucket (Turner 1986, as the "leaky bucket as a meter"), with continuous exact refill.

use super::{Ask, Limiter, Verdict};
use crate::time::Time;

/// Bursts of up to `burst`, then `count` per `period`: at most `burst + count·W/period` in any window W.
///
/// The level is kept in *grains*: one unit of cost is `period` grains, and `count` grains accrue each
/// nanosecond. So the refill is exact for any rate, with no fraction to lose.
///
/// While an item dearer than `burst` waits, the cap is its cost instead, so that it is served, later.
#[derive(Clone, Debug)]
pub struct Bucket {
    count: u64,
    period: u64,
    burst: u64,
    /// Grains at the instant `at`.
    level: u128,
    at: Time,
}

impl Bucket {
    /// A full bucket of `burst` that refills with `count` per `period` nanoseconds. `count` is not 0.
    pub fn new(count: u64, period: u64, burst: u64) -> Self {
        let mut bucket = Bucket { count, period, burst, level: 0, at: Time::ZERO };
        bucket.level = bucket.grains(burst);
        bucket
    }

    fn grains(&self, cost: u64) -> u128 {
        u128::from(cost) * u128::from(self.period)
    }

    fn accrued(&self, level: u128, nanos: u64, cap: u64) -> u128 {
        let sum = level.saturating_add(u128::from(self.count) * u128::from(nanos));
        sum.min(self.grains(cap))
    }

    /// The level at `now`, while `ask` has been waiting since it became next in line.
    fn level(&self, now: Time, ask: &Ask) -> u128 {
        let since = ask.since.max(self.at);
        let level = self.accrued(self.level, since.since(self.at), self.burst);
        self.accrued(level, now.since(since), self.burst.max(ask.cost))
    }
}

impl Limiter for Bucket {
    fn earliest(&self, ask: &Ask) -> Verdict {
        let since = ask.since.max(self.at);
        let lacking = self.grains(ask.cost).saturating_sub(self.level(since, ask));
        Verdict::after(since, lacking.div_ceil(u128::from(self.count)))
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        let releases = self.level(now, ask) / self.grains(ask.cost);
        u64::try_from(releases).unwrap_or(u64::MAX)
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        let now = now.max(self.at);
        self.level = self.level(now, ask).saturating_sub(self.grains(ask.cost));
        self.at = now;
    }

    fn drain(&mut self, at: Time) {
        self.level = 0;
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{instants, releases};
    use super::*;

    #[test]
    fn starts_full_then_keeps_the_rate() {
        let mut limiter = Bucket::new(1, 10, 3);
        assert_eq!(instants(&mut limiter, &[0, 0, 0, 0, 0]), [0, 0, 0, 10, 20]);
    }

    #[test]
    fn three_a_second_is_three_a_second() {
        let mut limiter = Bucket::new(3, 1_000_000_000, 2);
        let at = instants(&mut limiter, &[0; 6]);
        assert_eq!(at, [0, 0, 333_333_334, 666_666_667, 1_000_000_000, 1_333_333_334]);
    }

    #[test]
    fn a_burst_below_two_has_no_place_for_what_rounding_up_leaves_over() {
        let mut limiter = Bucket::new(3, 10, 1);
        assert_eq!(instants(&mut limiter, &[0; 4]), [0, 4, 8, 12]);
    }

    #[test]
    fn idling_fills_no_more_than_the_burst() {
        let mut limiter = Bucket::new(1, 10, 2);
        assert_eq!(instants(&mut limiter, &[0, 0, 1000, 1000, 1000]), [0, 0, 1000, 1000, 1010]);
    }

    #[test]
    fn dearer_than_the_burst_is_served_later() {
        let mut limiter = Bucket::new(1, 2, 10);
        let items = [(0, 5), (0, 20), (30, 1), (34, 1), (34, 1)];
        assert_eq!(releases(&mut limiter, &items), [0, 30, 32, 34, 36].map(Some));
    }

    #[test]
    fn without_a_burst_each_waits_for_its_own_tokens() {
        let mut limiter = Bucket::new(1, 300, 0);
        assert_eq!(instants(&mut limiter, &[100, 450]), [400, 750]);
    }

    #[test]
    fn drained_starts_at_nothing() {
        let mut limiter = Bucket::new(1, 10, 3);
        limiter.drain(Time(5));
        assert_eq!(instants(&mut limiter, &[5, 5]), [15, 25]);
    }

    #[test]
    fn the_largest_parameters_do_not_overflow() {
        let mut limiter = Bucket::new(u64::MAX, u64::MAX, u64::MAX);
        let items = [(0, u64::MAX), (0, 1), (u64::MAX - 1, u64::MAX)];
        assert_eq!(releases(&mut limiter, &items), [Some(0), Some(1), None]);
    }
}
