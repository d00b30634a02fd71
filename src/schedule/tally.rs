//! How often each limit was waited for.

use crate::config::Rate;
use crate::time::Time;

/// Counts, for each limit that there is or was, how often it was what a release waited for.
pub(super) struct Tally {
    limits: Vec<(Rate, u64)>,
    /// Where the present limits stand among all.
    places: Vec<usize>,
    /// What was waited for last.
    last: Option<Time>,
}

impl Tally {
    pub(super) fn new(rates: &[Rate]) -> Self {
        let mut tally = Tally { limits: Vec::new(), places: Vec::new(), last: None };
        tally.set_rates(rates);
        tally
    }

    /// These are the limits now. One that was there before goes on counting.
    pub(super) fn set_rates(&mut self, rates: &[Rate]) {
        self.places.clear();
        for rate in rates {
            let known = (0..self.limits.len())
                .find(|place| self.limits[*place].0 == *rate && !self.places.contains(place));
            self.places.push(known.unwrap_or(self.limits.len()));
            if known.is_none() {
                self.limits.push((rate.clone(), 0));
            }
        }
    }

    /// Whether another instant was waited for before. What arrives meanwhile interrupts a wait, but begins no other.
    pub(super) fn is_new(&self, until: Time) -> bool {
        self.last != Some(until)
    }

    /// A release waits until an instant, for one of the limits or for something else.
    pub(super) fn note(&mut self, until: Time, limit: Option<usize>) {
        self.last = Some(until);
        if let Some(&place) = limit.and_then(|limit| self.places.get(limit)) {
            self.limits[place].1 += 1;
        }
    }

    pub(super) fn limits(&self) -> &[(Rate, u64)] {
        &self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, RateText};

    fn rates(texts: &[&str]) -> Vec<Rate> {
        let rate = |text: &&str| text.parse::<RateText>().unwrap().resolve(&Defaults::default()).unwrap();
        texts.iter().map(rate).collect()
    }

    #[test]
    fn each_limit_is_counted_whatever_becomes_of_it() {
        let mut tally = Tally::new(&rates(&["1/s", "2/s", "1/s"]));
        tally.note(Time(1), Some(2));
        tally.note(Time(2), None);
        tally.set_rates(&rates(&["3/s", "1/s", "1/s"]));
        tally.note(Time(3), Some(0));
        tally.note(Time(4), Some(2));
        let counts: Vec<_> = tally.limits().iter().map(|(rate, count)| (rate.count, *count)).collect();
        assert_eq!(counts, [(1, 0), (2, 0), (1, 2), (3, 1)]);
        assert!(tally.is_new(Time(5)) && !tally.is_new(Time(4)));
    }
}
