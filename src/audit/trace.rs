//! A history to draw, in a bounded number of steps, however long it is.

use crate::time::Time;

/// The most steps that are kept; if there would be more, pairs of them are merged.
const MAX_STEPS: u64 = 512;

/// Steps of equal length; those without releases are left out.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) start: Time,
    /// The total cost before the start.
    pub(crate) before: u128,
    /// The length of a step in nanoseconds.
    pub(crate) length: u64,
    /// In order.
    pub(crate) steps: Vec<Step>,
}

/// The releases in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The number of lengths from the start.
    pub(crate) index: u64,
    /// The total cost by the end of the step.
    pub(crate) total: u128,
    /// The highest cost in a period that ends with one of its releases.
    pub(crate) window: u64,
    pub(crate) violations: u64,
}

impl Trace {
    /// A history that starts at `start`, with the total cost `before` that.
    pub(crate) fn new(start: Time, before: u128) -> Self {
        Trace { start, before, length: 1, steps: Vec::new() }
    }

    /// Adds a release at `at`; `window` is the cost in the period that ends with it. Instants must not decrease.
    pub(crate) fn push(&mut self, at: Time, cost: u64, window: u64, is_early: bool) {
        let (total, violations) = (self.total() + u128::from(cost), u64::from(is_early));
        let mut index = at.since(self.start) / self.length;
        while index >= MAX_STEPS {
            self.halve();
            index /= 2;
        }
        let step = Step { index, total, window, violations };
        if !self.steps.last_mut().is_some_and(|last| last.absorb(&step)) {
            self.steps.push(step);
        }
    }

    /// The total cost.
    pub(crate) fn total(&self) -> u128 {
        self.steps.last().map_or(self.before, |last| last.total)
    }

    /// A copy whose steps are long enough for at most `MAX_STEPS` of them to reach `end`.
    pub(crate) fn reaching(&self, end: Time) -> Trace {
        let mut trace = self.clone();
        while end.since(trace.start) / trace.length >= MAX_STEPS {
            trace.halve();
        }
        trace
    }

    fn halve(&mut self) {
        self.length *= 2;
        self.steps.iter_mut().for_each(|step| step.index /= 2);
        self.steps.dedup_by(|later, earlier| earlier.absorb(later));
    }
}

impl Step {
    /// Merges a later step into this one if it has the same index. Returns whether it has.
    fn absorb(&mut self, later: &Step) -> bool {
        let is_one = self.index == later.index;
        if is_one {
            (self.total, self.window) = (later.total, self.window.max(later.window));
            self.violations += later.violations;
        }
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_history_keeps_its_totals_its_peaks_and_its_violations() {
        let mut trace = Trace::new(Time(7), 0);
        for number in 0..100_000 {
            trace.push(Time(7 + number * 3), 1, number % 1000, number % 100 == 0);
        }
        assert!(trace.steps.len() as u64 <= MAX_STEPS);
        assert!(trace.steps.len() as u64 > MAX_STEPS / 2);
        assert_eq!(trace.steps.last().unwrap().total, 100_000);
        assert_eq!(trace.steps.iter().map(|step| step.window).max(), Some(999));
        assert_eq!(trace.steps.iter().map(|step| step.violations).sum::<u64>(), 1000);
        assert!(trace.steps.is_sorted_by(|a, b| a.index < b.index));
    }
}
