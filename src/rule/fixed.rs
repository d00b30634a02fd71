//! The fixed window counter.

use super::{Ask, Rule, Spec, Terms};
use crate::time::Time;

/// At most `count` in each of its own windows of length `period`.
///
/// A window starts at the first release after the previous one ended. The guarantee is weak: two adjacent windows let
/// up to `2·count` through in less than one period.
#[derive(Clone, Debug)]
pub struct Fixed {
    count: u64,
    period: u64,
    late: u64,
}

/// The last window: the instant of its first release, and the cost of all releases in it. There was none if that is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
pub struct FixedWindow {
    at: Time,
    used: u64,
}

impl Fixed {
    fn current(&self, window: FixedWindow, now: Time) -> Option<FixedWindow> {
        (window.used > 0 && now.since(window.at) < self.period).then_some(window)
    }
}

impl Rule for Fixed {
    const SPEC: Spec = Spec {
        name: "fixed",
        help: "At most N in each of its own windows, so up to 2N around a\n\
               boundary. The cheapest, and rarely the right one.",
        takes: &[],
        accrues: false,
        burst: |terms| terms.count,
        max_per_window: |terms| terms.count.saturating_mul(2),
        check: |_| Ok(()),
    };

    type State = FixedWindow;

    fn new(terms: Terms) -> Self {
        Fixed { count: terms.count, period: terms.period, late: terms.late }
    }

    fn earliest(&self, window: &FixedWindow, ask: Ask) -> Time {
        if ask.cost > self.count {
            return Time::NEVER;
        }
        let is_full = |window: &FixedWindow| window.used > self.count - ask.cost;
        // A release must be in its window even if it is late.
        let is_over =
            |window: &FixedWindow| ask.eligible_at.saturating_add(self.late).since(window.at) >= self.period;
        match self.current(*window, ask.eligible_at) {
            Some(window) if is_full(&window) || is_over(&window) => window.at.after(self.period),
            _ => ask.eligible_at,
        }
    }

    fn available(&self, window: &FixedWindow, now: Time, ask: Ask, pending: u64) -> u64 {
        let used = self.current(*window, now).map_or(0, |window| window.used);
        self.count.saturating_sub(used).saturating_sub(pending) / ask.cost
    }

    fn last_of(&self, window: &FixedWindow, ask: Ask, count: u64) -> Time {
        let more = count.saturating_sub(self.available(window, ask.eligible_at, ask, 0));
        let start = self.current(*window, ask.eligible_at).map_or(ask.eligible_at, |window| window.at);
        match (more, self.count / ask.cost) {
            (0, _) => ask.eligible_at,
            (_, 0) => Time::NEVER,
            (_, together) => start.after(u128::from(more.div_ceil(together)) * u128::from(self.period)),
        }
    }

    fn commit(&self, window: &mut FixedWindow, now: Time, ask: Ask) {
        let current = self.current(*window, now).unwrap_or(FixedWindow { at: now, used: 0 });
        *window = FixedWindow { used: current.used.saturating_add(ask.cost), ..current };
    }

    fn idle_at(&self, window: &FixedWindow) -> Time {
        match window.used {
            0 => Time::ZERO,
            _ => window.at.after(self.period),
        }
    }

    fn exhaust(&self, window: &mut FixedWindow, at: Time) {
        // By other terms, more than the count may have been released in it.
        let used = self.current(*window, at).map_or(0, |window| window.used);
        *window = FixedWindow { at, used: used.max(self.count) };
    }

    fn restart(&self, window: &mut FixedWindow) {
        window.at = Time::ZERO;
    }

    fn memory(&self) -> Option<u64> {
        Some(self.period)
    }

