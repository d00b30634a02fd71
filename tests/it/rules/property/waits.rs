//! How long a run waits for each limit, counted tick by tick.

use std::ops::RangeInclusive;

use throttle::schedule::LimitStats;

/// The time for which items waited, and what is known of the limits they waited for.
pub(super) struct Waits {
    pub(super) nanos: u64,
    /// By limit, the least and the most that may be counted for it: which of several limits that hold back a
    /// release until the same instant counts is left open.
    limits: Vec<[Wait; 2]>,
    last: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Wait {
    times: u64,
    nanos: u64,
}

impl Waits {
    pub(super) fn new(limits: usize) -> Self {
        Waits { nanos: 0, limits: vec![<[Wait; 2]>::default(); limits], last: None }
    }

    /// Adds a tick in which the next release waits until an instant, for the limits of any of several lanes.
    pub(super) fn tick(&mut self, (until, lanes): (u64, Vec<Vec<usize>>)) {
        let is_new = self.last.replace(until) != Some(until);
        self.nanos += 1;
        for (limit, [least, most]) in self.limits.iter_mut().enumerate() {
            let is_only = lanes.iter().all(|limits| *limits == [limit]);
            let is_one = lanes.iter().flatten().any(|one| *one == limit);
            for (wait, counts) in [(least, is_only), (most, is_one)] {
                wait.nanos += u64::from(counts);
                wait.times += u64::from(counts && is_new);
            }
        }
    }

    /// Checks what was counted for each limit.
    pub(super) fn check(&self, counted: &[LimitStats]) {
        assert_eq!(counted.len(), self.limits.len());
        for (LimitStats { rate, waits, waited, .. }, [least, most]) in counted.iter().zip(&self.limits) {
            let is_within = |range: RangeInclusive<u64>, number| range.contains(number);
            assert!(is_within(least.nanos..=most.nanos, waited), "{rate}: waited {waited}");
            assert!(is_within(least.times..=most.times, waits), "{rate}: waited {waits} times");
        }
        let sum: u64 = counted.iter().map(|limit| limit.waited).sum();
        assert!(sum <= self.nanos, "each wait is for at most one limit");
    }
}
