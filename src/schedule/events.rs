//! Events: the input of the scheduler. The driver reports each with the instant at which it happens.

use anyhow::{Context, Error};

use super::jobs::Attempt;
use super::{Action, Admission, Failure, HoldBegun, Notice, Schedule};
use crate::config::{OnLimit, Rate, check_shared};
use crate::exit::{End, Exit, JobEnd};
use crate::gate::{Answer, Order, Request, Reservations};
use crate::source::{LONG_LINE, Segment};
use crate::time::{SECOND, Time, Wall};

/// A notice of a shorter pause would be out of date before it is read.
const LEAST_TOLD: u64 = SECOND;

impl Schedule {
    /// From `now` on, the wall clock shows this. Call it each time the clock has been set.
    pub fn set_wall(&mut self, now: Time, wall: Wall) {
        self.queue.gate.set_wall(now, wall);
        self.deadlines.set_wall(wall);
    }

    /// Items have arrived.
    pub fn input(&mut self, block: Segment) {
        let queue = &mut self.queue;
        // Input that never pauses would replace what waits for ever. All that came before this item is known.
        let replaces = queue.lanes.options.on_limit == OnLimit::Latest;
        queue.is_due |= replaces && queue.next.is_some_and(|next| block.arrival() > next);
        queue.supply.intake.put(block);
    }

    /// There will be no more items; with an error if that is not the end of the input. Either way, what was read is
    /// still released.
    pub fn end_of_input(&mut self, now: Time, error: Option<Error>) {
        self.queue.end(now, error);
        if let Some(all) = self.queue.ahead().all {
            self.results.know_all(all);
        }
    }

    /// The awaited instant has come, and all that arrived by then was reported, if the wait accepted input.
    pub fn due(&mut self) {
        self.queue.is_due = self.queue.listens;
    }

    /// The limits have changed; the new ones keep the history of past releases.
    pub fn change_limits(&mut self, now: Time, rates: Vec<Rate>) {
        let Schedule { queue, results, .. } = self;
        results.account.extend_wait(now);
        results.account.limits.set_rates(&rates, queue.gate.charged());
        queue.change_limits(now, &rates);
        results.jobs.in_flight.values_mut().for_each(|attempt| queue.recharge(now, attempt));
        results.course.tell(Notice::Limits(rates));
    }

    /// The first `items` of an admission have left by `now`. The others are put back.
    pub fn sent(&mut self, now: Time, mut admission: Box<Admission>, items: u64) {
        let Schedule { queue, results, .. } = self;
        let good_until = admission.good_until();
        queue.commit(now, &mut admission, items, results);
        results.account.leave(now, &admission, items);
        if items > 0 {
            (queue.good_until, queue.has_lost_slot) = (good_until, false);
            queue.lanes.batcher.was_timely();
        }
        if items == admission.batch.items() && !results.jobs.exist {
            results.account.stats.bytes += admission.batch.bytes() as u64;
        } else {
            let left = admission.batch.take(items, &queue.lanes.delimiter);
            queue.requeue(admission.batch.segments().to_vec());
            results.start(left, &mut admission);
        }
        queue.recycle(now, admission);
    }

    /// An admission could not be sent, for lack of a resource that other processes use. It is tried again after a
    /// pause.
    pub fn busy(&mut self, now: Time, admission: Box<Admission>, pause: u64) {
        self.sent(now, admission, 0);
        self.queue.not_before = now.saturating_add(pause);
    }

    /// An admission was not sent, as its slot had ended by the time it was formed.
    pub fn late(&mut self, now: Time, admission: Box<Admission>) {
        self.queue.lanes.batcher.was_late(admission.batch.items());
        self.sent(now, admission, 0);
    }

    /// An admission was too long for the system, despite its known capacity: it is made smaller, as xargs does.
    pub fn too_long(&mut self, now: Time, mut admission: Box<Admission>) {
        let Schedule { queue, results, .. } = self;
        let items = admission.batch.items();
        if items > 1 {
            queue.lanes.batcher.shrink(items);
            return self.sent(now, admission, 0);
        }
        let why = Failure::ArgumentError(LONG_LINE);
        let failed = queue.lanes.failed(&admission.batch, why);
        queue.commit(now, &mut admission, 0, results);
        results.reject(failed.item, Notice::Failed(failed), Exit::CommandFailed, queue.ahead());
        queue.recycle(now, admission);
    }

    /// A command has ended: its items are done or tried again.
    pub fn job_ended(&mut self, now: Time, ended: &JobEnd) {
        let Some(attempt) = self.results.jobs.end(ended.first) else { return };
        self.queue.gate.finish(now, &attempt.request());
        self.learn(now, ended, &attempt);
        let is_shared = self.hold(now, ended, &attempt);
        self.tell_unread(ended, &attempt);
        let Schedule { queue, results, .. } = self;
        if ended.end == End::Exited(0) {
            let overlooked = results.jobs.retries.overlooked(ended);
            overlooked
                .into_iter()
                .for_each(|http| results.course.tell(Notice::Overlooked(ended.first, http)));
            return results.complete(&attempt, None, queue.ahead());
        }
        let why = if ended.timed_out { Failure::TimedOut } else { Failure::Ended(ended.end) };
        let failed = queue.lanes.failed(&attempt.batch, why);
        let delay = results.jobs.retries.delay(ended, attempt.batch.attempt());
        let Some(delay) = delay.filter(|_| !results.course.is_stopping) else {
            if !results.have_succeeded && results.course.exit != Exit::READER_GONE {
                results.course.tell(Notice::Failed(failed));
            }
            return results.complete(&attempt, Some(why.exit()), queue.ahead());
        };
        results.account.stats.settled -= attempt.batch.items();
        results.account.stats.retrying += attempt.batch.items();
        results.jobs.retries.failed_so_far.insert(ended.first, failed);
        // A shared hold is kept by the store, where it may be lifted.
        let until = if is_shared { now } else { now.saturating_add(delay) };
        let segments = attempt.batch.segments().iter().cloned();
        let again = segments.map(|segment| segment.again(ended.first, until));
        // A backoff delays only its own items; a pause that a server asked for delays the lane.
        if ended.retry_after.is_some() || queue.lanes.options.in_order {
            queue.requeue(again);
        } else {
            results.jobs.retries.backing_off.insert((until, ended.first), again.collect());
        }
    }

