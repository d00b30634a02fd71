//! The counters of the run and of each limit, and the observer of every release.

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
    /// The index of the present limit that is, or was last, waited for.
    binding: Option<usize>,
    /// The instant that a release last waited for.
    awaited: Option<Time>,
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
        let (binding, awaited, waiting_since) = (None, None, None);
        Account { stats, limits, binding, awaited, observer: None, second: (0, 0), waiting_since }
    }

    /// Replaces the limits; those before were `charged` this.
    pub(super) fn set_rates(&mut self, rates: &[Rate], charged: &[Charged]) {
        self.limits.set_rates(rates, charged);
        self.binding = None;
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
        let until = until.filter(|until| *until > now);
        // Input that arrives meanwhile interrupts a wait but does not begin a new one.
        if until.is_some() && until == self.awaited {
            return;
        }
        self.binding = binding();
        // Without an instant, the wait may end at any event, such as the end of a command.
        if until.is_some() {
            self.awaited = until;
            self.limits.of(self.binding).for_each(|limit| limit.waits += 1);
        }
    }

    /// Ends a wait, if there is one, and counts it.
    pub(super) fn end_wait(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.stats.times.waited += now.since(since);
            self.limits.of(self.binding).for_each(|limit| limit.waited += now.since(since));
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
            let retry = |limit: &mut LimitStats| limit.retried += items;
            asked.into_iter().for_each(|(_, asked)| self.limits.each_charging(&asked.costs, retry));
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
        self.limits.of(limit.or(self.binding)).for_each(|limit| limit.refused += items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(texts: &[&str]) -> Account {
        let rates: Vec<Rate> = texts.iter().map(|text| text.parse::<Rate>().unwrap()).collect();
        Account::new(Time::ZERO, &rates)
    }

    /// A wait of this length from `now` on, for an instant and a limit.
    fn wait(account: &mut Account, now: u64, length: u64, until: Option<u64>, limit: Option<usize>) {
        account.begin_wait(Time(now), until.map(Time), || limit);
        account.end_wait(Time(now + length));
    }

    #[test]
    fn time_and_refusals_count_for_the_limit_that_is_waited_for() {
        let mut account = account(&["1/s", "2/s"]);
        wait(&mut account, 0, 5, None, None);
        // Interrupted by input.
        wait(&mut account, 5, 3, Some(12), Some(1));
        wait(&mut account, 8, 4, Some(12), Some(0));
        account.refuse(None, 2);
        account.refuse(Some(0), 3);
        wait(&mut account, 12, 11, Some(12), None);
        let limits = account.limits.limits(&[]);
        let counts: Vec<_> = limits.iter().map(|limit| (limit.waited, limit.refused, limit.waits)).collect();
        assert_eq!(counts, [(0, 3, 0), (7, 2, 1)]);
        assert_eq!((account.stats.times.waited, account.stats.refused), (23, 5));
    }

    #[test]
    fn a_limit_that_is_replaced_is_not_waited_for() {
        let mut account = account(&["1/s", "2/s"]);
        wait(&mut account, 0, 1, Some(1), Some(1));
        wait(&mut account, 1, 1, Some(2), Some(0));
        account.set_rates(&["3/s".parse::<Rate>().unwrap()], &[]);
        account.refuse(None, 1);
        wait(&mut account, 2, 1, Some(3), Some(0));
        let limits = account.limits.limits(&[]);
        let counts: Vec<_> = limits.iter().map(|limit| (limit.waits, limit.refused)).collect();
        assert_eq!(counts, [(1, 0), (1, 0), (1, 0)]);
    }
}
