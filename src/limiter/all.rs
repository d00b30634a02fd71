//! Several limits at once.

use super::{Ask, Limiter, Verdict};
use crate::time::Time;

/// Allows what every one of its limits allows. With no limit at all, everything.
#[derive(Default)]
pub struct All(Vec<Box<dyn Limiter>>);

impl FromIterator<Box<dyn Limiter>> for All {
    fn from_iter<I: IntoIterator<Item = Box<dyn Limiter>>>(limits: I) -> Self {
        All(limits.into_iter().collect())
    }
}

impl Limiter for All {
    fn earliest(&self, ask: &Ask) -> Verdict {
        let answers = self.0.iter().map(|limit| limit.earliest(ask));
        answers.max().unwrap_or(Verdict::At(ask.since))
    }

    fn room(&self, now: Time, ask: &Ask) -> u64 {
        self.0.iter().map(|limit| limit.room(now, ask)).min().unwrap_or(u64::MAX)
    }

    fn commit(&mut self, now: Time, ask: &Ask) {
        self.0.iter_mut().for_each(|limit| limit.commit(now, ask));
    }

    fn drain(&mut self, at: Time) {
        self.0.iter_mut().for_each(|limit| limit.drain(at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::instants;
    use super::super::{Fixed, Interval, Sliding};
    use super::*;

    #[test]
    fn the_latest_answer_counts_and_every_limit_is_charged() {
        let mut limiter = All::from_iter([
            Box::new(Interval::new(1, 2)) as Box<dyn Limiter>,
            Box::new(Sliding::new(3, 100)),
        ]);
        assert_eq!(instants(&mut limiter, &[0; 7]), [0, 2, 4, 100, 102, 104, 200]);
    }

    #[test]
    fn asking_never_charges() {
        let limiter = All::from_iter([Box::new(Fixed::new(1, 10)) as Box<dyn Limiter>]);
        let ask = Ask { since: Time(3), cost: 1 };
        for _ in 0..5 {
            assert_eq!(limiter.earliest(&ask), Verdict::At(Time(3)));
        }
    }
}
