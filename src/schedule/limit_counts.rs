//! Counters of each limit: the releases that waited for it, and what became of them.

use crate::config::Rate;
use crate::gate::Charged;
use crate::time::Time;

/// Counters of a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitStats {
    /// The limit.
    pub rate: Rate,
    /// The number of waits of a release in which it, of all limits, was the last to allow it.
    pub waits: u64,
    /// For how long, in nanoseconds.
    pub waited: u64,
    /// Charged, by releases that really left.
    pub charged: Charged,
    /// Items that it did not let go at their arrival, or that gave way to a newer one while it was waited for.
    pub refused: u64,
    /// Retries of items that it was charged for.
    pub retried: u64,
    /// Items that it was charged for and whose command failed.
    pub failed: u64,
}

impl LimitStats {
    /// Nothing yet.
    pub fn new(rate: Rate) -> Self {
        let charged = Charged::default();
        LimitStats { rate, waits: 0, waited: 0, charged, refused: 0, retried: 0, failed: 0 }
    }
}

/// Counters of each limit that there is or was.
pub(super) struct LimitCounts {
    limits: Vec<LimitStats>,
    /// Where the present limits stand among all.
    pub(super) places: Vec<usize>,
    /// Until when a release waited last.
    last: Option<Time>,
    /// Which of the present limits is waited for, or was last.
    binding: Option<usize>,
}

impl LimitCounts {
    pub(super) fn new(rates: &[Rate]) -> Self {
        let mut tally = LimitCounts { limits: Vec::new(), places: Vec::new(), last: None, binding: None };
        tally.set_rates(rates, &[]);
        tally
    }

    /// These are the limits now, and those before were `charged` this. One that was there before goes on counting.
    pub(super) fn set_rates(&mut self, rates: &[Rate], charged: &[Charged]) {
        self.limits = self.limits(charged);
        self.binding = None;
        self.places.clear();
        for rate in rates {
            let known = (0..self.limits.len())
                .find(|place| self.limits[*place].rate == *rate && !self.places.contains(place));
            self.places.push(known.unwrap_or(self.limits.len()));
            if known.is_none() {
                self.limits.push(LimitStats::new(rate.clone()));
            }
        }
    }

    /// False while the same instant is waited for as before: what arrives meanwhile interrupts a wait, but begins no
    /// other.
    pub(super) fn is_new(&self, until: Time) -> bool {
        self.last != Some(until)
    }

    /// A release waits until an instant, for one of the limits or for something else.
    pub(super) fn note(&mut self, until: Time, limit: Option<usize>) {
        self.last = Some(until);
        self.set_binding(limit);
        self.of(limit).for_each(|limit| limit.waits += 1);
    }

    pub(super) fn set_binding(&mut self, limit: Option<usize>) {
        self.binding = limit;
    }

    /// Releases have waited for this number of nanoseconds.
    pub(super) fn wait(&mut self, nanos: u64) {
        self.of(self.binding).for_each(|limit| limit.waited += nanos);
    }

    /// A limit, or else the one that was waited for last, refused items.
    pub(super) fn refuse(&mut self, limit: Option<usize>, items: u64) {
        self.of(limit.or(self.binding)).for_each(|limit| limit.refused += items);
    }

    /// Items of such costs were tried again.
    pub(super) fn retry(&mut self, costs: &[u64], items: u64) {
        self.each_charging(costs, |limit| limit.retried += items);
    }

    /// Items of such costs have failed.
    pub(super) fn fail(&mut self, costs: &[u64], items: u64) {
        self.each_charging(costs, |limit| limit.failed += items);
    }

    fn of(&mut self, limit: Option<usize>) -> impl Iterator<Item = &mut LimitStats> {
        let place = limit.and_then(|limit| self.places.get(limit)).copied();
        place.and_then(|place| self.limits.get_mut(place)).into_iter()
    }

    fn each_charging(&mut self, costs: &[u64], count: impl Fn(&mut LimitStats)) {
        let charging = self.places.iter().zip(costs).filter(|(_, cost)| **cost > 0);
        charging.for_each(|(&place, _)| count(&mut self.limits[place]));
    }

    /// All limits, of which the present ones were `charged` this since they are there.
    pub(super) fn limits(&self, charged: &[Charged]) -> Vec<LimitStats> {
        let mut limits = self.limits.clone();
        for (&place, charged) in self.places.iter().zip(charged) {
            limits[place].charged.add(charged.releases, charged.cost);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(texts: &[&str]) -> Vec<Rate> {
        let rate = |text: &&str| text.parse::<Rate>().unwrap();
        texts.iter().map(rate).collect()
    }

    fn charged(releases: u64, cost: u64) -> Charged {
        Charged { releases, cost }
    }

    #[test]
    fn each_limit_is_counted_whatever_becomes_of_it() {
        let mut tally = LimitCounts::new(&rates(&["1/s", "2/s", "1/s"]));
        tally.note(Time(1), Some(2));
        tally.note(Time(2), None);
        tally.set_rates(&rates(&["3/s", "1/s", "1/s"]), &[charged(1, 1), charged(2, 2), charged(3, 9)]);
        tally.note(Time(3), Some(0));
        tally.note(Time(4), Some(2));
        let limits = tally.limits(&[charged(5, 5), charged(6, 6), charged(7, 7)]);
        let counts: Vec<_> =
            limits.iter().map(|limit| (limit.rate.count, limit.waits, limit.charged)).collect();
        let expected =
            [(1, 0, charged(7, 7)), (2, 0, charged(2, 2)), (1, 2, charged(10, 16)), (3, 1, charged(5, 5))];
        assert_eq!(counts, expected);
        assert!(tally.is_new(Time(5)) && !tally.is_new(Time(4)));
    }

    #[test]
    fn time_and_refusals_count_for_the_limit_that_is_waited_for() {
        let mut tally = LimitCounts::new(&rates(&["1/s", "2/s"]));
        tally.wait(5);
        tally.note(Time(9), Some(1));
        tally.wait(7);
        tally.refuse(None, 2);
        tally.refuse(Some(0), 3);
        tally.set_binding(None);
        tally.wait(11);
        let counts: Vec<_> =
            tally.limits(&[]).iter().map(|limit| (limit.waited, limit.refused, limit.waits)).collect();
        assert_eq!(counts, [(0, 3, 0), (7, 2, 1)]);
    }

    #[test]
    fn what_becomes_of_items_counts_for_the_limits_that_were_charged() {
        let mut tally = LimitCounts::new(&rates(&["1/s", "2/s", "2/s"]));
        tally.retry(&[1, 0, 4], 2);
        tally.fail(&[0, 0, 4], 5);
        let counts: Vec<_> = tally.limits(&[]).iter().map(|limit| (limit.retried, limit.failed)).collect();
        assert_eq!(counts, [(2, 0), (0, 0), (2, 5)]);
    }
}
