//! The state of a run, for monitoring.

use std::collections::HashSet;

use super::forecast::next_release_of;
use super::lanes::{Lane, Lanes};
use super::{LimitStats, Schedule, Stats};
use crate::charge::Key;
use crate::gate::{Availability, Limit};
use crate::rule::Ask;
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
    /// Its present state; `None` if it is no longer in force, or shared with other runs.
    pub now: Option<Now>,
}

/// The present state of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The cost that is available, or the number of keys with a history.
    pub standing: Availability,
    /// The instant at which it allows one of the waiting items or, if none waits, a release of cost 1; `None` for a
    /// limit by key for which nothing waits.
    pub next: Option<Time>,
    /// For a limit by key, the number of keys whose items it makes wait.
    pub waiting: u64,
    /// The rate that was found, in thousandths a second, if it is to be and all items share the limit.
    pub found: Option<u64>,
}

impl Metrics {
    pub(super) fn of(schedule: &Schedule, now: Time) -> Metrics {
        let Schedule { gate, lanes, account, ending, .. } = schedule;
        let stats = schedule.limit_stats().into_iter();
        let mut limits: Vec<_> = stats.map(|stats| LimitMetrics { stats, now: None }).collect();
        for (at, limit) in gate.limits() {
            limits[account.places()[at]].now = Some(Now::of(lanes, at, limit, now));
        }
        let next = next_release_of(schedule, now).filter(|next| *next > now && !ending.is_stopping());
        Metrics { stats: schedule.stats(), running: schedule.running() as u64, next, limits }
    }
}

impl Now {
    fn of(lanes: &Lanes, at: usize, limit: &Limit, now: Time) -> Now {
        let asked: Vec<_> = lanes.occupied().filter_map(|lane| ask(lane, at, limit, now)).collect();
        let waiting = asked.iter().filter(|(_, from)| *from > now);
        let waiting: HashSet<&Key> = waiting.filter_map(|(key, _)| *key).collect();
        let of_any = || limit.opening(&[], Ask { since: now, cost: 1 }, now).from;
        let next = asked.iter().map(|(_, verdict)| *verdict).min();
        let next = next.or_else(|| limit.key().is_none().then(of_any));
        let mut learned = limit.learned().filter(|_| limit.key().is_none());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let found = learned.next().map(|(_, learned)| (learned.rate() * 1000.0) as u64);
        Now { standing: limit.standing(now), next, waiting: waiting.len() as u64, found }
    }
}

/// The instant, `now` or later, at which a limit allows the next release of a lane, and the key it is charged to, for a
/// limit by key; `None` if the limit does not charge it.
fn ask<'a>(lane: &'a Lane, at: usize, limit: &Limit, now: Time) -> Option<(Option<&'a Key>, Time)> {
    let ((front, costs), since) = lane.front().zip(lane.costs()).zip(lane.since())?;
    let cost = costs.get(at).copied().filter(|&cost| cost > 0)?;
    let key = limit.key().map(|key| &front.charge.keys[key]);
    let opening = limit.opening(key.map_or(&[], Key::as_slice), Ask { since, cost }, now);
    Some((key, opening.from))
}
