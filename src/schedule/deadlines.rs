//! Time limits, at which a run ends before its input does.

use crate::config::{Plan, Until};
use crate::time::{Time, Wall};

pub(super) struct Deadlines {
    start: Time,
    /// The latest instant of a release.
    pub(super) latest: Option<Time>,
    /// The longest wait for the next release, in nanoseconds.
    patience: Option<u64>,
    until: Option<Until>,
    /// From this instant on, nothing is released.
    pub(super) over: Option<Time>,
}

impl Deadlines {
    /// The time limits of a run that starts at `start`.
    pub(super) fn new(plan: &Plan, start: Time, wall: Wall) -> Self {
        let (patience, until) = (plan.queue.wait_of_all(), plan.queue.until);
        let mut deadlines = Deadlines { start, latest: None, patience, until, over: None };
        deadlines.set_wall(wall);
        deadlines
    }

    pub(super) fn set_wall(&mut self, wall: Wall) {
        // Releases are still allowed at the last instant, hence + 1.
        self.over = self.until.and_then(|until| match until {
            Until::At(shown) => wall.when(i128::from(shown.0) + 1),
            Until::After(nanos) => self.start.checked_add(u128::from(nanos) + 1),
        });
    }

    pub(super) fn go_by_wall(&self) -> bool {
        matches!(self.until, Some(Until::At(_)))
    }

    /// The latest instant of the next release, as seen at `now`, and whether it is fixed: it does not move with `now`.
    pub(super) fn latest(&self, now: Time) -> Option<(Time, bool)> {
        let fixed = self.latest.map(|at| (at.max(now), true));
        fixed.or_else(|| Some((now.saturating_add(self.patience?), false)))
    }
}
