//! Commands that are running, and what follows from how they end.

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;

use super::Failed;
use super::OwnedRequest;
use crate::config::{Backoff, Halt, HaltOn, Retry, Run, Share};
use crate::exit::{End, JobEnd};
use crate::source::Segment;
use crate::time::Time;

/// Items whose command is running.
pub struct Attempt {
    /// The items.
    pub segments: Vec<Segment>,
    /// What was asked for them.
    pub asked: OwnedRequest,
    /// The instant that was checked before the command started.
    pub started: Time,
}

impl Attempt {
    pub(super) fn items(&self) -> u64 {
        self.segments.iter().map(Segment::items).sum()
    }

    /// How long they are, with delimiters.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes().len() as u64).sum()
    }

    /// How often they have been tried, this time included.
    pub fn number(&self) -> u64 {
        self.segments.first().map_or(1, Segment::attempt)
    }
}

/// What follows from the end of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// All is well.
    Completed,
    /// Its items are tried again after so many nanoseconds.
    Retry {
        after: u64,
        /// The server asks for it: all that goes by the same keys waits as well.
        holds: bool,
    },
    /// Its items have failed for good.
    Failed,
}

/// All commands that are running, and the rules for when they fail.
#[derive(Default)]
pub(super) struct Attempts {
    in_flight: HashMap<u64, Attempt>,
    items_in_flight: u64,
    /// What waits for its next attempt, by when that may be and its first item.
    backing_off: BTreeMap<(Time, u64), Vec<Segment>>,
    /// How the last attempt failed of what waits for its next one, by its first item.
    failed_so_far: BTreeMap<u64, Failed>,
    retry: Retry,
    halt: Option<Halt>,
    jitter: Rng,
    /// Items completed or failed, and those of them that failed.
    ended: u64,
    failed: u64,
    /// As many as were wanted.
    have_succeeded: bool,
}

impl Attempts {
    /// By the rules of `run`; `seed` makes the jitter of backoffs.
    pub(super) fn new(run: &Run, seed: u64) -> Self {
        Attempts {
            retry: run.retry.clone(),
            halt: run.halt,
            jitter: Rng::with_seed(seed),
            ..Attempts::default()
        }
    }

    pub(super) fn start(&mut self, first: u64, attempt: Attempt) {
        self.failed_so_far.remove(&first);
        self.items_in_flight += attempt.items();
        self.in_flight.insert(first, attempt);
    }

    pub(super) fn end(&mut self, first: u64) -> Option<Attempt> {
        let attempt = self.in_flight.remove(&first)?;
        self.items_in_flight -= attempt.items();
        Some(attempt)
    }

