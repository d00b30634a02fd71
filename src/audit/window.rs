//! What was released in the last period, whether that was allowed or not.

use std::collections::VecDeque;

use crate::time::Time;

/// So many runs are kept in full; beyond that, those which no verdict depends on are merged.
const MOST_RUNS: usize = 1 << 20;

/// Releases in the half-open window of one period that ends with the newest one.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Instants with the cost at each, oldest first.
    runs: VecDeque<(Time, u64)>,
    cost: u64,
    /// Of the runs, so many have to leave the window before the newest is allowed.
    over: usize,
    /// What the runs after these cost.
    kept: u64,
}

impl Window {
    /// Adds a release and returns how much is in the window now.
    pub(super) fn push(&mut self, at: Time, cost: u64, period: u64, count: u64) -> u64 {
        while let Some(&(oldest, cost)) = self.runs.front().filter(|(run, _)| at.since(*run) >= period) {
            debug_assert!(oldest <= at);
            self.runs.pop_front();
            self.cost -= cost;
            match self.over {
                0 => self.kept -= cost,
                _ => self.over -= 1,
            }
        }
        match self.runs.back_mut().filter(|(newest, _)| *newest == at) {
            Some((_, newest)) => *newest = newest.saturating_add(cost),
            None => self.runs.push_back((at, cost)),
        }
        self.cost = self.cost.saturating_add(cost);
        self.kept = self.kept.saturating_add(cost);
        while self.kept > count && self.over < self.runs.len() {
            self.kept -= self.runs[self.over].1;
            self.over += 1;
        }
        if self.over > MOST_RUNS {
            self.merge();
        }
        self.cost
    }

    /// The newest release that has to leave the window before the last one is allowed, if any.
    pub(super) fn obstacle(&self) -> Option<Time> {
        self.over.checked_sub(1).map(|last| self.runs[last].0)
    }

    /// When the oldest release in the window was.
    pub(super) fn start(&self) -> Time {
        self.runs.front().map_or(Time::ZERO, |(at, _)| *at)
    }

    /// Merges each two of the runs that no verdict depends on. They leave the window with the older one, so it holds at least
    /// what it says.
    fn merge(&mut self) {
        let free = self.over - 1;
        let mut merged = VecDeque::with_capacity(self.runs.len() - free / 2);
        let mut runs = self.runs.drain(..);
        for _ in 0..free / 2 {
            let pair = runs.next().zip(runs.next());
            merged.extend(pair.map(|((at, one), (_, other))| (at, one.saturating_add(other))));
        }
        merged.extend(runs);
        self.over -= free / 2;
        self.runs = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_half_open() {
        let mut window = Window::default();
        let counts: Vec<_> = [0, 5, 9, 10, 14].map(|at| window.push(Time(at), 1, 10, 2)).into();
        assert_eq!(counts, [1, 2, 3, 3, 4]);
        assert_eq!((window.start(), window.obstacle()), (Time(5), Some(Time(9))));
    }

    #[test]
    fn what_is_merged_changes_no_verdict_and_no_count_before_it_leaves() {
        let period = 4_000_000;
        let mut window = Window::default();
        for at in 0..3_000_000 {
            assert_eq!(window.push(Time(at), 1, period, 3), at + 1);
            assert_eq!(window.obstacle(), at.checked_sub(3).map(Time));
        }
        assert!(window.runs.len() <= MOST_RUNS + 3, "{}", window.runs.len());
        let left = window.push(Time(period + 1_000_000), 1, period, 3);
        assert!(left <= 2_000_000 && left > 1_900_000, "{left}");
    }
}