    /// A longer period may include releases from before the last window, which are not known.
    fn carry_over(&self, window: &mut FixedWindow, new: &Self, now: Time, forgotten: Option<Time>) {
        let current = self.current(*window, now);
        *window = match (forgotten.filter(|at| now.since(*at) < new.period), current) {
            (None, current) => current.unwrap_or_default(),
            // One that is over may be older than what was forgotten, as that of a key that was evicted.
            (Some(at), None) => FixedWindow { at, used: new.count },
            (Some(_), Some(window)) => FixedWindow { used: window.used.max(new.count), ..window },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Stateful, terms};
    use super::*;

    #[test]
    fn a_window_starts_at_the_first_release_after_the_last_one() {
        let mut limiter = Stateful::new(Fixed::new(terms(2, 10)));
        assert_eq!(limiter.instants(&[3, 4, 5, 40, 49, 49]), [3, 4, 13, 40, 49, 50]);
    }

    #[test]
    fn the_weak_guarantee_lets_nearly_twice_the_count_through_at_a_boundary() {
        let mut limiter = Stateful::new(Fixed::new(terms(3, 1000)));
        let arrivals = [0, 900, 900, 1050, 1050, 1050];
        assert_eq!(limiter.instants(&arrivals), arrivals);
    }

    #[test]
    fn a_cost_that_does_not_fit_waits_for_the_next_window() {
        let mut limiter = Stateful::new(Fixed::new(terms(5, 10)));
        let items = [(0, 3), (1, 3), (11, 2), (12, 6), (12, 1)];
        assert_eq!(limiter.releases(&items), [Some(0), Some(10), Some(11), None, Some(20)]);
    }

    #[test]
    fn exhausted_it_has_not_used_less_than_before() {
        let mut limiter = Stateful::new(Fixed::new(terms(3, 10)));
        limiter.instants(&[5, 5, 5]);
        limiter.retune(6, terms(1, 10));
        limiter.exhaust(6);
        limiter.retune(7, terms(3, 10));
        assert_eq!(limiter.instants(&[7]), [16]);
    }

    #[test]
    fn exhausted_is_silent_for_one_period() {
        let mut limiter = Stateful::new(Fixed::new(terms(2, 10)));
        limiter.exhaust(5);
        assert_eq!(limiter.instants(&[6, 6, 6]), [15, 15, 25]);
    }

    #[test]
    fn other_terms_keep_the_window() {
        let mut limiter = Stateful::new(Fixed::new(terms(2, 10)));
        assert_eq!(limiter.instants(&[0, 1]), [0, 1]);
        limiter.retune(2, terms(3, 20));
        assert_eq!(limiter.instants(&[2, 3]), [2, 20]);
        // With a longer period, the window that began at 20 would have begun earlier.
        limiter.retune_after(Some(20), 40, terms(4, 30));
        assert_eq!(limiter.instants(&[40]), [50]);
        limiter.retune_after(Some(60), 90, terms(4, 30));
        assert_eq!(limiter.idle_at(), Time(0));
    }

    #[test]
    fn a_longer_period_takes_what_is_not_known_as_used() {
        let mut limiter = Stateful::new(Fixed::new(terms(2, 10)));
        limiter.retune_after(Some(7), 17, terms(3, 20));
        assert_eq!(limiter.instants(&[17]), [27]);
        // All of the present window, and no less than is known of it.
        for counts in [[1, 3], [4, 4]] {
            let mut limiter = Stateful::new(Fixed::new(terms(3, 10)));
            limiter.instants(&[1, 1, 1]);
            limiter.retune_after(Some(0), 5, terms(counts[0], 20));
            limiter.retune(6, terms(counts[1], 20));
            assert_eq!(limiter.instants(&[6]), [21]);
        }
    }

    #[test]
    fn the_last_of_many_is_known_without_releasing_them() {
        let mut limiter = Stateful::new(Fixed::new(terms(20, 60)));
        assert_eq!(limiter.last_of(0, 1, 100), Some(240));
        limiter.releases(&[(0, 7), (10, 9)]);
        for count in 0..60 {
            (1..=20).for_each(|cost| _ = limiter.last_of(15, cost, count));
        }
        assert_eq!(limiter.last_of(15, 21, 1), None);
    }
}
