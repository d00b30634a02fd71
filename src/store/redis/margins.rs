//! Margins that the user has not given: all who share a state have to agree on them, so whoever is first decides.

use crate::config::Rate;
use crate::store::{Policy, Reserve};

/// The limits as the user gave them.
#[derive(Debug, Default)]
pub(super) struct Margins {
    /// Empty if there is nothing to choose.
    rates: Vec<Rate>,
    are_settled: bool,
}

impl Margins {
    pub(super) fn of(rates: &[Rate]) -> Self {
        let is_open = rates.iter().any(|rate| rate.margin == 0);
        Margins { rates: if is_open { rates.to_vec() } else { Vec::new() }, are_settled: false }
    }

    pub(super) fn rates(&self) -> &[Rate] {
        &self.rates
    }

    pub(super) fn are_open(&self) -> bool {
        !self.rates.is_empty() && !self.are_settled
    }

    /// The policy with margins of at least so many nanoseconds where none are given, if that is another one.
    pub(super) fn settle(&mut self, least: u64, ours: &Policy) -> Option<Policy> {
        self.are_settled = true;
        let margins = self.rates.iter().map(|rate| Reserve::REMOTE.margin(rate).max(least)).collect();
        Some(self.with(margins)).filter(|policy| policy.text != ours.text)
    }

    /// The policy that a state is kept for, if it differs from ours by margins that are not given, and by nothing else.
    pub(super) fn adopt(&mut self, theirs: &str, ours: &Policy) -> Option<Policy> {
        let margins: Vec<_> = Policy::rates(theirs).ok()?.iter().map(|rate| rate.margin).collect();
        if self.rates.is_empty() || margins.len() != self.rates.len() {
            return None;
        }
        self.are_settled = true;
        Some(self.with(margins)).filter(|policy| policy.text == theirs && policy.text != ours.text)
    }

    fn with(&self, margins: Vec<u64>) -> Policy {
        let rate = |(rate, margin): (&Rate, u64)| match rate.margin {
            0 => Rate { margin, ..rate.clone() },
            _ => rate.clone(),
        };
        let rates: Vec<_> = self.rates.iter().zip(margins).map(rate).collect();
        Policy::new(&rates, Reserve::REMOTE)
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

    fn policy(texts: &[&str]) -> Policy {
        Policy::new(&rates(texts), Reserve::REMOTE)
    }

    #[test]
    fn a_margin_is_as_long_as_the_way_demands_unless_it_is_given() {
        let given = ["10/s", "9/s,margin=5ms"];
        let mut margins = Margins::of(&rates(&given));
        assert!(margins.are_open());
        assert_eq!(margins.settle(1_000_000, &policy(&given)), None, "20 ms are more");
        let longer = margins.settle(30_000_000, &policy(&given)).unwrap();
        assert_eq!(longer, policy(&["10/s,margin=30ms", "9/s,margin=5ms"]));
        assert!(!margins.are_open());
        assert!(!Margins::of(&rates(&["9/s,margin=5ms"])).are_open());
    }

    #[test]
    fn whoever_is_first_decides_on_margins_and_on_nothing_else() {
        let given = ["10/s", "9/s,margin=5ms"];
        let mut margins = Margins::of(&rates(&given));
        let mut adopt = |theirs: &[&str]| margins.adopt(&policy(theirs).text, &policy(&given));
        let theirs = ["10/s,margin=30ms", "9/s,margin=5ms"];
        assert_eq!(adopt(&theirs), Some(policy(&theirs)));
        for other in
            [&["10/s,margin=30ms", "9/s,margin=6ms"][..], &["11/s,margin=30ms", "9/s,margin=5ms"], &["10/s"]]
        {
            assert_eq!(adopt(other), None, "{other:?}");
        }
        assert_eq!(Margins::default().adopt(&policy(&theirs).text, &policy(&given)), None);
    }
}
