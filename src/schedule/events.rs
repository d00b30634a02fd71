//! Events: the input of the scheduler. The driver reports each with the instant at which it happens.

use anyhow::{Context, Error};

use super::action::LEAST_TOLD;
use super::admission::AlikeReleases;
use super::jobs::Attempt;
use super::{Action, Admission, Failed, Failure, HoldBegun, Incoming, Notice, Schedule};
use crate::charge::Charge;
use crate::config::{Halt, HaltOn, OnLimit, Rate, check_shared, keys};
use crate::exit::{End, Exit, JobEnd};
use crate::gate::{Answer, Feedback, Order, Request, Reservations};
use crate::source::{Batch, LONG_LINE, Segment, Unfit};
use crate::time::{Time, Wall};

impl Schedule {
    /// From `now` on, the wall clock shows this. Call it each time the clock has been set.
    pub fn set_wall(&mut self, now: Time, wall: Wall) {
        self.gate.set_wall(now, wall);
        self.ending.set_wall(wall);
    }

    /// Items have arrived.
    pub fn input(&mut self, block: Segment) {
        // Input that never pauses would replace what waits for ever. All that came before this item is known.
        let replaces = self.options.on_limit == OnLimit::Latest;
        if replaces && self.upcoming.at().is_some_and(|next| block.arrival() > next) {
            self.incoming = Incoming::Known;
        }
        self.input.put(block);
    }

    /// There will be no more items; with an error if that is not the end of the input. Either way, what was read is
    /// still released.
    pub fn end_of_input(&mut self, now: Time, error: Option<Error>) {
        self.end_input(now, error);
        let all = self.input.items();
        // The percentage of all items that `--halt` asks for may have ended.
        let is_reached = |halt: &Halt, failed, ended| {
            ended > 0 && halt.is_reached(halt.on == HaltOn::Failed, failed, ended, Some(all))
        };
        self.halt_if(is_reached);
    }

    pub(super) fn end_input(&mut self, now: Time, error: Option<Error>) {
        self.input.end(error);
        self.lanes.end(now, &self.gate);
    }

    /// The run ends although only a part of the next item was read: it is left. Returns true if that changes how the
    /// run ends.
    pub fn leave_begun_item(&mut self) -> bool {
        self.input.leave_begun_item();
        let is_left = self.ending.take_in_time() && self.ending.exit() < Exit::Refused;
        if is_left {
            self.time_is_up();
        }
        is_left
    }

    /// The awaited instant has come, and all that arrived by then was reported, if the wait accepted input.
    pub fn due(&mut self) {
        if self.incoming == Incoming::Awaited {
            self.incoming = Incoming::Known;
        }
    }

    /// The limits have changed; the new ones keep the history of past releases.
    pub fn change_limits(&mut self, now: Time, rates: Vec<Rate>) {
        self.account.extend_wait(now);
        self.account.set_rates(&rates);
        let are_other = keys(self.gate.rates()) != keys(&rates);
        self.gate.set_limits(now, rates.clone());
        // The sums in its charges are by the old limits.
        self.spare = self.spare.take().map(|_| Box::default());
        self.lanes.set_terms(&self.gate);
        let waiting = self.lanes.take_all(now, are_other);
        let bound = self.gate.reservations().map_or(&[][..], |slots| &slots.terms().most);
        self.input.change_limits(waiting, &rates, bound);
        // The new limits will count the ends of running attempts.
        for attempt in self.jobs.running_mut() {
            let segments = attempt.batch.segments().iter().cloned();
            let charges = segments.flat_map(|segment| self.input.recharge(segment)).map(|items| items.charge);
            let batches = &self.gate.properties().batches;
            let sum =
                charges.reduce(|sum, next| Charge { costs: batches.sum(&sum.costs, &next.costs), ..sum });
            sum.into_iter().for_each(|sum| attempt.charge = sum);
            self.gate.local_mut().resume(now, &attempt.request());
        }
        self.actions.notify(Notice::Limits(rates));
    }

    /// The first `items` of an admission have left by `now`. The others are put back.
    pub fn sent(&mut self, now: Time, mut admission: Box<Admission>, items: u64) {
        let good_until = admission.good_until();
        self.commit(now, &mut admission, items);
        self.account.leave(now, &admission, items);
        if items > 0 {
            self.good_until = good_until;
            self.lanes.batcher().was_timely();
        }
        if items < admission.batch.items() {
            let left = admission.batch.take(items, self.input.delimiter());
            self.requeue(now, admission.batch.segments().to_vec());
            admission.batch = left;
        }
        if !self.jobs.exist() {
            self.account.pass_on(admission.batch.bytes());
        } else if items > 0
            && let Some(AlikeReleases { charge, eligible_at, waited_from, .. }) = admission.asked.pop()
        {
            self.jobs.start(Attempt {
                batch: std::mem::take(&mut admission.batch),
                eligible_at,
                waited_from,
                charge,
                started: admission.checked,
                runs: true,
                failed: None,
            });
        }
        self.recycle(now, admission);
    }

