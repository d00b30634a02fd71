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
    /// The values of the limits' key selectors.
    pub keys: &'a [Key],
}

/// A callback for each release.
pub type Observer = Box<dyn FnMut(Release)>;

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
}

impl Account {
    /// The counters of a run that starts at `now`, under these limits.
    pub(super) fn new(now: Time, rates: &[Rate]) -> Self {
        let (stats, limits) = (Stats::new(now), LimitCounts::new(rates));
        Account { stats, limits, observer: None, second: (0, 0), waiting_since: None }
    }

    /// Notes that an item waits that the sink could take: until an instant, if that is known, and for a limit, if
    /// `binding` names one.
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
            // The wait may end at any event, such as the end of a command.
            None => self.limits.set_binding(binding()),
        }
    }

    /// Ends a wait, if there is one, and counts it.
    pub(super) fn end_wait(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.stats.times.waited += now.since(since);
            self.limits.wait(now.since(since));
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

    /// Reports the first `releases` of an admission, charged at `now`, to the observer.
    pub(super) fn charge(&mut self, now: Time, admission: &Admission, mut releases: u64) {
        let Some(observer) = &mut self.observer else { return };
        for (count, asked) in &admission.asked {
            let release = Release { at: now, costs: &asked.costs, keys: &asked.keys };
            (0..releases.min(*count)).for_each(|_| observer(release));
            releases = releases.saturating_sub(*count);
        }
    }

    /// Counts items refused by `limit`, or else by the limit that was waited for last.
    pub(super) fn refuse(&mut self, limit: Option<usize>, items: u64) {
        self.stats.refused += items;
        self.stats.settled += items;
        self.limits.refuse(limit, items);
    }
}
