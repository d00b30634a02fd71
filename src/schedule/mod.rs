//! The scheduler: events in, actions out. It decides what is released when, and knows no clock, thread or descriptor
//! (sans-IO, like quinn-proto and rustls).
//!
//! Each release is decided once: **offer → admit → send → commit**. Items that were read are *offered* to the lanes;
//! what the limits allow at an instant is *admitted* as an [`Admission`]; the driver *sends* it; the items that have
//! left, as the sink reports, are *committed*.
//!
//! A [`Schedule`] owns its parts, which do not know each other: `Input` the items read, `Lanes` the items waiting, the
//! [`Gate`] the limits, `Jobs` the running commands, `Account` the counters, `Ending` the exit. What is to be told or
//! done goes to `Actions`.
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
mod ending;
mod events;
mod forecast;
mod jobs;
mod lanes;
mod metrics;
mod releases;
mod stats;
#[cfg(test)]
mod tests;
mod upcoming;

pub use self::account::{LimitStats, Observer};
pub use self::action::{Action, Failed, Failure, HoldBegun, Notice};
pub use self::admission::Admission;
pub use self::forecast::{Forecast, Precision, Total, WaitReason};
pub use self::jobs::Attempt;
pub use self::metrics::{LimitMetrics, Metrics};
pub use self::stats::{Stats, Times};

use self::account::Account;
use self::action::Actions;
use self::ending::Ending;
use self::jobs::Jobs;
use self::lanes::Lanes;
use self::upcoming::Upcoming;
use crate::config::{Config, OnLimit, QueueOptions, Rate, Run, Share};
use crate::exit::Exit;
use crate::gate::{BookingTerms, Gate, Learned, Reservations};
use crate::source::{Capacity, Delimiter, Done, Input};
use crate::time::{SECOND, Time, Wall};

/// What is known of the input that has arrived by now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Incoming {
    /// There may be more.
    Unknown,
    /// The present wait listens to it: by the instant waited for, all that has arrived is reported.
    Awaited,
    /// All of it was reported.
    Known,
}

/// The scheduler of a run.
pub struct Schedule {
    options: QueueOptions,
    input: Input,
    lanes: Lanes,
    gate: Gate,
    jobs: Jobs,
    account: Account,
    ending: Ending,
    actions: Actions,
    upcoming: Upcoming,
    incoming: Incoming,
    /// The last instant at which the latest admission could be sent, if it needed slots.
    good_until: Option<Time>,
    /// The last admission, kept for reuse of its memory; `None` while one is being sent.
    spare: Option<Box<Admission>>,
}

impl Schedule {
    /// The scheduler of a run that starts at `now`, under the limits `rates`, by this wall clock.
    pub fn new(config: &Config, rates: Vec<Rate>, now: Time, wall: Wall) -> Self {
        let input = Input::new(config, &rates);
        let account = Account::new(now, &rates);
        let gate = Gate::new(rates, now, wall);
        Schedule {
            options: config.queue.clone(),
            lanes: Lanes::new(config.queue.clone(), input.delimiter().clone(), &gate),
            input,
            gate,
            jobs: Jobs::default(),
            account,
            ending: Ending::new(config, now, wall),
            actions: Actions::default(),
            upcoming: Upcoming::default(),
            incoming: Incoming::Unknown,
            good_until: None,
            spare: Some(Box::default()),
        }
    }

    /// Makes each release a command, whose end is judged by the rules of `run`. `seed` is for the jitter of backoffs.
    pub fn with_commands(mut self, run: &Run, seed: u64) -> Self {
        self.jobs = Jobs::new(run, seed);
        self.ending.halt(run.halt);
        if self.jobs.keep_order() {
            self.lanes.track_fronts();
        }
        self
    }

    /// Shares the first limits with other runs, as many as these terms are for: releases wait for slots, booked from a
    /// store.
    pub fn with_bookings(mut self, mut terms: BookingTerms) -> Self {
        if self.options.on_limit == OnLimit::Latest {
            // While a slot is ahead, the item that waits for it would give way to the next.
            terms.answers_within = 0;
        }
        self.input.bound(&terms.most);
        self.gate.share(terms, self.options.may_wait());
        self.lanes.set_terms(&self.gate);
        self
    }

    /// Ends the run as soon as it is known that the next release would be more than `wait` nanoseconds after `now`.
    pub fn with_patience(mut self, now: Time, wait: u64) -> Self {
        self.ending.release_by(now.saturating_add(wait));
        self
    }