    /// An admission could not be sent, for lack of a resource that other processes use. It is tried again after a
    /// pause.
    pub fn busy(&mut self, now: Time, admission: Box<Admission>, pause: u64) {
        self.sent(now, admission, 0);
        self.upcoming.postpone(now.saturating_add(pause));
    }

    /// An admission was not sent, as its slot had ended by the time it was formed.
    pub fn late(&mut self, now: Time, admission: Box<Admission>) {
        self.lanes.batcher().was_late(admission.batch.items());
        self.sent(now, admission, 0);
    }

    /// An admission was too long for the system, despite its known capacity: it is made smaller, as xargs does.
    pub fn too_long(&mut self, now: Time, mut admission: Box<Admission>) {
        let items = admission.batch.items();
        if items > 1 {
            self.lanes.batcher().shrink(items);
            return self.sent(now, admission, 0);
        }
        let why = Failure::ArgumentError(LONG_LINE);
        let failed = Failed::new(&admission.batch, self.input.delimiter(), why);
        self.commit(now, &mut admission, 0);
        self.reject(failed.item, Notice::Failed(failed), Exit::CommandFailed);
        self.recycle(now, admission);
    }

    /// A command has ended: its items are done or tried again.
    pub fn job_ended(&mut self, now: Time, ended: &JobEnd) {
        let Some(attempt) = self.jobs.end(ended.first) else { return };
        self.gate.local_mut().finish(now, &attempt.request());
        // What fails otherwise says nothing of a rate that is to be found.
        let is_throttled = self.jobs.retry().is_throttled(ended);
        if is_throttled || ended.end == End::Exited(0) {
            let held_until = self.jobs.hold(ended).map_or(Time::ZERO, |held| now.saturating_add(held));
            let feedback = Feedback { started: attempt.started, is_throttled, held_until };
            self.gate.local_mut().learn(now, &attempt.request(), &feedback);
        }
        let is_shared = self.hold(now, ended, &attempt);
        if let Some(said) = ended.unread.clone() {
            let text = attempt.batch.first_text(self.input.delimiter());
            self.actions.notify(Notice::Unread { item: ended.first, text, said });
        }
        if ended.end == End::Exited(0) {
            let overlooked = self.jobs.overlooked(ended);
            overlooked
                .into_iter()
                .for_each(|http| self.actions.notify(Notice::Overlooked(ended.first, http)));
            return self.complete(&attempt, None);
        }
        let why = if ended.timed_out { Failure::TimedOut } else { Failure::Ended(ended.end) };
        let failed = Failed::new(&attempt.batch, self.input.delimiter(), why);
        let delay = self.jobs.delay(ended, attempt.batch.attempt());
        let Some(delay) = delay.filter(|_| !self.ending.is_stopping()) else {
            if self.ending.tells_failures() {
                self.actions.notify(Notice::Failed(failed));
            }
            return self.complete(&attempt, Some(why.exit()));
        };
        self.account.retry(&attempt);
        // A shared hold is kept by the store, where it may be lifted.
        let until = if is_shared { now } else { now.saturating_add(delay) };
        // A backoff delays only its own items; a pause that a server asked for delays the lane.
        let backs_off = ended.retry_after.is_none() && !self.options.in_order;
        let again = self.jobs.fail(attempt, failed, until, backs_off);
        self.requeue(now, again);
    }

    /// Holds everything with the same keys as long as a server asks, whether or not the command failed. Returns true if
    /// the hold is reported to the other runs that share the limits.
    fn hold(&mut self, now: Time, ended: &JobEnd, attempt: &Attempt) -> bool {
        let Some((asked, held)) = ended.retry_after.zip(self.jobs.hold(ended)) else { return false };
        let (until, request) = (now.saturating_add(held), attempt.request());
        let (known, report) = match self.gate.reservations_mut() {
            Some(slots) => (slots.held_until(&request), Some(slots.hold(now, &request, until))),
            None => (self.lanes.hold(now, &attempt.charge.keys, until, &self.gate), None),
        };
        let is_shared = report.is_some();
        self.actions.store(report);
        // Many commands may hear of the same pause, with slightly different ends.
        let is_news = until.since(known.max(now)) >= LEAST_TOLD.max(known.since(now));
        if is_news && !self.ending.is_stopping() {
            let by_key = !self.options.in_order && !attempt.charge.keys.is_empty();
            let text = attempt.batch.first_text(self.input.delimiter());
            let begun = HoldBegun { item: ended.first, text, asked, held, until, by_key };
            self.actions.notify(Notice::Hold(begun));
        }
        is_shared
    }

    /// Completes an attempt whose command has ended and is not retried.
    fn complete(&mut self, attempt: &Attempt, failure: Option<Exit>) {
        self.account.pass_on(attempt.batch.bytes());
        if failure.is_some() {
            self.account.fail(attempt, self.jobs.is_interrupted());
        }
        self.finish(attempt.batch.first(), failure);
    }

