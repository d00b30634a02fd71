//! The scheduler: events in, actions out. It decides what is released when, and knows no clock, thread or descriptor
//! (sans-IO, like quinn-proto and rustls).
//!
//! Each release is decided once: **offer → admit → send → commit**. Items that were read are *offered* to the lanes;
//! what the limits allow at an instant is *admitted* as an [`Admission`]; the driver *sends* it; the items that have
//! left, as the sink reports, are *committed*.
//!
//! Two owners meet in [`Schedule::poll`]. `Queue` owns what is still to be released: `Supply` the items read, `Lanes`
//! the items waiting, the [`Gate`](crate::gate::Gate) the limits. `Results` owns what comes of releases: `Jobs` the
//! running commands, `Account` the counters, `Course` what to do next.
//!
//! # Why no window is ever exceeded
//!
//! The instant checked against the limits is read *before* the items leave, the instant charged *after* they have left.
//! Let start(e) be the instant checked for release e, and end(e) the instant charged. Under a limit of N per P, release
//! k+N may go only once release k, as charged, is at least P ago: start(k+N) ≥ end(k) + P. Whatever happens in between
//! (a late wake-up, a slow write, a process stopped for an hour) can only make the distance longer.
//!
//! Limits shared with other processes are kept by slots instead, booked from a store.

mod account;
mod action;
mod admission;
mod course;
mod deadlines;
mod events;
mod forecast;
mod jobs;
mod lanes;
mod limit_counts;
mod metrics;
mod queue;
mod releases;
mod results;
mod stats;
mod supply;
#[cfg(test)]
mod tests;

pub use self::account::Observer;
pub use self::action::{Action, Failed, Failure, HoldBegun, Notice};
pub use self::admission::Admission;
pub use self::forecast::{Forecast, Precision, Total, WaitReason};
pub use self::jobs::Attempt;
pub use self::limit_counts::LimitStats;
pub use self::metrics::{LimitMetrics, Metrics, Now};
pub use self::stats::{Stats, Times};

use self::account::Account;
use self::deadlines::Deadlines;
use self::jobs::Jobs;
use self::queue::Queue;
use self::results::Results;
use crate::config::{Plan, Rate, Run};
use crate::exit::Exit;
use crate::gate::{BookingTerms, Learned, Scope};
use crate::source::{Capacity, Done};
use crate::time::{Time, Wall};

/// The scheduler of a run.
pub struct Schedule {
    queue: Queue,
    results: Results,
    deadlines: Deadlines,
}

impl Schedule {
    /// The scheduler of a run that starts at `now`, under the limits `rates`, by this wall clock.
    pub fn new(plan: &Plan, rates: Vec<Rate>, now: Time, wall: Wall) -> Self {
        Schedule {
            results: Results::new(Account::new(now, &rates)),
            queue: Queue::new(plan, rates, now, wall),
            deadlines: Deadlines::new(plan, now, wall),
        }
    }

    /// Makes each release a command, whose end is judged by the rules of `run`. `seed` is for the jitter of backoffs.
    pub fn with_commands(mut self, run: &Run, seed: u64) -> Self {
        self.results.jobs = Jobs::new(run, seed);
        if self.results.jobs.keep_order {
            self.queue.lanes.track_fronts();
        }
        self
    }

    /// Shares the first limits with other runs, as many as these terms are for: releases wait for slots, booked from a
    /// store.
    pub fn with_bookings(mut self, terms: BookingTerms) -> Self {
        let Queue { gate, lanes, supply, .. } = &mut self.queue;
        supply.intake.charger.bound(&terms.most);
        gate.share(terms, lanes.options.may_wait());
        lanes.batcher.terms = gate.properties().batches.clone();
        self
    }

    /// Ends the run as soon as it is known that the next release would be more than `wait` nanoseconds after `now`.
    pub fn with_patience(mut self, now: Time, wait: u64) -> Self {
        self.deadlines.latest = Some(now.saturating_add(wait));
        self
    }

    /// Calls `observer` after each release, with what was charged.
    pub fn observe(&mut self, observer: Observer) {
        self.results.account.observer = Some(observer);
    }

    /// Skips the items for which `done` is true.
    pub fn skip(&mut self, done: Done) {
        self.queue.supply.intake.skip(done);
    }

    /// Decides what to do at `now`, given the sink's `capacity`. Call it again after each action.
    pub fn poll(&mut self, now: Time, capacity: Capacity) -> Action {
        if let Some(action) = self.results.course.next() {
            return action;
        }
        self.update(now, capacity);
        if let Some(action) = self.end_in_time(now) {
            return action;
        }
        let Schedule { queue, results, .. } = self;
        while queue.refuse_late(now, true, results) {}
        let gathers = queue.gathers(now, results);
        if gathers {
            queue.gather(now, results);
        } else if let Some(admission) = queue.admit(now, results) {
            return Action::Send(admission);
        } else if queue.knows_all(results) && queue.refuse_late(now, false, results) {
            return self.poll(now, capacity);
        }
        self.poll_without_release(now, capacity, gathers)
    }

