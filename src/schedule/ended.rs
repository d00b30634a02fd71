//! What becomes of items when their command has ended.

use nix::sys::signal::Signal;

use super::attempts::{Attempt, Outcome};
use super::{Action, Failed, Failure, HoldBegun, Notice, Schedule};
use crate::exit::{Exit, JobEnd};
use crate::source::Segment;
use crate::time::{SECOND, Time};

/// A shorter pause is over before it is read.
const LEAST_TOLD: u64 = SECOND;

impl Schedule {
    /// The items whose command began with the item of this number.
    pub fn attempt(&self, first: u64) -> Option<&Attempt> {
        self.attempts.get(first)
    }

    /// Whether the items whose command began with the item of this number wait for another attempt.
    pub fn is_tried_again(&self, first: u64) -> bool {
        self.attempts.has_failed_so_far(first)
    }

    /// A command has ended: its items are done with, or tried again.
    pub fn job_ended(&mut self, now: Time, ended: &JobEnd) {
        let Some(attempt) = self.attempts.end(ended.first) else { return };
        let request = attempt.asked.request();
        self.rules.gate.finish(now, &request);
        let is_shared = self.hold(now, ended, &attempt);
        match self.attempts.outcome(ended, attempt.number()) {
            Outcome::Retry { after, holds } if !self.stopping => {
                let until = now.checked_add(after.into()).unwrap_or(Time(u64::MAX));
                self.stats.settled -= attempt.items();
                let failed = self.failed(ended, &attempt);
                self.attempts.fail_so_far(failed);
                // What is shared is held by the store, and may be lifted there.
                let until = if is_shared { now } else { until };
                self.retry(ended.first, attempt.segments, until, holds);
            }
            Outcome::Completed => self.complete(ended.first, &attempt, None),
            Outcome::Retry { .. } | Outcome::Failed => {
                let failed = self.failed(ended, &attempt);
                if !self.attempts.have_succeeded() {
                    self.tell(Notice::Failed(failed));
                }
                self.complete(ended.first, &attempt, Some(Exit::of_command(ended.end)));
            }
        }
    }

    /// Releases nothing with the same keys for as long as a server asks, whether or not the command has failed. Returns
    /// whether all who share the limits are told.
    fn hold(&mut self, now: Time, ended: &JobEnd, attempt: &Attempt) -> bool {
        let Some((asked, held)) = ended.retry_after.zip(self.attempts.hold(ended)) else { return false };
        let until = now.checked_add(held.into()).unwrap_or(Time(u64::MAX));
        let (known, is_shared) = self.hold_until(now, attempt, until);
        // Many commands may be told of the same pause, each in other words.
        let is_news = until.since(known.max(now)) >= LEAST_TOLD.max(known.since(now));
        if is_news && !self.stopping {
            let by_key = !self.mode.in_order && !attempt.asked.keys.is_empty();
            let text = self.text_of(attempt);
            self.tell(Notice::Hold(HoldBegun { item: ended.first, text, asked, held, until, by_key }));
        }
        is_shared
    }

    /// Holds what has the same keys as this, here or for all who share the limits. Returns until when that was known already,
    /// and whether it is for all.
    fn hold_until(&mut self, now: Time, attempt: &Attempt, until: Time) -> (Time, bool) {
        let request = attempt.asked.request();
        let known = self.rules.gate.held_until(&request);
        match self.rules.gate.hold(now, &request, until) {
            Some(order) => {
                self.actions.push_back(Action::Book(order));
                (known, true)
            }
            None => (self.queue.hold(now, &attempt.asked.keys, until, &self.rules), false),
        }
    }

    /// Tries again after `until`. A backoff delays its own items only; `holds`, from a server, delays the lane.
    fn retry(&mut self, first: u64, segments: Vec<Segment>, until: Time, holds: bool) {
        let again = segments.into_iter().map(|segment| segment.again(first, until)).collect::<Vec<_>>();
        if holds || self.mode.in_order {
            self.requeue(again);
        } else {
            self.attempts.back_off(until, again);
        }
    }

    /// Requeues the items whose backoff is over, each before all that follow it in the input.
    pub(super) fn resume(&mut self, now: Time) {
        while let Some(segments) = self.attempts.take_due(now) {
            self.requeue(segments);
        }
    }

    fn complete(&mut self, first: u64, attempt: &Attempt, failure: Option<Exit>) {
        self.stats.bytes += attempt.bytes();
        if failure.is_some() {
            self.tally.fail(&attempt.asked.costs, attempt.items());
        }
        self.finish(first, attempt.items(), failure);
    }

    /// What is to be told of an attempt that failed.
    fn failed(&self, ended: &JobEnd, attempt: &Attempt) -> Failed {
        let why = if ended.timed_out { Failure::TimedOut } else { Failure::Ended(ended.end) };
        Failed { item: ended.first, items: attempt.items(), text: self.text_of(attempt), why }
    }

    /// The first item.
    fn text_of(&self, attempt: &Attempt) -> Vec<u8> {
        let bytes = attempt.segments.first().map_or(&[][..], Segment::bytes);
        self.delimiter.split(bytes).next().unwrap_or_default().to_vec()
    }

    /// Items are done with, well or not.
    pub(super) fn finish(&mut self, first: u64, items: u64, failure: Option<Exit>) {
        self.attempts.settle(first);
        self.settle(first);
        if let Some(exit) = failure {
            self.stats.failed += items;
            self.exit = if self.attempts.have_succeeded() { self.exit } else { self.exit.max(exit) };
            self.stopping |= exit.ends_the_run();
        }
        let all = self.all_items();
        if let Some(halt) = self.attempts.count(items, failure.is_some(), all).filter(|_| !self.stopping) {
            self.tell(Notice::Halted { items: self.attempts.counted(halt.on), on: halt.on });
            self.stopping = true;
            self.exit = if self.attempts.have_succeeded() { Exit::Done } else { self.exit };
            if halt.now {
                self.pass_on();
            }
        }
    }

    /// How many items there are, once that is known. Blank ones that were not looked at yet are among them.
    fn all_items(&self) -> Option<u64> {
        let all = || self.intake.total() - self.intake.blank() - self.intake.skipped();
        self.rules.batcher.has_ended().then(all)
    }

    /// The first signal asks the running commands to end, the second kills them.
    pub(super) fn pass_on(&mut self) {
        let signal = if self.interrupted { Signal::SIGKILL } else { Signal::SIGTERM };
        self.actions.push_back(Action::Signal(signal));
        self.interrupted = true;
    }
}
