//! The scheduler: events in, actions out. It decides what is released when, and knows no clock, no thread and no
//! descriptor (sans-IO, as quinn-proto and rustls are).
//!
//! One decision per release, made once: **offer → admit → send → commit**. Items that were read are *offered* to the
//! lanes, what the limits allow at an instant is *admitted* and becomes an [`Admission`], the driver *sends* it, and
//! what the sink says has left, in items, is *committed*.
//!
//! Each thing has one owner: `Supply` what was read, `Lanes` what waits, the [`Gate`] the limits, `Jobs` what runs,
//! `Account` what was done. [`Schedule::poll`] is where they meet.
//!
//! # Why no window is ever exceeded
//!
//! The instant that is checked against the limits is read *before* the items leave, the instant that is
//! charged *after* they left. Let release e start at start(e), the instant checked, and be over at end(e), the
//! instant charged. Under a limit of N per P, release k+N is let go only once release k, as charged, is at
//! least P ago: start(k+N) ≥ end(k) + P. Whatever happened in between, a late wake-up, a slow write, a
//! process stopped for an hour, it can only have made the distance longer.
//!
//! Limits that are shared with other processes are kept by slots instead, which a store books.

mod account;
mod action;
mod admission;
mod course;
mod ends;
mod forecast;
mod jobs;
mod lanes;
mod limit_counts;
mod metrics;
mod rejects;
mod releases;
mod stats;
mod supply;
#[cfg(test)]
mod tests;
mod timing;

use anyhow::{Error, anyhow};

pub use self::account::{Observer, Release};
pub use self::action::{Action, Failed, Failure, HoldBegun, Notice, Stop};
pub use self::admission::Admission;
pub use self::forecast::{Forecast, Precision, Total, WaitReason};
pub use self::jobs::Attempt;
pub use self::limit_counts::LimitStats;
pub use self::metrics::{LimitMetrics, Metrics, Now};
pub use self::stats::{Stats, Times};

use self::account::Account;
use self::course::Course;
use self::ends::Ends;
use self::jobs::Jobs;
use self::lanes::{Lanes, View};
use self::supply::Supply;
use self::timing::Timing;
use crate::charge::Charge;
use crate::config::{OnLimit, Plan, Rate, Run, keys};
use crate::exit::Exit;
use crate::gate::{Answer, BookingTerms, Gate, Needs, Order, Own, Request, Slots};
use crate::rule::Verdict;
use crate::source::{Block, Capacity, Delimiter, Done, SourceError};
use crate::time::{SECOND, Time, Wall};

/// The scheduler of a run.
pub struct Schedule {
    gate: Box<dyn Gate>,
    supply: Supply,
    lanes: Lanes,
    jobs: Jobs,
    account: Account,
    course: Course,
    ends: Ends,
    timing: Timing,
    /// The memory of what was sent last; none while something is being sent.
    spare: Option<Box<Admission>>,
}

impl Schedule {
    /// A run that starts at `now`, in which items pass as `rates` allow.
    pub fn new(plan: &Plan, rates: Vec<Rate>, now: Time) -> Self {
        let delimiter = Delimiter::new(&plan.delimiter);
        let supply = Supply::new(plan, &rates, &delimiter);
        let account = Account::new(now, &rates);
        let gate = Own::new(rates, now);
        Schedule {
            supply,
            lanes: Lanes::new(plan, delimiter, gate.properties().batches.clone()),
            gate: Box::new(gate),
            jobs: Jobs::default(),
            account,
            course: Course::new(),
            ends: Ends::new(plan, now),
            timing: Timing::default(),
            spare: Some(Box::default()),
        }
    }

    /// Releases are commands, whose ends are judged by the rules of `run`. `seed` makes the jitter of backoffs.
    pub fn with_commands(mut self, run: &Run, seed: u64) -> Self {
        self.jobs = Jobs::new(run, seed);
        if self.jobs.keep_order {
            self.lanes.track_fronts();
        }
        self
    }