    /// Calls `observer` after each release, with what was charged.
    pub fn observe(&mut self, observer: Observer) {
        self.account.observe_by(observer);
    }

    /// Skips the items for which `done` is true.
    pub fn skip(&mut self, done: Done) {
        self.input.skip(done);
    }

    /// Decides what to do at `now`, given the sink's `capacity`. Call it again after each action.
    pub fn poll(&mut self, now: Time, capacity: Capacity) -> Action {
        if let Some(action) = self.actions.next() {
            return action;
        }
        let tidy_at = self.update(now, capacity);
        if let Some(action) = self.end_in_time(now) {
            return action;
        }
        while self.refuse_late(now, true) {}
        let gathers = self.gathers(now);
        if gathers {
            self.gather(now);
        } else if let Some(admission) = self.admit(now) {
            return Action::Send(admission);
        } else if self.knows_all() && self.refuse_late(now, false) {
            return self.poll(now, capacity);
        }
        // Rejects may have been waiting for what was just refused.
        self.count_rejects();
        let again = self.provide(now, gathers);
        if let Some(action) = self.actions.next() {
            return action;
        }
        if self.is_over() && self.jobs.running() == 0 && again.is_none() {
            return self.conclude();
        }
        let is_too_late = self.is_too_late(now);
        if is_too_late && self.knows_all() {
            let late = self.known_next(now).map(|next| next.since(now));
            self.actions.notify(Notice::TooLong { late, had_slot: self.has_lost_slot() });
            self.ending.end(Exit::Refused);
            return self.poll(now, capacity);
        }
        // First look for input that has already arrived: it may go sooner.
        let again = if is_too_late { Some(now) } else { again };
        self.wait(now, [again, tidy_at])
    }

    /// Brings everything that changes with time up to `now`, before anything is decided. Returns when to tidy up again.
    fn update(&mut self, now: Time, capacity: Capacity) -> Option<Time> {
        self.account.end_wait(now);
        self.lanes.set_capacity(capacity);
        self.count_rejects();
        let tidy_at = self.tidy(now);
        while let Some(segments) = self.jobs.take_due(now) {
            self.requeue(now, segments);
        }
        if let Some(news) = self.gate.take_news() {
            self.lanes.reconsider(&news, &self.gate, now);
        }
        tidy_at
    }

    /// Lets the limits evict what no item will ask about any more. Returns when to call it again.
    ///
    /// A waiting item asks as of when it became next in line, so what was not idle by then is kept. While the input is
    /// not read, items may also be waiting outside.
    fn tidy(&mut self, now: Time) -> Option<Time> {
        // An admission that is being sent will be charged to accounts that must still exist.
        self.spare.as_ref()?;
        let Schedule { input, lanes, gate, .. } = self;
        let next = gate.local_mut().tidy(now, || {
            let is_accepting = input.is_empty() && lanes.have_room(input);
            let is_waited_for = !input.has_ended() && !is_accepting;
            let outside = Some(input.newest()).filter(|_| is_waited_for);
            let waiting = lanes.oldest().into_iter().chain(input.arrival()).chain(outside);
            // An arrival may not have been reported yet: a wake-up may be late by a fraction of a second, but not by a
            // whole one.
            waiting.fold(Time(now.0.saturating_sub(SECOND)), Time::min)
        });
        next.known()
    }

    /// Orders slots for waiting items, or gives slots back at the end. Returns when to look again.
    fn provide(&mut self, now: Time, may_grow: bool) -> Option<Time> {
        let is_over = self.is_over();
        let slots = self.gate.reservations_mut()?;
        let steps = if is_over {
            slots.close(now)
        } else if may_grow {
            // Nothing is ordered until its cost is known.
            return (!self.lanes.is_empty()).then_some(now);
        } else {
            // Later slots are of no use.
            let latest = self.ending.latest(now).map(|(latest, _)| latest.saturating_add(slots.slack()));
            let demands = self.lanes.demands(now, latest, slots.most_wanted(), slots.most_runs());
            self.gate.want(now, demands, self.lanes.capacity().vacancies)
        };
        self.actions.store(steps.orders);
        let has_fixed = self.lanes.fix(now, &steps.closed, &self.gate);
        if has_fixed { Some(now) } else { steps.again }
    }

