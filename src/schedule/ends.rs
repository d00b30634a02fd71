//! Enough is enough: when a run ends before its input does.

use crate::config::{Plan, Until};
use crate::time::{Time, Wall};

pub(super) struct Ends {
    start: Time,
    patience: Option<Patience>,
    until: Option<Until>,
    /// From then on, nothing is released.
    over: Option<Time>,
}

/// How late the next release may be.
#[derive(Clone, Copy)]
enum Patience {
    /// At this instant.
    Until(Time),
    /// This number of nanoseconds after any time that it is looked at.
    Within(u64),
}

impl Ends {
    /// Of a run that starts at `start`.
    pub(super) fn new(plan: &Plan, start: Time) -> Self {
        let patience = plan.wait_of_all().map(Patience::Within);
        let mut ends = Ends { start, patience, until: plan.queue.until, over: None };
        ends.set_wall(Wall::EPOCH);
        ends
    }

    pub(super) fn set_wall(&mut self, wall: Wall) {
        // At the last instant, releases are still allowed.
        self.over = self.until.and_then(|until| match until {
            Until::At(shown) => wall.when(i128::from(shown.0) + 1),
            Until::After(nanos) => self.start.checked_add(u128::from(nanos) + 1),
        });
    }

    /// Lets no release be later than `by`.
    pub(super) fn set_latest(&mut self, by: Time) {
        self.patience = Some(Patience::Until(by));
    }

    pub(super) fn go_by_wall(&self) -> bool {
        matches!(self.until, Some(Until::At(_)))
    }

    pub(super) fn are_due(&self, now: Time) -> bool {
        self.over.is_some_and(|over| now >= over)
    }

    pub(super) fn over(&self) -> Option<Time> {
        self.over
    }

    /// The latest instant of the next release, as seen at `now`, and whether that is an instant of the run, whatever is
    /// known of the next release.
    pub(super) fn latest(&self, now: Time) -> Option<(Time, bool)> {
        Some(match self.patience? {
            Patience::Until(at) => (at.max(now), true),
            Patience::Within(wait) => (Time(now.0.saturating_add(wait)), false),
        })
    }

    /// The instant at which patience ends, if that is to come.
    pub(super) fn patience_ends(&self, now: Time) -> Option<Time> {
        self.latest(now).filter(|&(at, is_fixed)| is_fixed && at > now).map(|(at, _)| at)
    }
}
