//! The scheduler: events in, actions out. It decides what is released when, and knows no clock, no thread and no
//! descriptor (sans-IO, as quinn-proto and rustls are).
//!
//! One decision per release, made once: **offer → admit → send → commit**. Items that were read are *offered* to the
//! lanes, what the limits allow at an instant is *admitted* and becomes a [`Batch`](crate::source::Batch), the driver *sends* it, and
//! what the sink says has left, in items, is *committed*.
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

mod action;
mod admission;
mod admit;
mod attempts;
mod batch;
mod ended;
mod ends;
mod events;
mod forecast;
mod lane;
mod metrics;
mod needs;
mod queue;
mod rejects;
mod rules;
mod stats;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anyhow::anyhow;
use nix::sys::signal::Signal;

pub use self::action::{Action, Failed, Failure, HoldBegun, Notice, Stop};
pub use self::admission::{Admission, OwnedRequest};
pub use self::attempts::Attempt;
pub use self::forecast::{Forecast, Precision, Total, WaitReason};
pub use self::metrics::{LimitMetrics, Metrics, Now};
pub use self::stats::Stats;
pub use self::tally::LimitStats;

use self::attempts::Attempts;
use self::batch::Batcher;
use self::ends::Ends;
use self::queue::Queue;
use self::rejects::Rejects;
use self::rules::Rules;
use self::tally::Tally;
use crate::config::{Config, OnBad, OnLimit, Output, Rate, Run};
use crate::exit::Exit;
use crate::gate::{BookingTerms, Gate, Own, Slots};
use crate::rule::Verdict;
use crate::source::{Capacity, Charger, Delimiter, Done, Fields, Intake, Segment, SourceError};
use crate::time::{SECOND, Time, Wall};

/// The scheduler of a run.
pub struct Schedule {
    delimiter: Delimiter,
    separator: Option<Vec<u8>>,
    rules: Rules,
    intake: Intake,
    queue: Queue,
    attempts: Attempts,
    rejects: Rejects,
    mode: Mode,
    on_bad: OnBad,
    told: Told,
    /// What is to be done before anything else is decided.
    actions: VecDeque<Action>,
    /// The memory of what was sent last; none while something is being sent.
    spare: Option<Box<Admission>>,
    /// The sink could not take more; it is not tried again until then.
    not_before: Time,
    /// When the next release may be, as far as it is known.
    next: Option<Time>,
    /// All that has arrived by now is known.
    is_due: bool,
    /// What ended the input, if not its end.
    bad_end: Option<SourceError>,
    /// Nothing more is released.
    stopping: bool,
    /// A signal has been passed on to the commands.
    interrupted: bool,
    ends: Ends,
    /// Until when what was sent last could be sent, if it needed slots.
    good_until: Option<Time>,
    exit: Exit,
    stats: Stats,
    /// What each limit did.
    tally: Tally,
    /// Since when something that could be sent waits.
    waiting_since: Option<Time>,
}

/// What is told once.
#[derive(Default)]
struct Told {
    /// An item ends in CR.
    line_end: bool,
    /// Limits that no item matched.
    unmatched: bool,
}

/// What releases are, and how they are ordered.
#[derive(Default)]
struct Mode {
    /// They are commands: they run on, and their ends are told.
    runs_commands: bool,
    /// Commands' outputs wait for those of the items before them.
    keeps_order: bool,
    /// An item that backs off keeps its place.
    in_order: bool,
}