    /// Waits for something to happen, or for an instant: to look again, to tidy up, or any other that is known.
    fn wait(&mut self, now: Time, [again, tidy_at]: [Option<Time>; 2]) -> Action {
        let accepting = self.is_accepting();
        self.incoming = if accepting { Incoming::Awaited } else { Incoming::Unknown };
        if self.ending.is_stopping() {
            return Action::Wait { until: again, accepting };
        }
        let backoff = self.jobs.backoffs().map(|(first, _)| first);
        let is_held = !self.lanes.is_empty() && self.lanes.capacity().vacancies > 0;
        // Asking for what has arrived by now is not a wait.
        let is_due = self.upcoming.at().is_some_and(|next| next <= now);
        if (is_held || backoff.is_some()) && !is_due {
            let awaited = forecast::awaited(self, now);
            self.account.begin_wait(now, awaited);
        }
        // Nothing can be evicted while items wait that may ask about it, and their release wakes the run anyway.
        let tidy_at = tidy_at.filter(|_| self.lanes.is_empty());
        let deadline = self.lanes.deadline();
        let patience_ends = self.ending.patience_ends(now).or_else(|| self.pause_ends());
        let over = self.ending.over().filter(|_| !self.has_released_all());
        // From then on, it waits for limits.
        let delay = self.next_lane().and_then(|at| self.lanes.lane(at).delayed_until(now));
        let times = [again, self.upcoming.at(), delay, backoff, tidy_at, patience_ends, over, deadline];
        Action::Wait { until: times.into_iter().flatten().min(), accepting }
    }

    /// True if everything has left and no more will come.
    fn has_ended(&self) -> bool {
        self.input.has_ended() && self.input.is_empty() && self.lanes.is_empty()
    }

    fn has_released_all(&self) -> bool {
        self.has_ended() && self.jobs.backoffs().is_none()
    }

    /// True if nothing more is to be released.
    fn is_over(&self) -> bool {
        self.ending.is_stopping() || self.has_released_all()
    }

    /// Concludes the run when nothing is left to do: reports what failed, then finishes.
    fn conclude(&mut self) -> Action {
        let has_released_all = self.has_released_all();
        if has_released_all {
            self.input.last_advice().into_iter().for_each(|text| self.actions.notify(Notice::Warning(text)));
        }
        // Items that waited for another attempt have failed. With the reader gone, that is not worth a message.
        for failed in self.jobs.take_failed() {
            self.ending.fail(failed.why.exit());
            if self.ending.exit() != Exit::READER_GONE {
                self.actions.notify(Notice::FailedSoFar(failed));
            }
        }
        if let Some(error) = self.input.take_bad_end().filter(|_| has_released_all) {
            self.fail(Exit::Error, error);
        }
        self.actions.next().unwrap_or(Action::Finish(self.ending.exit()))
    }

    /// True once the next release is known to be later than the run may wait.
    fn is_too_late(&self, now: Time) -> bool {
        let Some((by, is_fixed)) = self.ending.latest(now).filter(|_| !self.ending.is_stopping()) else {
            return false;
        };
        if self.pause_ends().is_some_and(|end| end <= now) {
            return true;
        }
        // The end of a running command may let something go sooner.
        let may_run_sooner = || {
            self.jobs.running() > 0 && (self.jobs.retry().times > 0 || !self.gate.properties().is_foreseeable)
        };
        if let Some(next) = self.known_next(now) {
            let slack = self.gate.reservations().map_or(0, Reservations::slack);
            return next > by.saturating_add(slack) && (is_fixed || !may_run_sooner());
        }
        // The answer may be a slot in time, unless slots are late one after the other.
        let may_come = self.is_asking() && !self.has_lost_slot();
        is_fixed && now >= by && !self.lanes.is_empty() && !may_come
    }

    /// When items will have waited for as long as they may, while a file of limits pauses the run: until when is not
    /// known.
    fn pause_ends(&self) -> Option<Time> {
        let may_go_on =
            self.jobs.running() > 0 || self.jobs.backoffs().is_some() || self.gate.reservations().is_some();
        let since = self.upcoming.paused_since().filter(|_| !may_go_on)?;
        Some(since.saturating_add(self.ending.patience()?))
    }

    /// The lane of the next release, if it is known and has not been emptied since.
    fn next_lane(&self) -> Option<usize> {
        self.upcoming.lane().filter(|&at| self.lanes.holds(at))
    }

    /// The next release if nothing else arrives; `None` if not known.
    fn known_next(&self, now: Time) -> Option<Time> {
        let again = self.jobs.backoffs().map(|(first, _)| first);
        let booked = || if self.is_asking() { None } else { self.lanes.expected(&self.gate, now) };
        match self.upcoming.at().or_else(booked) {
            Some(next) => Some(again.map_or(next, |again| again.min(next))),
            None => again.filter(|_| self.has_ended()),
        }
    }

