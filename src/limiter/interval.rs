//! The minimum gap, also known as pacing or GCRA with no tolerance.

use super::{Ask, Limiter, Verdict};
use crate::time::Time;

/// Consecutive releases at least `period/count` apart, for each unit of cost.
///
/// The gap is measured from the release that really happened: lateness is never made up for.
#[derive(Clone, Debug)]
pub struct Interval {
    count: u64,
    period: u64,
    next: Verdict,
}

impl Interval {
    /// A gap of `period/count` nanoseconds, rounded up. `count` is not 0.
    pub fn new(count: u64, period: u64) -> Self {
        Interval { count, period, next: Verdict::At(Time::ZERO) }
    }

    fn gap(&self, cost: u64) -> u128 {
        (u128::from(cost) * u128::from(self.period)).div_ceil(u128::from(self.count))
    }
}

impl Limiter for Interval {
    fn earliest(&self, ask: &Ask) -> Verdict {
        self.next.max(Verdict::At(ask.since))
    }

    fn room(&self, now: Time, _: &Ask) -> u64 {
        u64::from(self.next.allows(now))
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        self.next = Verdict::after(now, self.gap(ask.cost));
    }

    fn drain(&mut self, at: Time) {
        self.commit(at, &Ask { since: at, cost: 1 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{instants, releases};
    use super::*;

    #[test]
    fn the_first_is_immediate_and_the_rest_keep_the_gap() {
        let mut limiter = Interval::new(2, 20);
        assert_eq!(instants(&mut limiter, &[3, 3, 14, 50, 51]), [3, 13, 23, 50, 60]);
    }

    #[test]
    fn the_gap_is_rounded_up() {
        let mut limiter = Interval::new(3, 10);
        assert_eq!(instants(&mut limiter, &[0, 0, 0]), [0, 4, 8]);
    }

    #[test]
    fn a_dear_release_makes_the_next_wait_longer() {
        let mut limiter = Interval::new(1, 10);
        assert_eq!(releases(&mut limiter, &[(0, 5), (0, 1), (0, 1)]), [0, 50, 60].map(Some));
    }

    #[test]
    fn drained_waits_one_gap() {
        let mut limiter = Interval::new(1, 10);
        limiter.drain(Time(5));
        assert_eq!(instants(&mut limiter, &[5, 5]), [15, 25]);
    }

    #[test]
    fn past_the_end_of_time_is_never() {
        let mut limiter = Interval::new(1, u64::MAX);
        assert_eq!(releases(&mut limiter, &[(1, 1), (1, 1)]), [Some(1), None]);
    }
}