    /// Rejects the items whose turn for that has come.
    pub(super) fn count_rejects(&mut self) {
        while !self.ending.is_stopping() {
            let Some((segment, why)) = self.input.take_rejected(self.done()) else { return };
            let (item, batch, delimiter) = (segment.first(), Batch::of(segment), self.input.delimiter());
            let (notice, exit) = match why {
                Unfit::Uncharged(error) => (Notice::BadItem(error, batch.complete(delimiter)), Exit::BadItem),
                Unfit::Argument(why) => {
                    let failed = Failed::new(&batch, delimiter, Failure::ArgumentError(why));
                    (Notice::Failed(failed), Exit::CommandFailed)
                }
            };
            self.reject(item, notice, exit);
        }
    }

    /// Rejects an item that can never be sent.
    fn reject(&mut self, item: u64, notice: Notice, exit: Exit) {
        self.jobs.forget(item);
        self.account.reject();
        self.actions.notify(notice);
        self.finish(item, Some(exit));
    }

    /// The items that begin with `first` are done, successfully or not.
    fn finish(&mut self, first: u64, failure: Option<Exit>) {
        self.retire(first);
        if let Some(exit) = failure {
            self.ending.fail(exit);
            if exit.ends_the_run() {
                self.ending.stop();
            }
        }
        let all = self.input.has_ended().then(|| self.input.items());
        self.halt_if(|halt, failed, ended| halt.is_reached(failure.is_some(), failed, ended, all));
    }

    /// Reports that an item is done and how far items have been sent, if outputs are kept in order.
    pub(super) fn retire(&mut self, first: u64) {
        if self.jobs.keep_order() {
            let next = self.lanes.first().unwrap_or(u64::MAX).min(self.input.first());
            self.actions.push(Action::Retire { first, next });
        }
    }

    /// The number of items that are done, without those whose command is running.
    pub(super) fn done(&self) -> u64 {
        self.account.stats().settled - self.jobs.items_running()
    }

    /// Ends the run if `is_reached`, given the number of items that have failed and the number that have ended.
    fn halt_if(&mut self, is_reached: impl Fn(&Halt, u64, u64) -> bool) {
        let (failed, ended) = (self.account.stats().failed, self.done() - self.account.stats().refused);
        let halt = self.ending.halt_if(|halt| is_reached(halt, failed, ended));
        let Some((halt, went_on)) = halt else { return };
        if went_on {
            let items = match halt.on {
                HaltOn::Failed => failed,
                HaltOn::Succeeded => ended - failed,
                HaltOn::Done => ended,
            };
            self.actions.notify(Notice::Halted { items, on: halt.on });
        }
        if halt.now {
            self.jobs.terminate().into_iter().for_each(|action| self.actions.push(action));
        }
    }

    /// The store has answered.
    pub fn booked(&mut self, now: Time, order: &Order, answer: Answer) {
        let Some(slots) = self.gate.reservations_mut() else { return };
        // Another run may have begun a hold.
        let keys = [order.key.clone()];
        let known =
            slots.held_until(&Request { eligible_at: now, costs: &order.costs, keys: &keys, waits: true });
        let begun = answer.held.filter(|until| *until > now && known <= now && order.wanted().is_some());
        begun.into_iter().for_each(|until| self.actions.tell_hold(now, until));
        slots.heard(now, order, &answer);
        if let Some(limits) = answer.limits.filter(|limits| slots.follow(&limits.terms)) {
            let local = self.gate.rates().iter().filter(|rate| rate.is_local()).cloned();
            let rates: Vec<_> = limits.rates.into_iter().chain(local).collect();
            match check_shared(&rates, &self.options).context("the shared limits were changed to others") {
                Ok(()) => self.change_limits(now, rates),
                Err(error) => self.fail(Exit::BadState, error),
            }
            return;
        }
        if let Some(what) = answer.warning {
            let first = answer.slots.first().map(|slot| slot.at);
            self.actions.tell_loss(now, what, first.or(answer.next).or(answer.held));
        }
    }

    /// The store has failed: no order will be answered.
    pub fn booking_failed(&mut self, exit: Exit, error: Error) {
        self.gate.reservations_mut().into_iter().for_each(Reservations::fail);
        self.fail(exit, error);
    }

    /// The run must end: a signal has come, or nobody reads the output. The first signal lets running commands end, the
    /// second kills them.
    pub fn stop(&mut self, exit: Exit) {
        if exit != Exit::READER_GONE {
            self.actions.push(self.jobs.interrupt());
        }
        // The first signal counts. It may have ended the reader, too.
        let ended_by = self.ending.exit();
        if ended_by == Exit::READER_GONE || !matches!(ended_by, Exit::Signal(_)) {
            self.ending.end(exit);
        }
    }

    /// Nothing more can be sent.
    pub fn fail(&mut self, exit: Exit, error: Error) {
        self.actions.notify(Notice::Error(error));
        self.ending.end(exit);
    }

    /// Brings the counters of time up to `now`, before they are read.
    pub fn count_time(&mut self, now: Time) {
        self.account.extend_wait(now);
    }

    /// The process was stopped for this number of nanoseconds.
    pub fn stood_still(&mut self, nanos: u64) {
        self.account.stop(nanos);
    }

    /// The output of this number of commands was not fully printed.
    pub fn not_printed(&mut self, commands: u64) {
        self.account.leave_unprinted(commands);
    }
}