    /// What the end of a command says of a rate that is to be found. What fails otherwise says nothing.
    fn learn(&mut self, now: Time, ended: &JobEnd, attempt: &Attempt) {
        let Schedule { queue, results, .. } = self;
        let is_throttled = results.jobs.retries.rules.is_throttled(ended);
        if is_throttled || ended.end == End::Exited(0) {
            queue.gate.learn(now, &attempt.request(), attempt.started, is_throttled);
        }
    }

    /// Holds everything with the same keys as long as a server asks, whether or not the command failed. Returns true if
    /// the hold is reported to the other runs that share the limits.
    fn hold(&mut self, now: Time, ended: &JobEnd, attempt: &Attempt) -> bool {
        let Schedule { queue, results, .. } = self;
        let Some((asked, held)) = ended.retry_after.zip(results.jobs.retries.hold(ended)) else {
            return false;
        };
        let until = now.saturating_add(held);
        let (known, report) = queue.hold(now, attempt, until);
        let is_shared = report.is_some();
        report.into_iter().for_each(|report| results.course.push(Action::Store(report)));
        // Many commands may hear of the same pause, with slightly different ends.
        let is_news = until.since(known.max(now)) >= LEAST_TOLD.max(known.since(now));
        if is_news && !results.course.is_stopping {
            let by_key = !queue.lanes.options.in_order && !attempt.charge.keys.is_empty();
            let text = queue.lanes.first_text(&attempt.batch);
            let begun = HoldBegun { item: ended.first, text, asked, held, until, by_key };
            results.course.tell(Notice::Hold(begun));
        }
        is_shared
    }

    fn tell_unread(&mut self, ended: &JobEnd, attempt: &Attempt) {
        if let Some(said) = ended.unread.clone() {
            let text = self.queue.lanes.first_text(&attempt.batch);
            self.results.course.tell(Notice::Unread { item: ended.first, text, said });
        }
    }

    /// The store has answered.
    pub fn booked(&mut self, now: Time, order: &Order, answer: Answer) {
        let course = &mut self.results.course;
        let Some(slots) = self.queue.gate.reservations_mut() else { return };
        // Another run may have begun a hold.
        let keys = [order.key.clone()];
        let known = slots.held_until(&Request { since: now, costs: &order.costs, keys: &keys });
        let begun = answer.held.filter(|until| *until > now && known <= now && order.is_for_slots());
        begun.into_iter().for_each(|until| course.tell(Notice::SharedHold(until)));
        slots.heard(now, order, &answer);
        if let Some(limits) = answer.limits.filter(|limits| slots.follow(&limits.terms)) {
            let local = self.queue.gate.rates().iter().filter(|rate| rate.is_local()).cloned();
            let rates: Vec<_> = limits.rates.into_iter().chain(local).collect();
            let options = &self.queue.lanes.options;
            match check_shared(&rates, options).context("the shared limits were changed to others") {
                Ok(()) => self.change_limits(now, rates),
                Err(error) => self.fail(Exit::BadState, error),
            }
            return;
        }
        if let Some(what) = answer.warning {
            let first = answer.slots.first().map(|slot| slot.at);
            let silent = first.or(answer.next).or(answer.held).map(|until| until.since(now));
            course.tell(Notice::StateLost { what, silent });
        }
    }

    /// The store has failed: no order will be answered.
    pub fn booking_failed(&mut self, exit: Exit, error: Error) {
        self.queue.gate.reservations_mut().into_iter().for_each(Reservations::fail);
        self.fail(exit, error);
    }

    /// The run must end: a signal has come, or nobody reads the output. The first signal lets running commands end, the
    /// second kills them.
    pub fn stop(&mut self, exit: Exit) {
        if exit != Exit::READER_GONE {
            self.results.course.push(self.results.jobs.interrupt());
        } else if matches!(self.results.course.exit, Exit::Signal(_)) {
            // A signal that came first may have ended the reader, too.
            return;
        }
        self.results.course.end(exit);
    }

    /// Nothing more can be sent.
    pub fn fail(&mut self, exit: Exit, error: Error) {
        self.results.course.give_up(exit, error);
    }

    /// Brings the counters of time up to `now`, before they are read.
    pub fn count_time(&mut self, now: Time) {
        self.results.account.extend_wait(now);
    }

    /// The process was stopped for this number of nanoseconds.
    pub fn stood_still(&mut self, nanos: u64) {
        self.results.account.stats.times.stopped += nanos;
    }

    /// The output of this number of commands was not fully printed.
    pub fn not_printed(&mut self, commands: u64) {
        self.results.account.stats.unprinted += commands;
    }
}
