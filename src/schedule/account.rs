//! What has been done: the counters of the run and of each limit, and who hears of every release.

use super::admission::Admission;
use super::limit_counts::LimitCounts;
use super::{LimitStats, Stats};
use crate::charge::Key;
use crate::config::Rate;
use crate::gate::Charged;
use crate::time::{SECOND, Time};

/// A release that has happened, as the limits were charged for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release<'a> {
    /// When it was over.
    pub at: Time,
    /// What it cost each limit.
    pub costs: &'a [u64],
    /// The keys that limits go by.
    pub keys: &'a [Key],
}

/// Hears of each release.
pub type Observer = Box<dyn FnMut(Release)>;

/// What has been done so far.
pub(super) struct Account {
    stats: Stats,
    /// The second of the run in which the last items left, and how many left within it.
    second: (u64, u64),
    limit_counts: LimitCounts,
    /// Since when something that could be sent waits.
    waiting_since: Option<Time>,
    observer: Option<Observer>,
}

impl Account {
    /// Of a run that starts at `now`, under these limits.
    pub(super) fn new(now: Time, rates: &[Rate]) -> Self {
        Account {
            stats: Stats::new(now),
            second: (0, 0),
            limit_counts: LimitCounts::new(rates),
            waiting_since: None,
            observer: None,
        }
    }

    pub(super) fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    pub(super) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// The counters of the run. What was read and passed over is not known here.
    pub(super) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The process was stopped for this number of nanoseconds.
    pub(super) fn stop(&mut self, nanos: u64) {
        self.stats.times.stopped += nanos;
    }

    /// The outputs of this number of commands were not printed, or not completely.
    pub(super) fn add_unprinted(&mut self, commands: u64) {
        self.stats.unprinted += commands;
    }

    /// The counters of all limits that there were, of which the present ones were `charged`.
    pub(super) fn limits(&self, charged: &[Charged]) -> Vec<LimitStats> {
        self.limit_counts.limits(charged)
    }

    /// Where the present limits stand among all.
    pub(super) fn places(&self) -> &[usize] {
        self.limit_counts.places()
    }

    /// Other limits hold from now on. Those before were `charged`.
    pub(super) fn set_rates(&mut self, rates: &[Rate], charged: &[Charged]) {
        self.limit_counts.set_rates(rates, charged);
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
        match until {
            Some(until) if until > now && self.limit_counts.is_new(until) => {
                self.limit_counts.note(until, binding());
            }
            Some(until) if until > now => {}
            // It may end whenever something happens, such as the end of a command.
            Some(_) | None => self.limit_counts.set_binding(binding()),
        }
    }

    /// Whatever waited is looked at again.
    pub(super) fn end_wait(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.stats.times.waited += now.since(since);
            self.limit_counts.wait(now.since(since));
        }
    }

    /// The first `items` of what was admitted have left by `now`.
    pub(super) fn leave(&mut self, now: Time, admission: &Admission, items: u64) {
        if items > 0 {
            self.count_second(now, items);
        }
        match admission.batch().attempt() {
            1 => self.stats.released += items,
            _ => self.stats.retried += items,
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
            for _ in 0..releases.min(*count) {
                observer(Release { at: now, costs: &asked.costs, keys: &asked.keys });
            }
            releases = releases.saturating_sub(*count);
        }
    }

    /// Items that left are done with, or what they cost was spent.
    pub(super) fn add_bytes(&mut self, bytes: u64) {
        self.stats.bytes += bytes;
    }

    /// Items are refused, by this limit or else by the one that was waited for last.
    pub(super) fn refuse(&mut self, limit: Option<usize>, items: u64) {
        self.stats.refused += items;
        self.stats.settled += items;
        self.limit_counts.refuse(limit, items);
    }

    /// Items that cost this are tried again.
    pub(super) fn retry(&mut self, costs: &[u64], items: u64) {
        self.limit_counts.retry(costs, items);
    }

    /// Items will not be released any more, though they never were.
    pub(super) fn settle(&mut self, items: u64) {
        self.stats.settled += items;
    }

    /// Items are to be released again.
    pub(super) fn unsettle(&mut self, items: u64) {
        self.stats.settled -= items;
    }

    /// The command of items that cost this has failed for good.
    pub(super) fn fail(&mut self, costs: &[u64], items: u64) {
        self.limit_counts.fail(costs, items);
    }

    /// Items have failed, with a command or without.
    pub(super) fn add_failed(&mut self, items: u64) {
        self.stats.failed += items;
    }
}
