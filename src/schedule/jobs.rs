//! Commands that run, and those that failed and are tried again.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::{Action, Failed};
use crate::charge::Charge;
use crate::config::{Backoff, Output, Retry, RetryOn, Run};
use crate::exit::{End, JobEnd};
use crate::gate::Request;
use crate::source::{Batch, Segment};
use crate::time::Time;

/// All attempts, and the rules for retries.
#[derive(Default)]
pub(super) struct Jobs {
    /// What is done with the output of commands; `None` if releases are no commands.
    output: Option<Output>,
    retry: Retry,
    jitter: Rng,
    has_overlooked: bool,
    /// True if the commands have been asked to end.
    is_interrupted: bool,
    /// The attempts that are running, and those that failed and are to be tried again, by the number of the first item.
    attempts: BTreeMap<u64, Box<Attempt>>,
    /// The number of those that are running, and of their items.
    running: (usize, u64),
    /// Those of the failed attempts whose items are not back in their lanes, by the end of their backoff.
    backing_off: BTreeSet<(Time, u64)>,
}

/// Items whose command is running, or has failed and is tried again.
pub struct Attempt {
    /// The items.
    pub batch: Batch,
    /// The instant at which the first of them became next in line and, if later, the end of a hold.
    pub eligible_at: Time,
    /// The same without holds.
    pub waited_from: Time,
    /// What was charged for all of them together.
    pub charge: Charge,
    /// The instant that was checked before the command started.
    pub started: Time,
    /// False once its command has ended.
    pub(super) runs: bool,
    /// How it failed, until that is told.
    pub(super) failed: Option<Failed>,
}

impl Attempt {
    /// The request that was admitted.
    pub(super) fn request(&self) -> Request<'_> {
        Request::new(self.eligible_at, &self.charge)
    }

    /// Its items for the next attempt, from `until` on.
    fn again(&self, until: Time) -> Vec<Segment> {
        let segments = self.batch.segments().iter().cloned();
        segments.map(|segment| segment.again(self.batch.first(), until)).collect()
    }
}

impl Jobs {
    /// Jobs under the rules of `run`; `seed` is for the jitter of backoffs.
    pub(super) fn new(run: &Run, seed: u64) -> Self {
        Jobs {
            output: Some(run.output),
            retry: run.retry.clone(),
            jitter: Rng::with_seed(seed),
            ..Jobs::default()
        }
    }

    /// True if releases are commands, which run on and whose ends are reported.
    pub(super) fn exist(&self) -> bool {
        self.output.is_some()
    }

    /// True if the output of a command waits for that of the items before.
    pub(super) fn keep_order(&self) -> bool {
        self.output == Some(Output::InOrder)
    }

    /// The rules for retries.
    pub(super) fn retry(&self) -> &Retry {
        &self.retry
    }

    pub(super) fn start(&mut self, attempt: Attempt) {
        self.running = (self.running.0 + 1, self.running.1 + attempt.batch.items());
        self.attempts.insert(attempt.batch.first(), Box::new(attempt));
    }

    /// Takes out a running attempt, which has ended.
    pub(super) fn end(&mut self, first: u64) -> Option<Box<Attempt>> {
        let attempt = self.attempts.remove(&first).filter(|attempt| attempt.runs)?;
        self.running = (self.running.0 - 1, self.running.1 - attempt.batch.items());
        Some(attempt)
    }

    /// Keeps an attempt that has `failed` and is tried again from `until` on. Returns its items unless it `backs_off`
    /// apart from its lane.
    pub(super) fn fail(
        &mut self,
        mut attempt: Box<Attempt>,
        failed: Failed,
        until: Time,
        backs_off: bool,
    ) -> Vec<Segment> {
        let first = failed.item;
        (attempt.failed, attempt.runs) = (Some(failed), false);
        // It may wait for long.
        attempt.batch.detach();
        let again = if backs_off { Vec::new() } else { attempt.again(until) };
        if backs_off {
            self.backing_off.insert((until, first));
        }
        self.attempts.insert(first, attempt);
        again
    }

    /// Items that begin with this one are done.
    pub(super) fn forget(&mut self, first: u64) {
        self.attempts.remove(&first);
    }

    /// The failures of all attempts that were to be tried again, once.
    pub(super) fn take_failed(&mut self) -> impl Iterator<Item = Failed> {
        self.attempts.values_mut().filter_map(|attempt| attempt.failed.take())
    }

    /// The number of commands that are running.
    pub(super) fn running(&self) -> usize {
        self.running.0
    }