    /// Brings everything that changes with time up to `now`, before anything is decided.
    fn update(&mut self, now: Time, capacity: Capacity) {
        let Schedule { queue, results, .. } = self;
        results.account.end_wait(now);
        queue.lanes.batcher.capacity = capacity;
        queue.count_rejects(results);
        queue.evict(now);
        while let Some(segments) = results.jobs.retries.take_due(now) {
            queue.requeue(segments);
        }
        if let Some(news) = queue.gate.take_news() {
            queue.lanes.reconsider(&news, &queue.gate);
        }
    }

    /// Decides what to do at `now` if nothing may leave: ask a store, end the run, or wait.
    fn poll_without_release(&mut self, now: Time, capacity: Capacity, gathers: bool) -> Action {
        // Rejects may have been waiting for what was just refused.
        self.queue.count_rejects(&mut self.results);
        let is_over = self.results.course.is_stopping || self.has_released_all();
        let Schedule { queue, results, deadlines } = self;
        let latest = deadlines.latest(now).map(|(latest, _)| latest);
        let again = queue.provide(now, latest, gathers, is_over, &mut results.course);
        if let Some(action) = results.course.next() {
            return action;
        }
        if is_over && results.jobs.running() == 0 && again.is_none() {
            return self.conclude();
        }
        let is_too_late = self.is_too_late(now);
        if is_too_late && self.queue.knows_all(&self.results) {
            let late = self.known_next(now, now).map(|next| next.since(now));
            let had_slot = self.queue.has_lost_slot;
            self.results.course.tell(Notice::TooLong { late, had_slot });
            self.results.course.end(Exit::Refused);
            return self.poll(now, capacity);
        }
        // First look for input that has already arrived: it may go sooner.
        let again = if is_too_late { Some(now) } else { again };
        self.wait(now, again)
    }

    /// Waits for something to happen, or for an instant: `again` or any other that is known.
    fn wait(&mut self, now: Time, again: Option<Time>) -> Action {
        let accepting = self.queue.is_accepting(&self.results);
        (self.queue.is_due, self.queue.listens) = (false, accepting);
        if self.results.course.is_stopping {
            return Action::Wait { until: again, accepting };
        }
        let time_is_over = self.deadlines.over.filter(|_| !self.has_released_all());
        let Schedule { queue, results, deadlines } = self;
        let (next, backoff) = (queue.next, results.jobs.retries.backoff_until());
        let is_held = !queue.lanes.is_empty() && queue.lanes.batcher.capacity.vacancies > 0;
        if is_held || backoff.is_some() {
            let changed = (queue.lanes.revision(), queue.gate.version(Scope::All), next);
            results.account.begin_wait(now, changed, || forecast::awaited(queue, now));
        }
        let patience_ends = deadlines.latest.filter(|at| *at > now);
        // Nothing can be evicted while items wait that may ask about it, and their release wakes the run anyway.
        let evict_at = queue.gate.evict_at().known().filter(|_| queue.lanes.is_empty());
        let times = [again, next, backoff, evict_at, patience_ends, time_is_over, queue.lanes.deadline()];
        Action::Wait { until: times.into_iter().flatten().min(), accepting }
    }

    fn has_released_all(&self) -> bool {
        self.queue.has_ended() && self.results.jobs.retries.backoff_until().is_none()
    }

    /// Concludes the run when nothing is left to do: reports what failed, then finishes.
    fn conclude(&mut self) -> Action {
        let has_released_all = self.has_released_all();
        let Schedule { queue: Queue { supply, .. }, results, .. } = self;
        let Results { jobs, course, have_succeeded, .. } = results;
        if has_released_all {
            supply.last_advice().into_iter().for_each(|text| course.tell(Notice::Warning(text)));
        }
        // Items that waited for another attempt have failed. With the reader gone, that is not worth a message.
        for failed in std::mem::take(&mut jobs.retries.failed_so_far).into_values() {
            if !*have_succeeded {
                course.raise(failed.why.exit());
            }
            if course.exit != Exit::READER_GONE {
                course.tell(Notice::FailedSoFar(failed));
            }
        }
        if let Some(error) = supply.bad_end.take().filter(|_| has_released_all) {
            course.give_up(Exit::Error, error);
        }
        course.next().unwrap_or(Action::Finish(course.exit))
    }

