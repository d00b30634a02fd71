//! The counters of the run and of each limit, and the observer of every release.

use super::admission::Admission;
use super::{Attempt, Stats};
use crate::config::Rate;
use crate::gate::Request;
use crate::rule::Window;
use crate::time::{SECOND, Time};

/// A callback for each release, with the instant after it and what the limits were charged for.
pub type Observer = Box<dyn FnMut(Time, Request)>;

/// All counters.
pub(super) struct Account {
    /// The counters of the run, except items read and skipped, which are not known here.
    stats: Stats,
    /// The counters of all limits, past and present.
    limits: Vec<LimitStats>,
    /// The indices of the present limits among all.
    places: Vec<usize>,
    observer: Option<Observer>,
    /// The items that left in the second that ended when the last ones did.
    second: Window,
    /// Since when an item waits that the sink could take, and what for.
    waiting: Option<(Time, Awaited)>,
    /// The last wait that was counted; `None` if the next one is another in any case.
    counted: Option<Awaited>,
}

/// The counters of a limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LimitStats {
    /// The limit.
    pub rate: Rate,
    /// The number of waits for a release that this limit was the last to allow.
    pub waits: u64,
    /// The length of these waits, in nanoseconds.
    pub waited: u64,
    /// The number of releases that it was charged for: those that really left.
    pub releases: u64,
    /// The sum of their costs.
    pub cost: u64,
    /// Items that it refused, or that gave way to a newer one while waiting for it.
    pub refused: u64,
    /// Items it was charged for that were retried, each retry counted.
    pub retried: u64,
    /// Items it was charged for whose command failed.
    pub failed: u64,
}

/// What a release waits for. Until it has come, this is one wait, whatever arrives meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Awaited {
    /// The limit that is the last to allow the release, if a limit holds it back and it is known which.
    pub(super) limit: Option<usize>,
    /// True if a server or a user asked for the wait.
    pub(super) is_hold: bool,
    /// The instant of the release; `None` if it depends on an event, such as the end of a command.
    pub(super) until: Option<Time>,
}

impl Awaited {
    /// True if this is the rest of the wait `before`: for the same instant or, as long as that is not known,
    /// for the same limit.
    fn continues(self, before: Awaited) -> bool {
        match self.until.zip(before.until) {
            Some((until, before)) => until == before,
            None => (self.limit, self.is_hold) == (before.limit, before.is_hold),
        }
    }
}

impl Account {
    /// The counters of a run that starts at `now`, under these limits.
    pub(super) fn new(now: Time, rates: &[Rate]) -> Self {
        let mut account = Account {
            stats: Stats::new(now),
            limits: Vec::new(),
            places: Vec::new(),
            observer: None,
            second: Window::default(),
            waiting: None,
            counted: None,
        };
        account.set_rates(rates);
        account
    }