    /// True if slots were asked for and the store has not answered.
    fn is_asking(&self) -> bool {
        self.gate.reservations().is_some_and(Reservations::is_asking)
    }

    /// True if the last slot was not used in time.
    fn has_lost_slot(&self) -> bool {
        self.gate.reservations().is_some_and(Reservations::have_lost)
    }

    /// Ends the run once its time is over, but not before all input that has arrived by then is known.
    fn end_in_time(&mut self, now: Time) -> Option<Action> {
        if self.ending.is_stopping() || self.ending.over().is_none_or(|over| now < over) {
            return None;
        }
        let waits = !self.lanes.is_empty() || self.jobs.backoffs().is_some();
        if waits || self.look(now) {
            self.time_is_up();
        } else if self.incoming == Incoming::Known || self.input.has_ended() {
            self.ending.end_in_time();
        } else {
            // Until now, there may have been no command to take more.
            self.incoming = Incoming::Awaited;
            return Some(Action::Wait { until: Some(now), accepting: true });
        }
        self.actions.next()
    }

    /// Ends the run, as its time is over and items are left.
    fn time_is_up(&mut self) {
        self.actions.notify(Notice::TimeUp);
        self.ending.end(Exit::Refused);
    }

    fn is_accepting(&self) -> bool {
        let capacity = self.lanes.capacity();
        // An item that must wait for a command anyway can wait in the input, unless the newest item or its arrival
        // matters, or the number of items does.
        let is_taken = capacity.vacancies > 0 && capacity.before > self.input.total();
        let is_wanted = is_taken
            || self.options.on_limit != OnLimit::Wait
            || self.ending.halts(|halt| matches!(halt.share, Share::Percent(_)));
        let is_open = !self.ending.is_stopping() && !self.input.has_ended();
        is_open && is_wanted && self.input.is_empty() && self.lanes.have_room(&self.input)
    }

    /// True if no more input that has arrived by now can be read.
    fn knows_all(&self) -> bool {
        self.incoming == Incoming::Known || !self.is_accepting()
    }

    /// True if releases depend on what the wall clock shows, so the scheduler must be told when it is set.
    pub fn goes_by_wall(&self) -> bool {
        self.ending.goes_by_wall() || self.gate.rates().iter().any(Rate::goes_by_wall)
    }

    /// The counters of the run so far.
    pub fn stats(&self) -> Stats {
        Stats { read: self.input.read(), skipped: self.input.skipped(), ..*self.account.stats() }
    }

    /// The counters of all limits, past and present.
    pub fn limit_stats(&self) -> &[LimitStats] {
        self.account.limits()
    }

    /// What was learned of each limit whose rate is to be found, by key: those first that were asked for most.
    pub fn learned(&self) -> impl Iterator<Item = (&Rate, Vec<(&[u8], &Learned)>)> {
        let gate = &self.gate;
        let limits = gate.local().limits().filter(|(at, _)| gate.rates()[*at].least.is_some());
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

    /// The next release, as far as it was known at the last poll.
    pub fn next_release(&self) -> Option<Time> {
        self.upcoming.at().or_else(|| Some(self.jobs.backoffs()?.0))
    }

    /// The last instant at which the latest admission could be sent, if it needed slots.
    pub fn good_until(&self) -> Option<Time> {
        self.good_until
    }

    /// The number of commands that are running.
    pub fn running(&self) -> usize {
        self.jobs.running()
    }

    /// The delimiter of items.
    pub fn delimiter(&self) -> &Delimiter {
        self.input.delimiter()
    }

    /// The running attempt whose first item has this number.
    pub fn attempt(&self, first: u64) -> Option<&Attempt> {
        self.jobs.attempt(first).filter(|attempt| attempt.runs)
    }

    /// True if the attempt whose first item has this number failed and waits to be retried.
    pub fn is_tried_again(&self, first: u64) -> bool {
        self.jobs.attempt(first).is_some_and(|attempt| !attempt.runs)
    }

    /// The number of input bytes that are done with: all before the first item that was neither released nor refused,
    /// or is to be released again.
    pub fn consumed(&self) -> u64 {
        let waiting = self.lanes.offset().into_iter().chain(self.jobs.offset());
        waiting.fold(self.input.done_until(), u64::min)
    }
}