impl Schedule {
    /// A run that starts at `now`, in which items pass as `rates` allow.
    pub fn new(config: &Config, rates: Vec<Rate>, now: Time) -> Self {
        let max_wait = config.queue.max_wait.filter(|_| config.on_limit.never_waits());
        let mut queue = Queue::new(config.queue);
        if max_wait.is_some() {
            queue.track_fronts();
        }
        let delimiter = Delimiter::new(&config.input.delimiter);
        let separator = config.input.separator.clone();
        let charger = Charger::new(&rates, separator.as_deref());
        let singly =
            config.queue.jitter.is_some() || config.on_limit != OnLimit::Wait || config.command().is_some();
        let selectors = config.command().map_or(&[][..], |run| run.template.selectors());
        let needed = Fields::new(selectors, separator.as_deref());
        let tally = Tally::new(&rates);
        let gate = Own::new(rates, now);
        Schedule {
            intake: Intake::new(delimiter.clone(), charger, singly)
                .clean(config.input.cleaning)
                .needing(needed),
            rules: Rules {
                batcher: Batcher::new(config.batch, gate.batches()),
                gate: Box::new(gate),
                on_limit: config.on_limit,
                max_wait,
                jitter: config.queue.jitter,
            },
            queue,
            delimiter,
            separator,
            attempts: Attempts::default(),
            rejects: Rejects::default(),
            tally,
            waiting_since: None,
            mode: Mode { in_order: config.queue.in_order, ..Mode::default() },
            on_bad: config.input.on_bad,
            told: Told::default(),
            actions: VecDeque::new(),
            spare: Some(Box::default()),
            not_before: Time::ZERO,
            next: None,
            is_due: false,
            bad_end: None,
            stopping: false,
            interrupted: false,
            ends: Ends::new(config, now),
            good_until: None,
            exit: Exit::Done,
            stats: Stats::new(now),
        }
    }

    /// Releases are commands, whose ends are judged by the rules of `run`. `seed` makes the jitter of backoffs.
    pub fn with_commands(mut self, run: &Run, seed: u64) -> Self {
        self.attempts = Attempts::new(run, seed);
        self.mode.runs_commands = true;
        self.mode.keeps_order = run.output == Output::InOrder;
        if self.mode.keeps_order {
            self.queue.track_fronts();
        }
        self
    }

    /// Has releases wait for slots that a store books, on these terms, instead of for limits of their own.
    pub fn with_bookings(mut self, terms: BookingTerms) -> Self {
        let rates = self.rules.gate.rates().to_vec();
        let waits = !self.rules.on_limit.never_waits() || self.rules.max_wait.is_some();
        self.rules.gate = Box::new(Slots::new(rates, terms, waits));
        self.rules.batcher.set_terms(self.rules.gate.batches());
        self
    }

    /// Until when what was sent last could be sent, if it needed slots.
    pub fn good_until(&self) -> Option<Time> {
        self.good_until
    }

    /// Passes over items that are `done`.
    pub fn skip(&mut self, done: Done) {
        self.intake.skip(done);
    }

    /// What the clock on the wall shows from `now` on. The first time, that is before anything else.
    pub fn set_wall(&mut self, now: Time, wall: Wall) {
        self.rules.gate.set_wall(now, wall);
        self.ends.set_wall(wall);
    }

    /// Whether what may leave depends on what the clock on the wall shows.
    pub fn goes_by_wall(&self) -> bool {
        self.ends.go_by_wall() || self.rules.gate.rates().iter().any(|rate| rate.hours.is_some())
    }

