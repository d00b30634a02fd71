//! The minimum gap, also known as pacing or GCRA with no tolerance.

use super::{Ask, Limiter, Terms, Verdict};
use crate::time::Time;

/// Consecutive releases at least `period/count` apart, for each unit of cost.
///
/// The gap is measured from the release that really happened: lateness is never made up for.
#[derive(Clone, Debug)]
pub struct Interval {
    count: u64,
    period: u64,
    /// The gap after a cost of 1, which is most often asked for.
    gap: u64,
    /// The last release and its cost.
    last: Option<(Time, u64)>,
}

impl Interval {
    /// With no history.
    pub fn new(terms: Terms) -> Self {
        let Terms { count, period, .. } = terms;
        Interval { count, period, gap: period.div_ceil(count.max(1)), last: None }
    }

    /// When the gap after the last release, rounded up, is over.
    fn next(&self) -> Verdict {
        let Some((last, cost)) = self.last else { return Verdict::At(Time::ZERO) };
        match (u128::from(self.count), cost) {
            (0, _) => Verdict::Never,
            (_, 1) => Verdict::after(last, self.gap),
            (count, _) => Verdict::after(last, (u128::from(cost) * u128::from(self.period)).div_ceil(count)),
        }
    }
}

impl Limiter for Interval {
    fn earliest(&self, ask: &Ask) -> Verdict {
        match self.count {
            0 => Verdict::Never,
            _ => self.next().max(Verdict::At(ask.since)),
        }
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        u64::from(self.earliest(ask).allows(now))
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        self.last = Some((now, ask.cost));
    }

    fn settled(&self) -> Verdict {
        self.next()
    }

    fn drain(&mut self, at: Time) {
        self.last = Some((at, 1));
    }

    fn retune(&mut self, _: Time, terms: Terms) {
        *self = Interval { last: self.last, ..Interval::new(terms) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{instants, releases, terms};
    use super::*;

    #[test]
    fn the_first_is_immediate_and_the_rest_keep_the_gap() {
        let mut limiter = Interval::new(terms(2, 20));
        assert_eq!(instants(&mut limiter, &[3, 3, 14, 50, 51]), [3, 13, 23, 50, 60]);
    }

    #[test]
    fn the_gap_is_rounded_up() {
        let mut limiter = Interval::new(terms(3, 10));
        assert_eq!(instants(&mut limiter, &[0, 0, 0]), [0, 4, 8]);
    }

    #[test]
    fn a_dear_release_makes_the_next_wait_longer() {
        let mut limiter = Interval::new(terms(1, 10));
        assert_eq!(releases(&mut limiter, &[(0, 5), (0, 1), (0, 1)]), [0, 50, 60].map(Some));
    }

    #[test]
    fn drained_waits_one_gap() {
        let mut limiter = Interval::new(terms(1, 10));
        limiter.drain(Time(5));
        assert_eq!(instants(&mut limiter, &[5, 5]), [15, 25]);
    }

    #[test]
    fn past_the_end_of_time_is_never() {
        let mut limiter = Interval::new(terms(1, u64::MAX));
        assert_eq!(releases(&mut limiter, &[(1, 1), (1, 1)]), [Some(1), None]);
    }

    #[test]
    fn other_terms_measure_from_the_last_release() {
        let mut limiter = Interval::new(terms(1, 10));
        assert_eq!(instants(&mut limiter, &[0]), [0]);
        limiter.retune(Time(3), terms(1, 100));
        assert_eq!(limiter.settled(), Verdict::At(Time(100)));
        limiter.retune(Time(4), terms(0, 1));
        assert_eq!(releases(&mut limiter, &[(4, 1)]), [None]);
        limiter.retune(Time(5), terms(2, 10));
        assert_eq!(instants(&mut limiter, &[5]), [5]);
    }

    #[test]
    fn a_count_of_0_releases_nothing_even_at_first() {
        assert_eq!(releases(&mut Interval::new(terms(0, 10)), &[(4, 1)]), [None]);
    }
}