    /// True once the next release is known to be later than the run may wait.
    fn is_too_late(&self, now: Time) -> bool {
        let Some((by, is_fixed)) = self.deadlines.latest(now).filter(|_| !self.results.course.is_stopping)
        else {
            return false;
        };
        let Schedule { queue, results: Results { jobs, .. }, .. } = self;
        // The end of a running command may let something go sooner.
        let may_run_sooner = || {
            jobs.running() > 0 && (jobs.retries.rules.times > 0 || !queue.gate.properties().is_foreseeable)
        };
        match self.known_next(now, by) {
            Some(next) => next > by && (is_fixed || !may_run_sooner()),
            None => is_fixed && now >= by && !queue.lanes.is_empty() && !queue.is_asking(),
        }
    }

    /// The next release if nothing else arrives, or one no later than `by`; `None` if not known.
    fn known_next(&self, now: Time, by: Time) -> Option<Time> {
        let Queue { gate, lanes, next, .. } = &self.queue;
        let again = self.results.jobs.retries.backoff_until();
        // `next` may be only the answer of the limits by key; the common limits may make it later.
        let exact = || lanes.earliest(gate, now, by)?.known();
        let booked = || if self.queue.is_asking() { None } else { lanes.expected(gate, now) };
        match next.and_then(|next| Some(exact()?.max(next))).or_else(booked) {
            Some(next) => Some(again.map_or(next, |again| again.min(next))),
            None => again.filter(|_| self.queue.has_ended()),
        }
    }

    /// Ends the run once its time is over, but not before all input that has arrived by then is known.
    fn end_in_time(&mut self, now: Time) -> Option<Action> {
        let Schedule { queue, results, deadlines } = self;
        if results.course.is_stopping || deadlines.over.is_none_or(|over| now < over) {
            return None;
        }
        let waits = !queue.lanes.is_empty() || results.jobs.retries.backoff_until().is_some();
        if waits || queue.look(now, results) {
            results.course.tell(Notice::TimeUp);
            results.course.end(Exit::Refused);
        } else if queue.is_due || queue.lanes.batcher.has_ended() {
            results.course.is_stopping = true;
        } else {
            // Until now, there may have been no command to take more.
            queue.listens = true;
            return Some(Action::Wait { until: Some(now), accepting: true });
        }
        results.course.next()
    }

    /// True if releases depend on what the wall clock shows, so the scheduler must be told when it is set.
    pub fn goes_by_wall(&self) -> bool {
        self.deadlines.go_by_wall() || self.queue.gate.rates().iter().any(|rate| rate.zone.is_some())
    }

    /// The counters of the run so far.
    pub fn stats(&self) -> Stats {
        self.queue.supply.counted(&self.results.account.stats)
    }

    /// The counters of all limits, past and present.
    pub fn limit_stats(&self) -> Vec<LimitStats> {
        self.results.account.limits.limits(self.queue.gate.charged())
    }

    /// What was learned of each limit whose rate is to be found, by key: those first that were asked for most.
    pub fn learned(&self) -> impl Iterator<Item = (&Rate, Vec<(&[u8], &Learned)>)> {
        let gate = &self.queue.gate;
        let limits = gate.limits().filter(|(at, _)| gate.rates()[*at].least.is_some());
        limits.map(|(at, limit)| {
            let mut keys: Vec<_> = limit.learned().collect();
            keys.sort_by_key(|(key, learned)| (std::cmp::Reverse(learned.attempts), *key));
            (&gate.rates()[at], keys)
        })
    }

    /// The state of the run at `now`, for monitoring.
    pub fn metrics(&self, now: Time) -> Metrics {
        Metrics::of(self, now)
    }

    /// The forecast at `now`. `counted` is the number of items in the input, if known.
    pub fn forecast(&self, now: Time, counted: Option<Total>) -> Forecast {
        Forecast::of(self, now, counted)
    }

    #[cfg(test)]
    fn wait_reason(&self, now: Time) -> WaitReason {
        WaitReason::of(self, now)
    }

    /// The next release, as far as it was known at the last poll.
    pub fn next_release(&self) -> Option<Time> {
        self.queue.next.or(self.results.jobs.retries.backoff_until())
    }

    /// The last instant at which the latest admission could be sent, if it needed slots.
    pub fn good_until(&self) -> Option<Time> {
        self.queue.good_until
    }

    /// The number of commands that are running.
    pub fn running(&self) -> usize {
        self.results.jobs.running()
    }

    /// The running attempt whose first item has this number.
    pub fn attempt(&self, first: u64) -> Option<&Attempt> {
        self.results.jobs.in_flight.get(&first)
    }

    /// True if the attempt whose first item has this number failed and waits to be retried.
    pub fn is_tried_again(&self, first: u64) -> bool {
        self.results.jobs.retries.failed_so_far.contains_key(&first)
    }

    /// The number of input bytes that are done with: all before the first item that was neither released nor refused,
    /// or is to be released again.
    pub fn consumed(&self) -> u64 {
        let waiting = self.queue.lanes.offset().into_iter().chain(self.results.jobs.retries.offset());
        waiting.fold(self.queue.supply.offset(), u64::min)
    }
}