    /// Has releases wait for slots that a store books, on these terms, instead of for limits of their own.
    pub fn with_bookings(mut self, terms: BookingTerms) -> Self {
        let rates = self.gate.rates().to_vec();
        self.gate = Box::new(Slots::new(rates, terms, self.lanes.discipline.waits()));
        self.lanes.batcher.set_terms(self.gate.properties().batches.clone());
        self
    }

    /// Ends the run as soon as it is known that a release would be more than `wait` nanoseconds after `now`.
    pub fn with_patience(mut self, now: Time, wait: u64) -> Self {
        self.ends.set_latest(Time(now.0.saturating_add(wait)));
        self
    }

    /// Has each release told at once, as it was charged.
    pub fn observe(&mut self, observer: Observer) {
        self.account.observe(observer);
    }

    /// Passes over items that are `done`.
    pub fn skip(&mut self, done: Done) {
        self.supply.intake.skip(done);
    }

    /// What the clock on the wall shows from `now` on. The first time, that is before anything else.
    pub fn set_wall(&mut self, now: Time, wall: Wall) {
        self.gate.set_wall(now, wall);
        self.ends.set_wall(wall);
    }

    /// Whether what may leave depends on what the clock on the wall shows.
    pub fn goes_by_wall(&self) -> bool {
        self.ends.go_by_wall() || self.gate.rates().iter().any(|rate| rate.hours.is_some())
    }

    /// What to do at `now`, when the sink has this `capacity`.
    pub fn poll(&mut self, now: Time, capacity: Capacity) -> Action {
        if let Some(action) = self.course.next() {
            return action;
        }
        self.account.end_wait(now);
        self.lanes.batcher.set_capacity(capacity);
        self.count_rejects();
        self.evict(now);
        while let Some(segments) = self.jobs.retries.take_due(now) {
            self.requeue(segments);
        }
        if let Some(news) = self.gate.take_news() {
            self.lanes.reconsider(&news, &*self.gate);
        }
        if let Some(action) = self.end_in_time(now) {
            return action;
        }
        self.refuse_overdue(now);
        let gathers = self.gathers(now, capacity);
        if gathers {
            self.gather(now);
        } else if let Some(admission) = self.admit(now, capacity) {
            return Action::Send(admission);
        } else if self.knows_all(capacity) && self.refuse_expired(now) {
            return self.poll(now, capacity);
        }
        let again = self.provide(now, capacity, gathers);
        if let Some(action) = self.course.next() {
            return action;
        }
        if self.is_over() && again.is_none() {
            return self.conclude();
        }
        let is_too_late = self.is_too_late(now);
        if is_too_late && self.knows_all(capacity) {
            self.lose_patience(now);
            return self.poll(now, capacity);
        }
        // What has arrived as well may go sooner.
        let again = if is_too_late { Some(now) } else { again };
        self.wait(now, capacity, again)
    }

    /// Waits for something to happen, or an instant: `again`, or any other that is known.
    fn wait(&mut self, now: Time, capacity: Capacity, again: Option<Time>) -> Action {
        let accepting = self.is_accepting(capacity);
        let mut until = again;
        if !self.course.is_stopping() {
            let times = [
                self.timing.next,
                self.jobs.retries.backoff_until(),
                self.gate.next_change(),
                self.ends.patience_ends(now),
                self.time_is_over(),
                self.first_deadline(),
            ];
            until = times.into_iter().chain([again]).flatten().min();
        }
        self.timing.is_due = false;
        let is_held = !self.lanes.is_empty() && capacity.vacancies > 0;
        if !self.course.is_stopping() && (is_held || self.jobs.retries.backoff_until().is_some()) {
            let binding = || forecast::binding(&self.lanes, &*self.gate);
            self.account.begin_wait(now, self.timing.next, binding);
        }
        Action::Wait { until, accepting }
    }

    /// The instant that was waited for has come, and all that has arrived by then was told.
    pub fn due(&mut self) {
        self.timing.is_due = true;
    }

    fn gathers(&mut self, now: Time, capacity: Capacity) -> bool {
        if !self.lanes.must_gather() || self.timing.is_due {
            return false;
        }
        self.offer(now);
        self.is_accepting(capacity)
    }

    /// Whether nothing more can be read that has arrived by now.
    fn knows_all(&self, capacity: Capacity) -> bool {
        self.timing.is_due || !self.is_accepting(capacity)
    }