    pub(super) fn get(&self, first: u64) -> Option<&Attempt> {
        self.in_flight.get(&first)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Attempt> {
        self.in_flight.values_mut()
    }

    /// How many items have commands running.
    pub(super) fn items_in_flight(&self) -> u64 {
        self.items_in_flight
    }

    /// How many commands are running.
    pub(super) fn running(&self) -> usize {
        self.in_flight.len()
    }

    /// What has failed is to be tried again.
    pub(super) fn fail_so_far(&mut self, failed: Failed) {
        self.failed_so_far.insert(failed.item, failed);
    }

    pub(super) fn has_failed_so_far(&self, first: u64) -> bool {
        self.failed_so_far.contains_key(&first)
    }

    /// What has failed and will not be tried again, as the run is over.
    pub(super) fn take_failed_so_far(&mut self) -> impl Iterator<Item = Failed> {
        std::mem::take(&mut self.failed_so_far).into_values()
    }

    /// The items from this one on are done with.
    pub(super) fn settle(&mut self, first: u64) {
        self.failed_so_far.remove(&first);
    }

    /// Whether what fails may be tried again.
    pub(super) fn may_retry(&self) -> bool {
        self.retry.times > 0
    }

    /// Items wait until an instant before they are tried again.
    pub(super) fn back_off(&mut self, until: Time, segments: Vec<Segment>) {
        let first = segments.first().map_or(0, Segment::first);
        self.backing_off.insert((until, first), segments);
    }

    /// When the first of the items that back off may be tried again.
    pub(super) fn backoff_until(&self) -> Option<Time> {
        self.backing_off.keys().next().map(|(until, _)| *until)
    }

    /// Items whose backoff is over by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Vec<Segment>> {
        let entry = self.backing_off.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// What follows from the end of a command that was tried for the `number`th time.
    pub(super) fn outcome(&mut self, ended: &JobEnd, number: u64) -> Outcome {
        if ended.end == End::Exited(0) {
            return Outcome::Completed;
        }
        if number > self.retry.times || !self.is_worth_a_retry(ended.end) {
            return Outcome::Failed;
        }
        let backoff = self.retry.backoff.as_ref();
        let jitter = backoff.map_or(0, |backoff| backoff_after(number, backoff, &mut self.jitter));
        let hold = self.hold(ended);
        Outcome::Retry { after: hold.unwrap_or(jitter), holds: hold.is_some() }
    }

    /// For how many nanoseconds a server asks for a pause, as far as it is heeded.
    pub(super) fn hold(&self, ended: &JobEnd) -> Option<u64> {
        ended.retry_after.map(|asked| asked.min(self.retry.max_hold))
    }

    fn is_worth_a_retry(&self, end: End) -> bool {
        let codes = self.retry.backoff.as_ref().map_or(&[][..], |backoff| &backoff.codes);
        // 255 asks to stop, unless it is among the codes.
        if codes.is_empty() { end != End::Exited(255) } else { codes.contains(&end.code()) }
    }

    /// Whether it matters how many items there are.
    pub(super) fn counts_all(&self) -> bool {
        self.halt.is_some_and(|halt| matches!(halt.share, Share::Percent(_)))
    }

    /// Whether as many items as were wanted have succeeded: what becomes of the others is of no concern.
    pub(super) fn have_succeeded(&self) -> bool {
        self.have_succeeded
    }

    /// How many items count for the end of the run.
    pub(super) fn counted(&self, on: HaltOn) -> u64 {
        match on {
            HaltOn::Failed => self.failed,
            HaltOn::Succeeded => self.ended - self.failed,
            HaltOn::Done => self.ended,
        }
    }

    /// Counts items that completed or failed. Returns what is to be done if that ends the run.
    pub(super) fn count(&mut self, items: u64, has_failed: bool, all: Option<u64>) -> Option<Halt> {
        self.ended += items;
        self.failed += if has_failed { items } else { 0 };
        let reached = self.halt.filter(|halt| halt.is_reached(has_failed, self.failed, self.ended, all));
        self.have_succeeded |= reached.is_some_and(|halt| halt.on == HaltOn::Succeeded);
        reached
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

    fn attempts(times: u64, backoff: Option<&str>) -> Attempts {
        let backoff = backoff.map(|text| text.parse().unwrap());
        Attempts { retry: Retry { times, backoff, ..Retry::default() }, ..Attempts::default() }
    }

    fn ended(end: End) -> JobEnd {
        JobEnd { first: 1, end, timed_out: false, retry_after: None }
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
            let outcome = attempts(times, backoff).outcome(&ended(end), attempt);
            assert_eq!(
                matches!(outcome, Outcome::Retry { .. }),
                is_again,
                "{times} {backoff:?} {end:?} {attempt}"
            );
        }
        assert_eq!(attempts(0, None).outcome(&ended(End::Exited(0)), 1), Outcome::Completed);
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
    fn backoffs_from_nothing_have_their_upper_bound_at_once() {
        let backoff: Backoff = "0..10".parse().unwrap();
        let waits = (0..100).map(|seed| backoff_after(1, &backoff, &mut Rng::with_seed(seed)));
        assert!(waits.max() > Some(5 * crate::time::SECOND));
    }

    #[test]
    fn what_a_command_asks_for_comes_first() {
        let ended = JobEnd { retry_after: Some(7), ..ended(End::Exited(1)) };
        assert_eq!(attempts(1, Some("1..2")).outcome(&ended, 1), Outcome::Retry { after: 7, holds: true });
    }
}
