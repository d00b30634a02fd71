//! The fixed window counter.

use super::{Ask, Limiter, Terms, Verdict};
use crate::time::Time;

/// At most `count` in each of its own windows of length `period`.
///
/// A window starts at the first release after the previous one ended. The guarantee is weak: two windows
/// that touch let up to `2·count` through within less than one period.
#[derive(Clone, Debug)]
pub struct Fixed {
    count: u64,
    period: u64,
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Time,
    used: u64,
}

impl Fixed {
    /// With no history.
    pub fn new(terms: Terms) -> Self {
        Fixed { count: terms.count, period: terms.period, window: None }
    }

    fn window(&self, now: Time) -> Option<Window> {
        self.window.filter(|window| now.since(window.start) < self.period)
    }
}

impl Limiter for Fixed {
    fn earliest(&self, ask: &Ask) -> Verdict {
        if ask.cost > self.count {
            return Verdict::Never;
        }
        match self.window(ask.since) {
            Some(window) if window.used > self.count - ask.cost => Verdict::after(window.start, self.period),
            _ => Verdict::At(ask.since),
        }
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        let used = self.window(now).map_or(0, |window| window.used);
        self.count.saturating_sub(used) / ask.cost
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        let window = self.window(now).unwrap_or(Window { start: now, used: 0 });
        self.window = Some(Window { used: window.used.saturating_add(ask.cost), ..window });
    }

    fn settled(&self) -> Verdict {
        self.window.map_or(Verdict::At(Time::ZERO), |window| Verdict::after(window.start, self.period))
    }

    fn drain(&mut self, at: Time) {
        self.window = Some(Window { start: at, used: self.count });
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        // A window that is over must not come back to life under a longer period.
        self.window = self.window(now);
        (self.count, self.period) = (terms.count, terms.period);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{instants, releases, terms};
    use super::*;

    #[test]
    fn a_window_starts_at_the_first_release_after_the_last_one() {
        let mut limiter = Fixed::new(terms(2, 10));
        assert_eq!(instants(&mut limiter, &[3, 4, 5, 40, 49, 49]), [3, 4, 13, 40, 49, 50]);
    }

    #[test]
    fn the_weak_guarantee_lets_nearly_twice_the_count_through_at_a_boundary() {
        let mut limiter = Fixed::new(terms(3, 1000));
        let arrivals = [0, 900, 900, 1050, 1050, 1050];
        assert_eq!(instants(&mut limiter, &arrivals), arrivals);
    }

    #[test]
    fn a_cost_that_does_not_fit_waits_for_the_next_window() {
        let mut limiter = Fixed::new(terms(5, 10));
        let items = [(0, 3), (1, 3), (11, 2), (12, 6), (12, 1)];
        assert_eq!(releases(&mut limiter, &items), [Some(0), Some(10), Some(11), None, Some(20)]);
    }

    #[test]
    fn drained_is_silent_for_one_period() {
        let mut limiter = Fixed::new(terms(2, 10));
        limiter.drain(Time(5));
        assert_eq!(instants(&mut limiter, &[6, 6, 6]), [15, 15, 25]);
    }

    #[test]
    fn other_terms_keep_the_window() {
        let mut limiter = Fixed::new(terms(2, 10));
        assert_eq!(instants(&mut limiter, &[0, 1]), [0, 1]);
        limiter.retune(Time(2), terms(3, 20));
        assert_eq!(instants(&mut limiter, &[2, 3]), [2, 20]);
        limiter.retune(Time(40), terms(3, 100));
        assert_eq!(limiter.settled(), Verdict::At(Time(0)));
    }
}
