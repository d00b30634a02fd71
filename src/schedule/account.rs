//! The counters of the run and of each limit, and the observer of every release.

use super::Stats;
use super::admission::Admission;
use super::limit_counts::LimitCounts;
use crate::charge::Key;
use crate::config::Rate;
use crate::time::{SECOND, Time};

/// A release that has happened, as the limits were charged for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release<'a> {
    /// The instant after it.
    pub at: Time,
    /// Its cost, by limit.
    pub costs: &'a [u64],
    /// The keys that limits go by.
    pub keys: &'a [Key],
}

/// Called after each release.
pub type Observer = Box<dyn FnMut(Release)>;

/// All that is counted.
pub(super) struct Account {
    /// The counters of the run. What was read and passed over is not known here.
    pub(super) stats: Stats,
    pub(super) limits: LimitCounts,
    pub(super) observer: Option<Observer>,
    /// The second of the run in which the last items left, and how many left within it.
    second: (u64, u64),
    /// Since when something that could be sent waits.
    waiting_since: Option<Time>,
}

impl Account {
    /// Of a run that starts at `now`, under these limits.
    pub(super) fn new(now: Time, rates: &[Rate]) -> Self {
        let (stats, limits) = (Stats::new(now), LimitCounts::new(rates));
        Account { stats, limits, observer: None, second: (0, 0), waiting_since: None }
    }

    /// Something that could be sent waits, until an instant if that is known, for one of the limits or for something
    /// else.
    pub(super) fn begin_wait(
        &mut self,
        now: Time,
        until: Option<Time>,
        binding: impl FnOnce() -> Option<usize>,
    ) {
        self.waiting_since = Some(now);
        match until.filter(|until| *until > now) {
            Some(until) if self.limits.is_new(until) => self.limits.note(until, binding()),
            Some(_) => {}
            // It may end whenever something happens, such as the end of a command.
            None => self.limits.set_binding(binding()),
        }
    }

    /// Whatever waited is looked at again.
    pub(super) fn end_wait(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.stats.times.waited += now.since(since);
            self.limits.wait(now.since(since));
        }
    }

    /// Counts a wait up to `now`; it goes on.
    pub(super) fn extend_wait(&mut self, now: Time) {
        if self.waiting_since.is_some() {
            self.end_wait(now);
            self.waiting_since = Some(now);
        }
    }

    /// The first `items` of what was admitted have left by `now`.
    pub(super) fn leave(&mut self, now: Time, admission: &Admission, items: u64) {
        if items > 0 {
            self.count_second(now, items);
        }
        if admission.batch.attempt() == 1 {
            self.stats.released += items;
        } else {
            self.stats.retried += items;
            let asked = admission.asked.last();
            asked.into_iter().for_each(|(_, asked)| self.limits.retry(&asked.costs, items));
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

    /// The first `releases` of what was admitted were charged at `now`.
    pub(super) fn charge(&mut self, now: Time, admission: &Admission, mut releases: u64) {
        let Some(observer) = &mut self.observer else { return };
        for (count, asked) in &admission.asked {
            let release = Release { at: now, costs: &asked.costs, keys: &asked.keys };
            (0..releases.min(*count)).for_each(|_| observer(release));
            releases = releases.saturating_sub(*count);
        }
    }

    /// Items are refused, by this limit or else by the one that was waited for last.
    pub(super) fn refuse(&mut self, limit: Option<usize>, items: u64) {
        self.stats.refused += items;
        self.stats.settled += items;
        self.limits.refuse(limit, items);
    }
}
