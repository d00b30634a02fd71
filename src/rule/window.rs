//! The cost in the last period, whether it was allowed or not.

use std::collections::VecDeque;

use crate::time::Time;

/// The number of instants that are kept apart, beyond those of releases that are allowed. With more, those of this part
/// of a period are taken for one.
const MAX_APART: u64 = 1 << 16;

/// The releases in the half-open window of one period that ends with the newest of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// The newest instant and the cost at it; 0 before the first release.
    newest: (Time, u64),
    /// The releases before it. `None` for most keys.
    older: Option<Box<Older>>,
}

#[derive(Clone, Debug, Default)]
struct Older {
    /// Instants with the cost at each, oldest first.
    runs: VecDeque<(Time, u64)>,
    cost: u64,
}

impl Window {
    /// The instant of the last release.
    pub(crate) fn last(&self) -> Option<Time> {
        Some(self.newest.0).filter(|_| self.newest.1 > 0)
    }

    /// Adds a release of non-zero cost. `most` are allowed in a period.
    pub(crate) fn push(&mut self, at: Time, cost: u64, period: u64, most: u64) {
        let is_over = |run: Time| at.since(run) >= period;
        let (last, before) = self.newest;
        if last == at {
            self.newest.1 = before.saturating_add(cost);
            return;
        }
        if is_over(last) {
            self.older = None;
        } else if before > 0 {
            let older = self.older.get_or_insert_default();
            older.push(last, before, period, most);
            older.expire(is_over);
        }
        self.newest = (at, cost);
    }

    pub(crate) fn cost(&self) -> u64 {
        self.newest.1.saturating_add(self.older.as_ref().map_or(0, |older| older.cost))
    }

    /// The instant of the oldest release in the window.
    pub(crate) fn start(&self) -> Time {
        let oldest = self.older.as_ref().and_then(|older| older.runs.front());
        oldest.map_or(self.newest.0, |(at, _)| *at)
    }
}

impl Older {
    fn push(&mut self, at: Time, cost: u64, period: u64, most: u64) {
        // The bound only keeps the sum of the runs within a u64.
        let cost = cost.min(u64::MAX - self.cost);
        self.cost += cost;
        // A run leaves the window with its first instant, so the window holds at least the cost that is counted.
        let is_full = self.runs.len() as u64 >= MAX_APART.saturating_add(most);
        match self.runs.back_mut().filter(|(from, _)| is_full && at.since(*from) < period / MAX_APART) {
            Some((_, run)) => *run += cost,
            None => self.runs.push_back((at, cost)),
        }
    }

    fn expire(&mut self, is_over: impl Fn(Time) -> bool) {
        while let Some((_, cost)) = self.runs.front().filter(|(at, _)| is_over(*at)) {
            self.cost -= cost;
            self.runs.pop_front();
        }
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
    fn however_many_there_are_few_instants_are_kept() {
        let period = 4_000_000;
        let mut window = Window::default();
        for at in 0..3_000_000 {
            assert_eq!(push(&mut window, at, period), at + 1);
        }
        let runs = window.older.as_ref().unwrap().runs.len() as u64;
        assert!(runs <= 2 * MAX_APART + 3, "{runs}");
        for at in [period, period + 999_999, period + 2_500_000] {
            let (count, left) = (push(&mut window, at, period), 3_000_000 - (at - period + 1));
            assert!(count <= left + 3 && count + period / MAX_APART > left, "{count} of {left}");
        }
    }
}