    pub(super) fn observe_by(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    pub(super) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    pub(super) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The counters of all limits.
    pub(super) fn limits(&self) -> &[LimitStats] {
        &self.limits
    }

    /// Counts what the present limit with this index was charged for.
    pub(super) fn charge(&mut self, limit: usize, releases: u64, cost: u64) {
        let limit = &mut self.limits[self.places[limit]];
        limit.releases += releases;
        limit.cost = limit.cost.saturating_add(cost);
    }

    /// The indices of the present limits among all.
    pub(super) fn places(&self) -> &[usize] {
        &self.places
    }

    /// Replaces the limits. The counters of a limit that was there before go on.
    pub(super) fn set_rates(&mut self, rates: &[Rate]) {
        self.counted = None;
        self.places.clear();
        for rate in rates {
            let known = (0..self.limits.len())
                .find(|place| self.limits[*place].rate == *rate && !self.places.contains(place));
            self.places.push(known.unwrap_or(self.limits.len()));
            if known.is_none() {
                self.limits.push(LimitStats { rate: rate.clone(), ..LimitStats::default() });
            }
        }
    }

    /// The counters of the present limit with this index, if there is one.
    fn limit(&mut self, limit: Option<usize>) -> impl Iterator<Item = &mut LimitStats> {
        let place = limit.and_then(|limit| self.places.get(limit)).copied();
        place.and_then(|place| self.limits.get_mut(place)).into_iter()
    }

    /// Calls `count` with the counters of the present limits that charged these costs.
    fn each_charging(&mut self, costs: &[u64], count: impl Fn(&mut LimitStats)) {
        let charging = self.places.iter().zip(costs).filter(|(_, cost)| **cost > 0);
        charging.for_each(|(&place, _)| count(&mut self.limits[place]));
    }

    /// Notes that an item waits that the sink could take.
    pub(super) fn begin_wait(&mut self, now: Time, awaited: Awaited) {
        self.waiting = Some((now, awaited));
    }

    /// Ends a wait, if there is one, and counts it.
    pub(super) fn end_wait(&mut self, now: Time) {
        if let Some((since, awaited)) = self.waiting.take().filter(|(since, _)| *since < now) {
            self.wait(awaited, now.since(since));
        }
    }

    /// Adds a wait, or the next part of one: input that arrives meanwhile interrupts it but does not begin a new one.
    fn wait(&mut self, awaited: Awaited, nanos: u64) {
        let is_new = self.counted.replace(awaited).is_none_or(|last| !awaited.continues(last));
        self.stats.times.waited += nanos;
        self.stats.times.holds += u64::from(is_new && awaited.is_hold);
        self.limit(awaited.limit).for_each(|limit| {
            limit.waits += u64::from(is_new);
            limit.waited += nanos;
        });
    }

    /// Counts a wait up to `now`, but does not end it.
    pub(super) fn extend_wait(&mut self, now: Time) {
        if let Some((_, awaited)) = self.waiting {
            self.end_wait(now);
            self.begin_wait(now, awaited);
        }
    }

    /// The process was stopped for this number of nanoseconds.
    pub(super) fn stop(&mut self, nanos: u64) {
        self.stats.times.stopped += nanos;
    }

    /// Counts the first `items` of an admission, which have left by `now`.
    pub(super) fn leave(&mut self, now: Time, admission: &Admission, items: u64) {
        if items > 0 {
            self.count_second(now, items);
            // The next wait for an event is another one.
            self.counted = self.counted.filter(|last| last.until.is_some());
        }
        if admission.batch.attempt() == 1 {
            self.stats.released += items;
        } else {
            self.stats.retried += items;
            self.stats.retrying -= items;
            let asked = admission.asked.last();
            let retry = |limit: &mut LimitStats| limit.retried += items;
            asked.into_iter().for_each(|asked| self.each_charging(&asked.charge.costs, retry));
        }
        self.stats.settled += items;
    }

    fn count_second(&mut self, now: Time, items: u64) {
        self.second.push(now, items, SECOND, 0);
        self.stats.busiest = self.stats.busiest.max(self.second.cost());
        self.stats.times.last = now;
    }

    /// Reports the first `releases` of an admission, charged at `now`, to the observer.
    pub(super) fn observe(&mut self, now: Time, admission: &Admission, mut releases: u64) {
        let Some(observer) = &mut self.observer else { return };
        for asked in &admission.asked {
            let request = Request::new(asked.eligible_at, &asked.charge);
            (0..releases.min(asked.releases)).for_each(|_| observer(now, request));
            releases = releases.saturating_sub(asked.releases);
        }
    }

    /// Counts the bytes of items that are done.
    pub(super) fn pass_on(&mut self, bytes: usize) {
        self.stats.bytes += bytes as u64;
    }

    /// Counts items that were refused, by `limit` if one is given.
    pub(super) fn refuse(&mut self, limit: Option<usize>, items: u64) {
        self.stats.refused += items;
        self.stats.settled += items;
        self.limit(limit).for_each(|limit| limit.refused += items);
    }

    /// Counts an item that can never be sent.
    pub(super) fn reject(&mut self) {
        self.stats.settled += 1;
        self.stats.failed += 1;
    }

    /// Counts an attempt that failed, and is tried again.
    pub(super) fn retry(&mut self, attempt: &Attempt) {
        self.stats.settled -= attempt.batch.items();
        self.stats.retrying += attempt.batch.items();
    }

    /// Counts an attempt that failed for good. `ended`: its command had been asked to end.
    pub(super) fn fail(&mut self, attempt: &Attempt, ended: bool) {
        let items = attempt.batch.items();
        self.each_charging(&attempt.charge.costs, |limit| limit.failed += items);
        self.stats.failed += items;
        self.stats.ended += if ended { items } else { 0 };
    }

    /// The output of this number of commands was not fully printed.
    pub(super) fn leave_unprinted(&mut self, commands: u64) {
        self.stats.unprinted += commands;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(texts: &[&str]) -> Vec<Rate> {
        let rate = |text: &&str| text.parse::<Rate>().unwrap();
        texts.iter().map(rate).collect()
    }

    fn awaited(limit: Option<usize>, until: Option<u64>) -> Awaited {
        Awaited { limit, is_hold: false, until: until.map(Time) }
    }

    #[test]
    fn each_limit_is_counted_whatever_becomes_of_it() {
        let mut account = Account::new(Time(0), &rates(&["1/s", "2/s", "1/s"]));
        account.wait(awaited(Some(2), Some(1)), 1);
        account.wait(awaited(None, Some(2)), 1);
        [(0, 1), (1, 2), (2, 9)]
            .into_iter()
            .for_each(|(limit, cost)| account.charge(limit, limit as u64 + 1, cost));
        account.set_rates(&rates(&["3/s", "1/s", "1/s"]));
        account.wait(awaited(Some(0), Some(3)), 1);
        account.wait(awaited(Some(2), Some(4)), 1);
        [5, 6, 7].into_iter().enumerate().for_each(|(limit, count)| account.charge(limit, count, count));
        let limits = account.limits();
        let counts: Vec<_> =
            limits.iter().map(|limit| (limit.rate.count, limit.waits, limit.releases, limit.cost)).collect();
        let expected = [(1, 0, 7, 7), (2, 0, 2, 2), (1, 2, 10, 16), (3, 1, 5, 5)];
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_wait_that_goes_on_is_counted_once() {
        let (at, event) = (|until| awaited(Some(0), Some(until)), awaited(Some(0), None));
        let other = awaited(Some(1), None);
        let table: [(&[Option<Awaited>], [u64; 2]); 6] = [
            (&[Some(at(5)), Some(at(5)), None, Some(at(5))], [1, 0]),
            (&[Some(at(5)), Some(at(7)), Some(at(5))], [3, 0]),
            (&[Some(at(5)), Some(awaited(Some(1), Some(5)))], [1, 0]),
            // Until a command ends, and then until an instant.
            (&[Some(event), Some(event), Some(at(5))], [1, 0]),
            (&[Some(event), None, Some(event)], [2, 0]),
            (&[Some(event), Some(other), Some(event)], [2, 1]),
        ];
        for (events, expected) in table {
            let mut account = Account::new(Time(0), &rates(&["1/s", "2/s"]));
            for event in events {
                match event {
                    Some(awaited) => account.wait(*awaited, 1),
                    None => account.counted = account.counted.filter(|last| last.until.is_some()),
                }
            }
            let limits = account.limits();
            let waited: u64 = limits.iter().map(|limit| limit.waited).sum();
            assert_eq!([limits[0].waits, limits[1].waits], expected, "{events:?}");
            assert_eq!(waited, events.iter().flatten().count() as u64, "{events:?}");
        }
    }

    #[test]
    fn what_becomes_of_items_counts_for_the_limits_that_were_charged() {
        let mut account = Account::new(Time(0), &rates(&["1/s", "2/s", "2/s"]));
        account.each_charging(&[1, 0, 4], |limit| limit.retried += 2);
        account.each_charging(&[0, 0, 4], |limit| limit.failed += 5);
        let counts: Vec<_> = account.limits().iter().map(|limit| (limit.retried, limit.failed)).collect();
        assert_eq!(counts, [(2, 0), (0, 0), (2, 5)]);
    }
}
