//! The results of releases: running commands, counters, notices, and what these mean for the run.

use super::account::Account;
use super::course::Course;
use super::jobs::{Attempt, Jobs};
use super::{Action, Admission, Notice};
use crate::config::{Halt, HaltOn, Share};
use crate::exit::Exit;
use crate::source::Batch;

/// Owns what becomes of items that have left or were given up.
pub(super) struct Results {
    pub(super) jobs: Jobs,
    pub(super) account: Account,
    pub(super) course: Course,
    /// `--halt` is satisfied by successes, so the results of other items no longer matter.
    pub(super) have_succeeded: bool,
}

/// The items still to be sent.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// The number of the first item still to be sent.
    pub(super) next: u64,
    /// The number of all items, once the input has ended.
    pub(super) all: Option<u64>,
}

impl Results {
    pub(super) fn new(account: Account) -> Self {
        Results { jobs: Jobs::default(), account, course: Course::new(), have_succeeded: false }
    }

    /// The number of items that are done, without those whose command is running.
    pub(super) fn done(&self) -> u64 {
        self.account.stats.settled - self.jobs.items_in_flight
    }

    /// True if the request of a release must be kept until it is over.
    pub(super) fn need_requests(&self) -> bool {
        self.jobs.exist || self.account.observer.is_some()
    }

    /// Items have left: with commands they are running now, otherwise they are done.
    pub(super) fn start(&mut self, batch: Batch, admission: &mut Admission) {
        if !self.jobs.exist {
            self.account.stats.bytes += batch.bytes() as u64;
        } else if let Some((_, since, charge)) = admission.asked.pop().filter(|_| !batch.is_empty()) {
            self.jobs.start(Attempt { batch, since, charge, started: admission.checked });
        }
    }

    /// Rejects an item that can never be sent.
    pub(super) fn reject(&mut self, item: u64, notice: Notice, exit: Exit, ahead: Ahead) {
        self.account.stats.settled += 1;
        self.course.tell(notice);
        self.finish(item, 1, Some(exit), ahead);
    }

    /// Completes an attempt whose command has ended and is not retried.
    pub(super) fn complete(&mut self, attempt: &Attempt, failure: Option<Exit>, ahead: Ahead) {
        self.account.stats.bytes += attempt.batch.bytes() as u64;
        if failure.is_some() {
            let items = attempt.batch.items();
            self.account.limits.each_charging(&attempt.charge.costs, |limit| limit.failed += items);
        }
        self.finish(attempt.batch.first(), attempt.batch.items(), failure, ahead);
    }

    /// Items are done, successfully or not.
    fn finish(&mut self, first: u64, items: u64, failure: Option<Exit>, ahead: Ahead) {
        self.jobs.retries.failed_so_far.remove(&first);
        self.retire(first, ahead.next);
        if let Some(exit) = failure {
            self.account.stats.failed += items;
            self.account.stats.ended += if self.jobs.is_interrupted { items } else { 0 };
            if !self.have_succeeded {
                self.course.raise(exit);
            }
            if exit.ends_the_run() {
                self.course.is_stopping = true;
            }
        }
        let has_failed = failure.is_some();
        self.halt_if(|halt, failed, ended| halt.is_reached(has_failed, failed, ended, ahead.all));
    }

    /// Ends the run if the items so far are the percentage asked for of `all` items, whose number is now known.
    pub(super) fn know_all(&mut self, all: u64) {
        let is_share = |halt: &Halt| matches!(halt.share, Share::Percent(_));
        self.halt_if(|halt, failed, ended| {
            ended > 0
                && is_share(halt)
                && halt.is_reached(halt.on == HaltOn::Failed, failed, ended, Some(all))
        });
    }

    /// Ends the run if `is_reached`, given the number of items that have failed and the number that have ended. Running
    /// commands and the exit are still at stake if the run was stopped before.
    fn halt_if(&mut self, is_reached: impl Fn(&Halt, u64, u64) -> bool) {
        let stats = &self.account.stats;
        let (failed, ended) = (stats.failed, self.done() - stats.refused);
        let Some(halt) = self.jobs.halt.take_if(|halt| is_reached(halt, failed, ended)) else { return };
        if !self.course.is_stopping {
            let items = match halt.on {
                HaltOn::Failed => failed,
                HaltOn::Succeeded => ended - failed,
                HaltOn::Done => ended,
            };
            self.course.tell(Notice::Halted { items, on: halt.on });
        }
        self.have_succeeded = halt.on == HaltOn::Succeeded;
        match self.have_succeeded {
            true => self.course.succeed(),
            false => self.course.is_stopping = true,
        }
        if halt.now {
            self.jobs.terminate().into_iter().for_each(|action| self.course.push(action));
        }
    }

    /// Reports that an item is done and how far items have been sent, if outputs are kept in order.
    pub(super) fn retire(&mut self, first: u64, next: u64) {
        if self.jobs.keep_order {
            self.course.push(Action::Retire { first, next });
        }
    }
}
