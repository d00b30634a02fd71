//! The counters of the run and of each limit, and the observer of every release.

use super::admission::Admission;
use super::limit_counts::{Awaited, LimitCounts};
use super::{LimitStats, Stats};
use crate::config::Rate;
use crate::gate::Request;
use crate::time::{SECOND, Time};

/// A callback for each release, with the instant after it and what the limits were charged for.
pub type Observer = Box<dyn FnMut(Time, Request)>;

/// What decides what is waited for: revisions of the lanes and of the gate, and the next release as far as
/// known.
pub(super) type Changed = (u64, u64, Option<Time>);

/// All counters.
pub(super) struct Account {
    /// The counters of the run, except items read and skipped, which are not known here.
    pub(super) stats: Stats,
    pub(super) limits: LimitCounts,
    pub(super) observer: Option<Observer>,
    /// The second of the run in which the last items left, and how many left in it.
    second: (u64, u64),
    /// Since when an item waits that the sink could take.
    waiting_since: Option<Time>,
    /// What it waits for, or the last one waited for.
    awaited: Option<(Changed, Awaited)>,
}

impl Account {
    /// The counters of a run that starts at `now`, under these limits.
    pub(super) fn new(now: Time, rates: &[Rate]) -> Self {
        let (stats, limits) = (Stats::new(now), LimitCounts::new(rates));
        Account { stats, limits, observer: None, second: (0, 0), waiting_since: None, awaited: None }
    }

    /// Notes that an item waits that the sink could take. As long as nothing has `changed`, what is `awaited`
    /// stays the same.
    pub(super) fn begin_wait(&mut self, now: Time, changed: Changed, awaited: impl FnOnce() -> Awaited) {
        let known = self.awaited.filter(|(before, _)| *before == changed);
        let awaited = known.map_or_else(awaited, |(_, awaited)| awaited);
        self.awaited = Some((changed, awaited));
        self.waiting_since = Some(now);
    }

    /// Ends a wait, if there is one, and counts it.
    pub(super) fn end_wait(&mut self, now: Time) {
        let since = self.waiting_since.take().filter(|since| *since < now);
        if let Some((since, (_, awaited))) = since.zip(self.awaited) {
            self.stats.times.waited += now.since(since);
            let is_new = self.limits.wait(awaited, now.since(since));
            self.stats.times.holds += u64::from(is_new && awaited.is_hold);
        }
    }

    /// Counts a wait up to `now`, but does not end it.
    pub(super) fn extend_wait(&mut self, now: Time) {
        if self.waiting_since.is_some() {
            self.end_wait(now);
            self.waiting_since = Some(now);
        }
    }

    /// Counts the first `items` of an admission, which have left by `now`.
    pub(super) fn leave(&mut self, now: Time, admission: &Admission, items: u64) {
        if items > 0 {
            self.count_second(now, items);
            self.limits.leave();
        }
        if admission.batch.attempt() == 1 {
            self.stats.released += items;
        } else {
            self.stats.retried += items;
            self.stats.retrying -= items;
            let asked = admission.asked.last();
            let retry = |limit: &mut LimitStats| limit.retried += items;
            asked.into_iter().for_each(|(.., charge)| self.limits.each_charging(&charge.costs, retry));
        }
        self.stats.settled += items;
    }

    fn count_second(&mut self, now: Time, items: u64) {
        let second = now.since(self.stats.times.started) / SECOND;
        let before = if self.second.0 == second { self.second.1 } else { 0 };
        self.second = (second, before + items);
        self.stats.busiest = self.stats.busiest.max(before + items);
        self.stats.times.last = now;
    }

    /// Reports the first `releases` of an admission, charged at `now`, to the observer.
    pub(super) fn observe(&mut self, now: Time, admission: &Admission, mut releases: u64) {
        let Some(observer) = &mut self.observer else { return };
        for (count, since, charge) in &admission.asked {
            (0..releases.min(*count)).for_each(|_| observer(now, Request::new(*since, charge)));
            releases = releases.saturating_sub(*count);
        }
    }

    /// Counts items that were refused, by `limit` if one is given.
    pub(super) fn refuse(&mut self, limit: Option<usize>, items: u64) {
        self.stats.refused += items;
        self.stats.settled += items;
        self.limits.of(limit).for_each(|limit| limit.refused += items);
    }
}