    /// Provides for what waits. Returns when to look again.
    fn provide(&mut self, now: Time, capacity: Capacity, may_grow: bool) -> Option<Time> {
        let is_over = self.course.is_stopping() || self.has_released_all();
        let waiting = View { lanes: &self.lanes, may_grow };
        let needs = match is_over {
            true => Ok(self.gate.close(now)),
            false => self.gate.prepare(now, &waiting, capacity.vacancies),
        };
        let Needs { orders, returned, closed, again } = needs.unwrap_or_else(|error| {
            self.course.give_up(Exit::Error, error);
            Needs::default()
        });
        returned.into_iter().for_each(|(order, slots)| self.course.push(Action::GiveBack(order, slots)));
        orders.into_iter().for_each(|order| self.course.push(Action::Book(order)));
        let (lanes, gate) = (&mut self.lanes, &*self.gate);
        let changed = closed.iter().filter(|closed| lanes.fix(closed, gate) && closed.has_slot).count();
        if changed > 0 { Some(now) } else { again }
    }

    /// Has the limits evict what no item will ask about any more.
    ///
    /// An item that waits asks as of when it became next in line, so what was not idle by then is kept. While
    /// none is accepted, there may be some that waits to be let in.
    fn evict(&mut self, now: Time) {
        // What is being sent is going to be charged to accounts that are there.
        if self.spare.is_some() && self.gate.next_change().is_some_and(|at| at <= now) {
            let intake = &self.supply.intake;
            let is_accepting = intake.is_empty() && self.has_room();
            let is_waited_for = !self.lanes.batcher.has_ended() && !is_accepting;
            let outside = Some(intake.newest()).filter(|_| is_waited_for);
            let waiting = self.lanes.oldest().into_iter().chain(intake.arrival()).chain(outside);
            // What has arrived may not have been told yet: a wake-up can be late by some of a second, not by all.
            let untold = Time(now.0.saturating_sub(SECOND));
            self.gate.forget(now, waiting.fold(untold, Time::min));
        }
    }

    fn has_released_all(&self) -> bool {
        let waits = !self.supply.intake.is_empty()
            || !self.lanes.is_empty()
            || self.jobs.retries.backoff_until().is_some();
        self.lanes.batcher.has_ended() && !waits
    }

    fn is_over(&self) -> bool {
        (self.course.is_stopping() || self.has_released_all()) && self.jobs.running() == 0
    }

    /// All that was read has gone: was that the end of the input?
    fn conclude(&mut self) -> Action {
        if self.has_released_all() {
            self.supply.unmatched_warnings().into_iter().for_each(|warning| self.course.tell(warning));
        }
        // What waited for another attempt has failed so far. A reader that went away does not care.
        let failed = self.jobs.retries.take_failed();
        if self.course.exit() != Exit::READER_GONE {
            failed.for_each(|failed| self.course.tell(Notice::FailedSoFar(failed)));
        }
        if let Some(error) = self.supply.take_bad_end().filter(|_| self.has_released_all()) {
            self.course.give_up(Exit::Error, error.into());
        }
        self.course.next().unwrap_or(Action::Finish(self.course.exit()))
    }

    fn is_accepting(&self, capacity: Capacity) -> bool {
        // What has to wait for a command anyway may as well wait in the input, unless the newest counts, or when it
        // came.
        let is_taken = capacity.vacancies > 0 && capacity.before > self.supply.intake.total();
        let is_wanted =
            is_taken || self.lanes.discipline.on_limit != OnLimit::Wait || self.jobs.halting.counts_all();
        let is_open = !self.course.is_stopping() && !self.lanes.batcher.has_ended();
        is_open && is_wanted && self.supply.intake.is_empty() && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.lanes.have_room(self.supply.intake.is_single()) && !self.supply.is_full()
    }