    /// What to do at `now`, when the sink has this `capacity`.
    pub fn poll(&mut self, now: Time, capacity: Capacity) -> Action {
        if let Some(action) = self.actions.pop_front() {
            return action;
        }
        if let Some(since) = self.waiting_since.take() {
            self.stats.waited += now.since(since);
            self.tally.wait(now.since(since));
        }
        self.rules.batcher.set_capacity(capacity);
        self.count_rejects();
        self.evict(now);
        self.resume(now);
        if let Some(news) = self.rules.gate.take_news() {
            self.queue.reconsider(&news, &self.rules);
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
        if let Some(action) = self.actions.pop_front() {
            return action;
        }
        if self.is_over() && again.is_none() {
            return self.conclude();
        }
        let accepting = self.is_accepting(capacity);
        let is_too_late = self.is_too_late(now);
        if is_too_late && self.knows_all(capacity) {
            self.lose_patience(now);
            return self.poll(now, capacity);
        }
        let times = [self.next, again, self.attempts.backoff_until(), self.rules.gate.next_change()];
        let times = times.into_iter().chain(self.end_times(now)).flatten();
        // What has arrived as well may go sooner.
        let times = times.chain(is_too_late.then_some(now));
        let until = if self.stopping { again } else { times.min() };
        self.is_due = false;
        self.note_wait(now, capacity);
        Action::Wait { until, accepting }
    }

    /// The instant that was waited for has come, and all that has arrived by then was told.
    pub fn due(&mut self) {
        self.is_due = true;
    }

    /// Whether all that arrives at an instant has to be there before a release: it may join a batch, or take the place of
    /// what waits.
    fn matters_together(&self) -> bool {
        self.rules.batcher.forms_batches() || self.rules.on_limit == OnLimit::Latest
    }

    /// Whether more may arrive at this instant that has to be there.
    fn gathers(&mut self, now: Time, capacity: Capacity) -> bool {
        if !self.matters_together() || self.is_due {
            return false;
        }
        self.offer(now);
        self.is_accepting(capacity)
    }

    /// Whether nothing more can be read that has arrived by now.
    fn knows_all(&self, capacity: Capacity) -> bool {
        self.is_due || !self.is_accepting(capacity)
    }

    /// Notes what is waited for, once for each instant that a release waits for.
    fn note_wait(&mut self, now: Time, capacity: Capacity) {
        let is_held = !self.queue.is_empty() && capacity.vacancies > 0;
        if !self.stopping && (is_held || self.attempts.backoff_until().is_some()) {
            self.waiting_since = Some(now);
            match self.next {
                Some(next) if next > now && self.tally.is_new(next) => {
                    let limit = self.binding();
                    self.tally.note(next, limit);
                }
                Some(next) if next > now => {}
                // It may end whenever something happens, such as the end of a command.
                Some(_) | None => self.tally.set_binding(self.binding()),
            }
        }
    }

    /// What each limit, of all that there were, did.
    pub fn limit_stats(&self) -> Vec<LimitStats> {
        self.tally.limits(self.rules.gate.charged())
    }

    /// The process stood still for so many nanoseconds.
    pub fn stood_still(&mut self, nanos: u64) {
        self.stats.stopped += nanos;
    }

    /// The outputs of so many commands were not printed, or not completely.
    pub fn not_printed(&mut self, commands: u64) {
        self.stats.unprinted += commands;
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        let read = self.intake.total() - self.intake.blank();
        Stats { read, skipped: self.intake.skipped(), ..self.stats }
    }

    /// When the next release may be, as far as it is known.
    pub fn next_release(&self) -> Option<Time> {
        self.next.or(self.attempts.backoff_until())
    }

    /// How many commands are running.
    pub fn running(&self) -> usize {
        self.attempts.running()
    }

    /// How many bytes of the input are done with: all before the first item that was neither released nor refused.
    pub fn consumed(&self) -> u64 {
        let waiting = self.queue.offset().into_iter().chain(self.rejects.offset());
        waiting.fold(self.intake.offset(), u64::min)
    }

    fn has_released_all(&self) -> bool {
        let waits =
            !self.intake.is_empty() || !self.queue.is_empty() || self.attempts.backoff_until().is_some();
        self.rules.batcher.has_ended() && !waits
    }

    fn is_over(&self) -> bool {
        (self.stopping || self.has_released_all()) && self.attempts.running() == 0
    }

    /// All that was read has gone: was that the end of the input?
    fn conclude(&mut self) -> Action {
        self.tell_unmatched();
        self.tell_unfinished();
        match self.bad_end.take().filter(|_| self.has_released_all()) {
            Some(error) => {
                self.give_up(Exit::Error, error.into());
                self.actions.pop_front().unwrap_or(Action::Finish(self.exit))
            }
            None => self.actions.pop_front().unwrap_or(Action::Finish(self.exit)),
        }
    }

    /// A limit for one key that never came is likely to be a mistake, if there were any items.
    fn tell_unmatched(&mut self) {
        let stats = self.stats();
        let is_known = self.has_released_all() && stats.read > 0 && stats.skipped == 0;
        if is_known && !std::mem::replace(&mut self.told.unmatched, true) {
            let unmatched = self.intake.charger().unmatched();
            let warn = |limit| Action::Tell(Notice::Warning(format!("no item matched the limit {limit}")));
            self.actions.extend(unmatched.map(warn));
        }
    }

    /// What waited for another attempt has failed so far. A reader that went away does not care.
    fn tell_unfinished(&mut self) {
        let failed = self.attempts.take_failed_so_far();
        if self.exit != Exit::Signal(Signal::SIGPIPE as i32) {
            self.actions.extend(failed.map(|failed| Action::Tell(Notice::FailedSoFar(failed))));
        }
    }

    fn is_accepting(&self, capacity: Capacity) -> bool {
        // What has to wait for a command anyway may as well wait in the input, unless the newest counts, or when it came.
        let is_taken = capacity.vacancies > 0 && capacity.before > self.intake.total();
        let is_wanted = is_taken || self.rules.on_limit != OnLimit::Wait || self.attempts.counts_all();
        let is_open = !self.stopping && !self.rules.batcher.has_ended();
        is_open && is_wanted && self.intake.is_empty() && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.queue.has_room(&self.rules, self.intake.is_single()) && !self.rejects.are_full()
    }

    /// Notes when the next release may be. A turn that never comes ends the run, unless something may change that.
    fn set_next(&mut self, next: Option<Verdict>) {
        self.next = match next {
            Some(Verdict::At(at)) => Some(at),
            Some(Verdict::Never) if !self.may_change() => {
                let error = anyhow!("the next item's turn is past the end of time: shorten the period");
                self.give_up(Exit::Error, error);
                None
            }
            Some(Verdict::Never) | None => None,
        };
    }

    /// Whether what never comes may come yet: a limit from a file pauses, or counts what is running, or slots are booked.
    fn may_change(&self) -> bool {
        self.attempts.running() > 0 || self.rules.gate.may_open()
    }

    /// Has the limits evict what no item will ask about any more.
    ///
    /// An item that waits asks as of when it became next in line, so what was not idle by then is kept. While
    /// none is accepted, there may be some that waits to be let in.
    fn evict(&mut self, now: Time) {
        // What is being sent is going to be charged to accounts that are there.
        if self.spare.is_some() && self.rules.gate.next_change().is_some_and(|at| at <= now) {
            let is_accepting = self.intake.is_empty() && self.has_room();
            let is_waited_for = !self.rules.batcher.has_ended() && !is_accepting;
            let outside = Some(self.intake.newest()).filter(|_| is_waited_for);
            let waiting = self.queue.oldest().into_iter().chain(self.intake.arrival()).chain(outside);
            // What has arrived may not have been told yet: a wake-up can be late by some of a second, not by all.
            let untold = Time(now.0.saturating_sub(SECOND));
            self.rules.gate.forget(now, waiting.fold(untold, Time::min));
        }
    }

    /// Puts segments back in their places, each with its charge under the present limits.
    fn requeue(&mut self, segments: impl IntoIterator<Item = Segment>) {
        let items = segments.into_iter().flat_map(|segment| self.intake.recharge(segment));
        self.queue.requeue(items, &self.rules);
    }

    fn tell(&mut self, notice: Notice) {
        self.actions.push_back(Action::Tell(notice));
    }

    fn give_up(&mut self, exit: Exit, error: anyhow::Error) {
        self.tell(Notice::Error(error));
        self.exit = self.exit.max(exit);
        self.stopping = true;
    }
}
