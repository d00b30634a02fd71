//! Commands that are running, and what follows from how they end.

use std::collections::HashMap;
use std::rc::Rc;

use fastrand::Rng;

use crate::charge::Key;
use crate::config::{Backoff, Halt, Retry, Run};
use crate::exit::End;
use crate::sink::Ended;
use crate::source::Parcel;
use crate::time::Time;

/// Items whose command is running.
pub(super) struct Flight {
    pub(super) parcels: Vec<Parcel>,
    /// When they became next in line, and when the command started.
    pub(super) since: Time,
    pub(super) started: Time,
    /// What they were charged, and by which keys.
    pub(super) costs: Rc<[u64]>,
    pub(super) keys: Rc<[Key]>,
}

impl Flight {
    pub(super) fn records(&self) -> u64 {
        self.parcels.iter().map(Parcel::records).sum()
    }

    /// How long they are, with delimiters.
    pub(super) fn bytes(&self) -> u64 {
        self.parcels.iter().map(|parcel| parcel.block().bytes().len() as u64).sum()
    }

    /// How often they have been tried, this time included.
    pub(super) fn attempt(&self) -> u64 {
        self.parcels.first().map_or(1, Parcel::attempt)
    }
}

/// All commands that are running, and the rules for when they fail.
#[derive(Default)]
pub(super) struct Flights {
    in_flight: HashMap<u64, Flight>,
    retry: Retry,
    halt: Option<Halt>,
    jitter: Rng,
    /// Items done with, and those of them that failed.
    ended: u64,
    failed: u64,
}

/// What follows from the end of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// All is well.
    Done,
    /// Its items are tried again, after so many nanoseconds.
    Again(u64),
    /// Its items have failed for good.
    Failed,
}

impl Flights {
    /// By the rules of `run`; `seed` makes the jitter of backoffs.
    pub(super) fn new(run: &Run, seed: u64) -> Self {
        Flights {
            retry: run.retry.clone(),
            halt: run.halt,
            jitter: Rng::with_seed(seed),
            ..Flights::default()
        }
    }

    pub(super) fn take_off(&mut self, first: u64, flight: Flight) {
        self.in_flight.insert(first, flight);
    }

    pub(super) fn land(&mut self, first: u64) -> Option<Flight> {
        self.in_flight.remove(&first)
    }

    /// All that is in flight.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.in_flight.values_mut()
    }

    /// What follows from the end of a command that was tried for the `attempt`th time.
    pub(super) fn outcome(&mut self, ended: &Ended, attempt: u64) -> Outcome {
        if ended.end == End::Exited(0) {
            return Outcome::Done;
        }
        if attempt > self.retry.times || !self.is_worth_a_retry(ended.end) {
            return Outcome::Failed;
        }
        let backoff = self.retry.backoff.as_ref();
        let jitter = backoff.map_or(0, |backoff| backoff_after(attempt, backoff, &mut self.jitter));
        Outcome::Again(ended.retry_after.unwrap_or(jitter))
    }

    fn is_worth_a_retry(&self, end: End) -> bool {
        let codes = self.retry.backoff.as_ref().map_or(&[][..], |backoff| &backoff.codes);
        // 255 asks to stop, unless it is among the codes.
        if codes.is_empty() { end != End::Exited(255) } else { codes.contains(&end.code()) }
    }

    /// Counts items that are done with. Returns what is to be done if that ends the run.
    pub(super) fn count(&mut self, items: u64, has_failed: bool) -> Option<Halt> {
        self.ended += items;
        self.failed += if has_failed { items } else { 0 };
        self.halt.filter(|halt| has_failed && halt.is_reached(self.failed, self.ended))
    }
}

/// Exponential backoff with full jitter (Brooker, "Exponential Backoff And Jitter", 2015), but never below `least`.
fn backoff_after(attempt: u64, backoff: &Backoff, jitter: &mut Rng) -> u64 {
    let doublings = u32::try_from(attempt).unwrap_or(u32::MAX);
    let doubled = 2u64.checked_pow(doublings).and_then(|factor| backoff.least.checked_mul(factor));
    let most = doubled.filter(|_| backoff.least > 0).unwrap_or(backoff.most).min(backoff.most);
    jitter.u64(backoff.least..=most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flights(times: u64, backoff: Option<&str>) -> Flights {
        let backoff = backoff.map(|text| text.parse().unwrap());
        Flights { retry: Retry { times, backoff }, ..Flights::default() }
    }

    fn ended(end: End) -> Ended {
        Ended { first: 1, end, retry_after: None }
    }

    #[test]
    fn what_is_tried_again() {
        let table = [
            (0, None, End::Exited(1), 1, false),
            (2, None, End::Exited(1), 2, true),
            (2, None, End::Exited(1), 3, false),
            (2, None, End::Exited(255), 1, false),
            (2, None, End::Killed(9), 1, true),
            (2, Some("22=1..2"), End::Exited(22), 1, true),
            (2, Some("22=1..2"), End::Exited(1), 1, false),
            (2, Some("22=1..2"), End::Killed(9), 1, false),
            (2, Some("137=1..2"), End::Killed(9), 1, true),
            (2, Some("255=1..2"), End::Exited(255), 1, true),
            (2, Some("1..2"), End::Exited(255), 1, false),
            (2, Some("1..2"), End::Killed(15), 1, true),
        ];
        for (times, backoff, end, attempt, is_again) in table {
            let outcome = flights(times, backoff).outcome(&ended(end), attempt);
            assert_eq!(
                matches!(outcome, Outcome::Again(_)),
                is_again,
                "{times} {backoff:?} {end:?} {attempt}"
            );
        }
        assert_eq!(flights(0, None).outcome(&ended(End::Exited(0)), 1), Outcome::Done);
    }

    #[test]
    fn backoffs_double_with_full_jitter_between_their_bounds() {
        let backoff: Backoff = "1..10".parse().unwrap();
        let second = crate::time::SECOND;
        for seed in 0..1000 {
            for (attempt, most) in [(1, 2), (2, 4), (3, 8), (4, 10), (80, 10)] {
                let wait = backoff_after(attempt, &backoff, &mut Rng::with_seed(seed));
                assert!((second..=most * second).contains(&wait), "seed {seed}: {wait} after {attempt}");
            }
        }
    }

    #[test]
    fn what_a_command_asks_for_comes_first() {
        let ended = Ended { retry_after: Some(7), ..ended(End::Exited(1)) };
        assert_eq!(flights(1, Some("1..2")).outcome(&ended, 1), Outcome::Again(7));
    }
}