    /// Notes when the next release may be. A turn that never comes ends the run, unless something may change that.
    fn set_next(&mut self, next: Option<Verdict>) {
        // A limit from a file may pause, or count what is running, or slots are booked.
        let may_change = self.jobs.running() > 0 || self.gate.properties().may_open;
        self.timing.next = match next {
            Some(Verdict::At(at)) => Some(at),
            Some(Verdict::Never) if !may_change => {
                let error = anyhow!("the next item's turn is past the end of time: shorten the period");
                self.course.give_up(Exit::Error, error);
                None
            }
            Some(Verdict::Never) | None => None,
        };
    }

    /// Whether what is next is known to be later than anybody wants to wait.
    fn is_too_late(&self, now: Time) -> bool {
        let Some((by, is_fixed)) = self.ends.latest(now).filter(|_| !self.course.is_stopping()) else {
            return false;
        };
        match self.known_next(now, by) {
            Some(next) => next > by && (is_fixed || !self.may_run_sooner(now)),
            None => is_fixed && now >= by && !self.lanes.is_empty() && !self.gate.is_asking(),
        }
    }

    /// When the next release may be, or one that is no later than `by`, if nothing else arrives.
    fn known_next(&self, now: Time, by: Time) -> Option<Time> {
        let again = self.jobs.retries.backoff_until();
        // What a lane waits for by its key may not be all that it waits for.
        let next = self.timing.next.filter(|_| !self.lanes.is_empty()).and_then(|next| {
            let exact = self.lanes.earliest(&*self.gate, now, by)?.instant();
            exact.map(|exact| exact.max(next))
        });
        match next {
            Some(next) => Some(again.map_or(next, |again| again.min(next))),
            None => again.filter(|_| {
                self.lanes.is_empty() && self.supply.intake.is_empty() && self.lanes.batcher.has_ended()
            }),
        }
    }

    /// Whether the end of a command that runs may let something go before that.
    fn may_run_sooner(&self, now: Time) -> bool {
        let frees = self.jobs.retries.are_allowed() || !self.gate.foreseen(now).is_all;
        self.jobs.running() > 0 && frees
    }

    /// Ends the run, as what is next would be too late.
    fn lose_patience(&mut self, now: Time) {
        let late = self.known_next(now, now).map(|next| next.since(now));
        self.course.tell(Notice::TooLong { late });
        self.course.end(Exit::Refused);
    }

    /// When the time of the run is over, unless nothing is left by then.
    fn time_is_over(&self) -> Option<Time> {
        self.ends.over().filter(|_| !self.has_released_all())
    }

    /// Ends the run once its time is over. First, all has to be known that has arrived by then.
    fn end_in_time(&mut self, now: Time) -> Option<Action> {
        if self.course.is_stopping() || !self.ends.are_due(now) {
            return None;
        }
        let waits = !self.lanes.is_empty() || self.jobs.retries.backoff_until().is_some();
        if waits || self.look(now) {
            self.course.tell(Notice::TimeUp);
            self.course.end(Exit::Refused);
        } else if self.timing.is_due || self.lanes.batcher.has_ended() {
            self.course.stop();
        } else {
            return Some(Action::Wait { until: Some(now), accepting: true });
        }
        self.course.next()
    }

    /// Items have arrived.
    pub fn input(&mut self, block: Block) {
        self.supply.intake.put(block);
    }

    /// There will be no more items, and why, if not for the end of the input. What is there is released first, whatever
    /// ended it.
    pub fn end_of_input(&mut self, now: Time, error: Option<SourceError>) {
        self.lanes.batcher.end(now);
        self.lanes.reopen_all(&*self.gate);
        self.supply.end(error);
    }

    /// The limits have changed: they go on with what is known of past releases.
    pub fn change_limits(&mut self, now: Time, rates: Vec<Rate>) {
        self.account.set_rates(&rates, self.gate.charged());
        let are_other = keys(self.gate.rates()) != keys(&rates);
        self.gate.change(now, rates.clone());
        // Its sums are by the old limits.
        self.spare = self.spare.take().map(|_| Box::default());
        self.lanes.batcher.set_terms(self.gate.properties().batches.clone());
        let waiting = self.lanes.take_all(now, are_other);
        self.supply.recharge(waiting, &rates);
        self.recharge_running(now);
        self.course.tell(Notice::Limits(rates));
    }

