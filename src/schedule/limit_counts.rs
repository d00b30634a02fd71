//! Counters for each limit: the releases that waited for it, and what became of them.

use crate::config::Rate;
use crate::gate::Charged;

/// The counters of a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitStats {
    /// The limit.
    pub rate: Rate,
    /// The number of waits for a release that this limit was the last to allow.
    pub waits: u64,
    /// The length of these waits, in nanoseconds.
    pub waited: u64,
    /// The charges for releases that really left.
    pub charged: Charged,
    /// Items that it refused, or that gave way to a newer one while waiting for it.
    pub refused: u64,
    /// Items it was charged for that were retried, each retry counted.
    pub retried: u64,
    /// Items it was charged for whose command failed.
    pub failed: u64,
}

impl LimitStats {
    /// Counters at zero.
    pub fn new(rate: Rate) -> Self {
        let charged = Charged::default();
        LimitStats { rate, waits: 0, waited: 0, charged, refused: 0, retried: 0, failed: 0 }
    }
}

/// The counters of all limits, past and present.
pub(super) struct LimitCounts {
    limits: Vec<LimitStats>,
    /// The indices of the present limits among all.
    pub(super) places: Vec<usize>,
}

impl LimitCounts {
    pub(super) fn new(rates: &[Rate]) -> Self {
        let mut tally = LimitCounts { limits: Vec::new(), places: Vec::new() };
        tally.set_rates(rates, &[]);
        tally
    }

    /// Replaces the limits; those before were `charged` this. The counters of a limit that was there before go on.
    pub(super) fn set_rates(&mut self, rates: &[Rate], charged: &[Charged]) {
        self.limits = self.limits(charged);
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

    /// The counters of the present limit with this index, if there is one.
    pub(super) fn of(&mut self, limit: Option<usize>) -> impl Iterator<Item = &mut LimitStats> {
        let place = limit.and_then(|limit| self.places.get(limit)).copied();
        place.and_then(|place| self.limits.get_mut(place)).into_iter()
    }

    /// Calls `count` with the counters of the present limits that charged these costs.
    pub(super) fn each_charging(&mut self, costs: &[u64], count: impl Fn(&mut LimitStats)) {
        let charging = self.places.iter().zip(costs).filter(|(_, cost)| **cost > 0);
        charging.for_each(|(&place, _)| count(&mut self.limits[place]));
    }

    /// The counters of all limits. The present ones were `charged` this since they were added.
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

    fn wait(tally: &mut LimitCounts, limit: Option<usize>) {
        tally.of(limit).for_each(|limit| limit.waits += 1);
    }

    fn charged(releases: u64, cost: u64) -> Charged {
        Charged { releases, cost }
    }

    #[test]
    fn each_limit_is_counted_whatever_becomes_of_it() {
        let mut tally = LimitCounts::new(&rates(&["1/s", "2/s", "1/s"]));
        wait(&mut tally, Some(2));
        wait(&mut tally, None);
        tally.set_rates(&rates(&["3/s", "1/s", "1/s"]), &[charged(1, 1), charged(2, 2), charged(3, 9)]);
        wait(&mut tally, Some(0));
        wait(&mut tally, Some(2));
        let limits = tally.limits(&[charged(5, 5), charged(6, 6), charged(7, 7)]);
        let counts: Vec<_> =
            limits.iter().map(|limit| (limit.rate.count, limit.waits, limit.charged)).collect();
        let expected =
            [(1, 0, charged(7, 7)), (2, 0, charged(2, 2)), (1, 2, charged(10, 16)), (3, 1, charged(5, 5))];
        assert_eq!(counts, expected);
    }

    #[test]
    fn what_becomes_of_items_counts_for_the_limits_that_were_charged() {
        let mut tally = LimitCounts::new(&rates(&["1/s", "2/s", "2/s"]));
        tally.each_charging(&[1, 0, 4], |limit| limit.retried += 2);
        tally.each_charging(&[0, 0, 4], |limit| limit.failed += 5);
        let counts: Vec<_> = tally.limits(&[]).iter().map(|limit| (limit.retried, limit.failed)).collect();
        assert_eq!(counts, [(2, 0), (0, 0), (2, 5)]);
    }
}
