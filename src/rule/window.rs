//! The cost in the last period, whether it was allowed or not.

use super::Usage;
use super::release_log::ReleaseLog;
use crate::time::Time;

/// The number of instants that are kept apart, beyond those of releases that are allowed. With more, those of this part
/// of a period are taken for one.
const MAX_APART: u64 = 1 << 16;

/// The releases in the half-open window of one period that ends with the newest of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window(ReleaseLog);

impl Window {
    /// The instant of the last release.
    pub(crate) fn last(&self) -> Option<Time> {
        Some(self.0.newest()).filter(|newest| newest.cost > 0).map(|newest| newest.at)
    }

    /// Adds a release of non-zero cost. `most` are allowed in a period.
    pub(crate) fn push(&mut self, at: Time, cost: u64, period: u64, most: u64) {
        let Window(log) = self;
        let newest = log.newest();
        if newest.cost > 0 && newest.at == at {
            let cost = newest.cost + cost.min(u64::MAX - log.used());
            log.replace_newest(Usage { at, cost });
            return;
        }
        log.expire(|run| at.since(run.at) >= period);
        if log.len() as u64 > MAX_APART.saturating_add(most) {
            log.merge_newest(period / MAX_APART);
        }
        // The bound only keeps the sum within a u64.
        let cost = cost.min(u64::MAX - log.used());
        if cost > 0 {
            log.push(Usage { at, cost });
        }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.0.used()
    }

    /// The instant of the oldest release in the window.
    pub(crate) fn start(&self) -> Time {
        self.0.oldest().unwrap_or_default().at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(window: &mut Window, at: u64, period: u64) -> u64 {
        window.push(Time(at), 1, period, 3);
        window.cost()
    }

    #[test]
    fn the_window_is_half_open() {
        let mut window = Window::default();
        assert_eq!(window.last(), None);
        let counts = [0, 5, 9, 10, 14, 14, 24].map(|at| push(&mut window, at, 10));
        assert_eq!(counts, [1, 2, 3, 3, 4, 5, 1]);
        assert_eq!((window.start(), window.last()), (Time(24), Some(Time(24))));
    }

    #[test]
    fn the_sum_stays_within_a_u64_and_forgets_nothing_of_the_past() {
        let mut window = Window::default();
        let mut push = |at, cost| {
            window.push(Time(at), cost, 10, 3);
            (window.cost(), window.start())
        };
        assert_eq!(push(0, u64::MAX - 1), (u64::MAX - 1, Time(0)));
        assert_eq!([push(1, 5), push(1, 5), push(9, 7)], [(u64::MAX, Time(0)); 3]);
        assert_eq!(push(10, 7), (8, Time(1)));
    }

    #[test]
    fn however_many_there_are_few_instants_are_kept() {
        let period = 4_000_000;
        let mut window = Window::default();
        for at in 0..3_000_000 {
            assert_eq!(push(&mut window, at, period), at + 1);
        }
        let runs = window.0.len() as u64;
        assert!(runs <= 2 * MAX_APART + 3, "{runs}");
        for at in [period, period + 999_999, period + 2_500_000] {
            let (count, left) = (push(&mut window, at, period), 3_000_000 - (at - period + 1));
            assert!(count <= left + 3 && count + period / MAX_APART > left, "{count} of {left}");
        }
    }
}