    /// The number of items whose command is running.
    pub(super) fn items_running(&self) -> u64 {
        self.running.1
    }

    pub(super) fn attempt(&self, first: u64) -> Option<&Attempt> {
        self.attempts.get(&first).map(|attempt| &**attempt)
    }

    pub(super) fn running_mut(&mut self) -> impl Iterator<Item = &mut Attempt> {
        self.attempts.values_mut().map(|attempt| &mut **attempt).filter(|attempt| attempt.runs)
    }

    /// The ends of the first and the last backoff; `None` if nothing backs off.
    pub(super) fn backoffs(&self) -> Option<(Time, Time)> {
        Some((self.backing_off.first()?.0, self.backing_off.last()?.0))
    }

    /// The number of input bytes before the first item that backs off; `None` if nothing backs off.
    pub(super) fn offset(&self) -> Option<u64> {
        let attempts = self.backing_off.iter().filter_map(|(_, first)| self.attempts.get(first));
        attempts.flat_map(|attempt| attempt.batch.segments()).map(Segment::offset).min()
    }

    /// Takes out items whose backoff is over by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Vec<Segment>> {
        self.backing_off.first().filter(|(until, _)| *until <= now)?;
        let (until, first) = self.backing_off.pop_first()?;
        Some(self.attempts.get(&first)?.again(until))
    }

    /// The first signal asks the running commands to end, the second kills them.
    pub(super) fn interrupt(&mut self) -> Action {
        self.terminate().unwrap_or(Action::Kill)
    }

    /// Asks the running commands to end, unless they have been asked before.
    pub(super) fn terminate(&mut self) -> Option<Action> {
        (!std::mem::replace(&mut self.is_interrupted, true)).then_some(Action::Terminate)
    }

    /// True if the commands have been asked to end.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// The nanoseconds to wait before another attempt; `None` if the `number`th one, which has failed, was the last.
    pub(super) fn delay(&mut self, ended: &JobEnd, number: u64) -> Option<u64> {
        if number > self.retry.times || !self.is_worth_a_retry(ended) {
            return None;
        }
        let backoff = self.retry.backoff.as_ref();
        let jitter = backoff.map_or(0, |backoff| backoff_after(number, backoff, &mut self.jitter));
        Some(self.hold(ended).unwrap_or(jitter))
    }

    /// The pause that a server asks for, in nanoseconds, up to `--max-hold`.
    pub(super) fn hold(&self, ended: &JobEnd) -> Option<u64> {
        ended.retry_after.map(|asked| asked.min(self.retry.max_hold))
    }

    fn is_worth_a_retry(&self, JobEnd { end, http, .. }: &JobEnd) -> bool {
        // 255 means stop, unless it is to be retried.
        match self.retried() {
            [] => *end != End::Exited(255),
            on => on.iter().any(|on| on.includes(Some(end.code()), *http)),
        }
    }

    /// The ends that are retried; none, if all are.
    fn retried(&self) -> &[RetryOn] {
        self.retry.backoff.as_ref().map_or(&[], |backoff| &backoff.on)
    }

    /// The HTTP status of a command that succeeded, the first time that it is one to be retried: a sign that failures
    /// do not fail the command.
    pub(super) fn overlooked(&mut self, ended: &JobEnd) -> Option<u16> {
        let is_listed = |http: &u16| self.retried().iter().any(|on| on.includes(None, Some(*http)));
        let http = ended.http.filter(is_listed).filter(|_| !self.has_overlooked);
        self.has_overlooked |= http.is_some();
        http
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

    fn retries(times: u64, backoff: Option<&str>) -> Jobs {
        let backoff = backoff.map(|text| text.parse().unwrap());
        Jobs { retry: Retry { times, backoff, ..Retry::default() }, ..Jobs::default() }
    }

    fn ended(end: End) -> JobEnd {
        JobEnd::new(1, end)
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
            (2, Some("exit:137=1..2"), End::Killed(9), 1, true),
            (2, Some("exit:255=1..2"), End::Exited(255), 1, true),
            (2, Some("1..2"), End::Exited(255), 1, false),
            (2, Some("1..2"), End::Killed(15), 1, true),
        ];
        for (times, backoff, end, attempt, is_again) in table {
            let after = retries(times, backoff).delay(&ended(end), attempt);
            assert_eq!(after.is_some(), is_again, "{times} {backoff:?} {end:?} {attempt}");
        }
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
        assert_eq!(retries(1, Some("1..2")).delay(&ended, 1), Some(7));
    }
}
