//! The state of a run, for monitoring.

use super::forecast::next_release_of;
use super::{LimitStats, Schedule, Stats};
use crate::gate::{Availability, Limit};
use crate::time::Time;

/// The state of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// The counters of the run.
    pub stats: Stats,
    /// The number of running commands.
    pub running: u64,
    /// The instant of the next release, if it is known and in the future.
    pub next: Option<Time>,
    /// The state of all limits, past and present.
    pub limits: Vec<LimitMetrics>,
}

/// The state of a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitMetrics {
    /// Its counters.
    pub stats: LimitStats,
    /// The cost that is available, or the number of keys with a history; `None` if it is not in force now, or shared
    /// with other runs.
    pub standing: Option<Availability>,
    /// The rate that was found, in thousandths a second, if it is to be and all items share the limit.
    pub found: Option<u64>,
}

impl Metrics {
    pub(super) fn of(schedule: &Schedule, now: Time) -> Metrics {
        let Schedule { gate, account, ending, .. } = schedule;
        let stats = schedule.limit_stats().iter().cloned();
        let mut limits: Vec<_> =
            stats.map(|stats| LimitMetrics { stats, standing: None, found: None }).collect();
        for (at, limit) in gate.local().limits() {
            limits[account.places()[at]].observe(limit, now);
        }
        let next = next_release_of(schedule, now).filter(|next| *next > now && !ending.is_stopping());
        Metrics { stats: schedule.stats(), running: schedule.running() as u64, next, limits }
    }
}

impl LimitMetrics {
    fn observe(&mut self, limit: &Limit, now: Time) {
        let mut learned = limit.learned().filter(|_| limit.key().is_none());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let found = learned.next().map(|(_, learned)| (learned.rate() * 1000.0) as u64);
        (self.standing, self.found) = (limit.standing(now), found);
    }
}