    /// What runs is charged by the new limits when it ends.
    fn recharge_running(&mut self, now: Time) {
        for attempt in self.jobs.iter_mut() {
            let items = attempt.segments.iter();
            let items = items.flat_map(|segment| self.supply.intake.recharge(segment.clone()));
            let batcher = &self.lanes.batcher;
            let sum = items.map(|items| items.charge).reduce(|sum, next| {
                let costs = batcher.sum(&sum.costs, &next.costs);
                Charge { costs, ..sum }
            });
            if let Some(sum) = sum {
                (attempt.asked.costs, attempt.asked.keys) = (sum.costs, sum.keys);
            }
            self.gate.resume(now, &attempt.asked.request());
        }
    }

    /// The store has answered.
    pub fn booked(&mut self, now: Time, order: &Order, answer: Answer) {
        // Others may have begun to hold what is asked for.
        let keys = [order.key.clone()];
        let known = self.gate.held_until(&Request { since: now, costs: &order.costs, keys: &keys });
        let begun = answer.held.filter(|until| *until > now && known <= now && order.is_for_slots());
        begun.into_iter().for_each(|until| self.course.tell(Notice::SharedHold(until)));
        self.gate.answered(now, order, &answer);
        if let Some(what) = answer.warning {
            let silent = answer.silent_until.map(|until| until.since(now));
            self.course.tell(Notice::StateLost { what, silent });
        }
    }

    /// The store cannot be asked any more.
    pub fn booking_failed(&mut self, exit: Exit, error: Error) {
        self.gate.store_failed();
        self.course.give_up(exit, error);
    }

    /// The run is to end. The first stop lets running commands end, the second kills them.
    pub fn stop(&mut self, stop: Stop) {
        if let Stop::Signal(_) = stop {
            self.course.push(self.jobs.interrupt());
        }
        self.course.end(stop.exit());
    }

    /// Nothing more can be sent.
    pub fn fail(&mut self, exit: Exit, error: Error) {
        self.course.give_up(exit, error);
    }

    /// The process stood still for this number of nanoseconds.
    pub fn stood_still(&mut self, nanos: u64) {
        self.account.stop(nanos);
    }

    /// The outputs of this number of commands were not printed, or not completely.
    pub fn not_printed(&mut self, commands: u64) {
        self.account.add_unprinted(commands);
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        self.supply.counted(self.account.stats())
    }

    /// What each limit, of all that there were, did.
    pub fn limit_stats(&self) -> Vec<LimitStats> {
        self.account.limits(self.gate.charged())
    }

    /// How the run stands at `now`.
    pub fn metrics(&self, now: Time) -> Metrics {
        Metrics::of(self, now)
    }

    /// What to expect at `now`, if the input has this number of items.
    pub fn forecast(&self, now: Time, counted: Option<Total>) -> Forecast {
        Forecast::of(self, now, counted)
    }

    /// What the next release waits for at `now`.
    pub fn wait_reason(&self, now: Time) -> WaitReason {
        WaitReason::of(self, now)
    }

    /// When the next release may be, as far as it is known.
    pub fn next_release(&self) -> Option<Time> {
        self.timing.next.or(self.jobs.retries.backoff_until())
    }

    /// Until when what was sent last could be sent, if it needed slots.
    pub fn good_until(&self) -> Option<Time> {
        self.timing.good_until
    }

    /// The number of commands that are running.
    pub fn running(&self) -> usize {
        self.jobs.running()
    }

    /// The items whose command began with the item of this number.
    pub fn attempt(&self, first: u64) -> Option<&Attempt> {
        self.jobs.get(first)
    }

    /// Whether the items whose command began with the item of this number wait for another attempt.
    pub fn is_tried_again(&self, first: u64) -> bool {
        self.jobs.retries.contains(first)
    }

    /// How many bytes of the input are done with: all before the first item that was neither released nor refused.
    pub fn consumed(&self) -> u64 {
        self.lanes.offset().into_iter().fold(self.supply.offset(), u64::min)
    }

    /// The number of items that are done with: not those whose command is running.
    fn done(&self) -> u64 {
        self.account.stats().settled - self.jobs.items_in_flight()
    }
}
