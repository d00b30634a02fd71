//! What becomes of items when their command has ended.

use nix::sys::signal::Signal;

use super::attempts::{Attempt, Outcome};
use super::{Action, Failed, Failure, Notice, Schedule};
use crate::exit::{Exit, JobEnd};
use crate::source::Segment;
use crate::time::Time;

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
        self.rules.limits.finish(now, &request);
        self.paused.finish(now, &request);
        self.queue.reconsider(&self.rules);
        match self.attempts.outcome(ended, attempt.number()) {
            Outcome::Retry { after, holds } if !self.stopping => {
                let until = now.checked_add(after.into()).unwrap_or(Time(u64::MAX));
                self.stats.settled -= attempt.items();
                let failed = self.failed(ended, &attempt);
                failed.into_iter().for_each(|failed| self.attempts.fail_so_far(failed));
                self.retry(ended.first, attempt.segments, until, holds);
            }
            Outcome::Completed => self.complete(ended.first, &attempt, None),
            Outcome::Retry { .. } | Outcome::Failed => {
                self.complete(ended.first, &attempt, Some(Exit::of_command(ended.end)));
                let failed = self.failed(ended, &attempt);
                let failed = failed.filter(|_| !self.attempts.have_succeeded());
                failed.into_iter().for_each(|failed| self.tell(Notice::Failed(failed)));
            }
        }
    }

    /// Tries again after `until`. A backoff delays its own items only; `holds`, from `Retry-After`, delays the lane.
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
    fn failed(&self, ended: &JobEnd, attempt: &Attempt) -> Option<Failed> {
        let segment = attempt.segments.first()?;
        let text = self.delimiter.split(segment.bytes()).next().unwrap_or_default().to_vec();
        let why = if ended.timed_out { Failure::TimedOut } else { Failure::Ended(ended.end) };
        Some(Failed { item: ended.first, items: attempt.items(), text, why })
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
