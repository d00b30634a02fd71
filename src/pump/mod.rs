//! The loop: ask, wait, send, commit. Every decision to release is made here, and nowhere else; what it comes to is in
//! `release`, and what follows from it in `landing`.
//!
//! # Why no window is ever exceeded
//!
//! The instant that is checked against the limits is read *before* the items leave, the instant that is
//! charged *after* they left. Let release e start at start(e), the instant checked, and be over at end(e), the
//! instant charged. Under a limit of N per P, release k+N is let go only once release k, as charged, is at
//! least P ago: start(k+N) ≥ end(k) + P. Whatever happened in between, a late wake-up, a slow write, a
//! process stopped for an hour, it can only have made the distance longer.
//!
//! Limits that are shared with other processes are kept by slots instead, see [`crate::store`].

mod bookings;
mod flights;
mod landing;
mod lane;
mod lanes;
mod release;
mod rules;
mod world;

use anyhow::{Error, anyhow};
use nix::sys::signal::Signal;

use self::bookings::Bookings;
use self::flights::Flights;
use self::lanes::{Lanes, Turn};
use self::rules::Rules;
pub use self::world::{Stop, Wake, World};
use crate::config::{self, Config, OnLimit, Rate, Run};
use crate::exit::Exit;
use crate::limiter::Verdict;
use crate::runtime::joblog::{Completed, JobLog};
use crate::sink::{Cause, Sink};
use crate::source::{Classifier, Delimiter, Intake, SourceError};
use crate::time::{SECOND, Time};
use crate::ui::progress::Progress;
use crate::ui::report::Reporter;
use crate::ui::stats::Stats;

/// The loop with all that it needs.
pub struct Pump<'a> {
    world: &'a mut dyn World,
    sink: &'a mut dyn Sink,
    reporter: &'a Reporter,
    delimiter: Delimiter,
    separator: Option<Vec<u8>>,
    rates: Vec<Rate>,
    rules: Rules,
    intake: Intake,
    lanes: Lanes,
    flights: Flights,
    /// What has been booked, if limits are shared.
    bookings: Option<Bookings>,
    log: Option<JobLog>,
    /// The sink could not take more; it is not tried again until then.
    not_before: Time,
    /// When the next release may be, as far as it is known.
    next: Option<Time>,
    /// The bytes of a batch.
    gathered: Vec<u8>,
    /// What ended the input, if not its end.
    bad_end: Option<SourceError>,
    /// Nothing more is released.
    stopping: bool,
    /// A signal has been passed on to the commands.
    interrupted: bool,
    exit: Exit,
    stats: Stats,
}

impl<'a> Pump<'a> {
    /// A pump that lets items from `world` pass to `sink` as `rates` allow.
    pub fn new(
        world: &'a mut dyn World,
        sink: &'a mut dyn Sink,
        reporter: &'a Reporter,
        config: &Config,
        rates: Vec<Rate>,
    ) -> Self {
        let start = world.now();
        let delimiter = Delimiter::new(&config.input.delimiter);
        let separator = config.input.separator.clone();
        let classifier = Classifier::new(&rates, separator.as_deref());
        let limits = config::build(&rates, start);
        Pump {
            world,
            sink,
            reporter,
            rules: Rules::new(&rates, limits, config.on_limit, config.batch),
            intake: Intake::new(delimiter.clone(), classifier, config.on_limit != OnLimit::Wait),
            lanes: Lanes::new(config.queue),
            delimiter,
            separator,
            rates,
            flights: Flights::default(),
            bookings: None,
            log: None,
            not_before: Time::ZERO,
            next: None,
            gathered: Vec::new(),
            bad_end: None,
            stopping: false,
            interrupted: false,
            exit: Exit::Done,
            stats: Stats::new(start),
        }
    }

    /// Has the ends of commands judged by the rules of `run`. `seed` makes the jitter of backoffs.
    pub fn with_commands(mut self, run: &Run, seed: u64) -> Self {
        self.flights = Flights::new(run, seed);
        self
    }

    /// Has commands noted in `log`, and passes over items that are `completed`.
    pub fn with_log(mut self, log: JobLog, completed: Option<Completed>) -> Self {
        self.log = Some(log);
        completed.into_iter().for_each(|completed| self.intake.skip(completed));
        self
    }

    /// Runs until all items are released and all commands have ended, or the run is stopped.
    pub fn run(&mut self) -> Exit {
        loop {
            self.fill_lanes();
            if self.has_released_all() {
                self.conclude();
            }
            if self.is_over() {
                self.sink.finish().err().into_iter().for_each(|cause| self.fail(cause));
                return self.exit;
            }
            let until = self.ask();
            match self.world.wait(until, self.is_accepting()) {
                Wake::Due => self.act(),
                // What is asked again now will be at hand then.
                Wake::Soon => {}
                Wake::Input(block) => self.intake.put(block),
                Wake::End(error) => self.end(error),
                Wake::Limits(rates) => self.relimit(rates),
                Wake::BadLimits(error) => {
                    self.reporter.notice(&format_args!("{error:#}: the old limits stay"));
                }
                Wake::Booked(order, answer) => self.booked(&order, answer),
                Wake::Exited => self.reap(),
                Wake::Stop(stop) => self.stop(stop),
                Wake::Report => self.reporter.statistics(&self.stats(), self.world.now()),
            }
        }
    }

    /// The present instant.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        let skipped = self.intake.skipped();
        Stats { read: self.world.items_read(), skipped, ..self.stats }
    }

    /// How many bytes of the input are done with: all before the first item that was neither released nor refused.
    pub fn consumed(&self) -> u64 {
        self.lanes.offset().unwrap_or(u64::MAX).min(self.intake.offset())
    }

    fn has_released_all(&self) -> bool {
        self.rules.ended.is_some() && self.intake.is_empty() && self.lanes.is_empty()
    }

    fn is_over(&self) -> bool {
        (self.stopping || self.has_released_all()) && self.sink.running() == 0
    }

    fn is_accepting(&self) -> bool {
        // What has to wait for a command anyway may as well wait in the input, unless the newest counts, or when it came.
        let is_wanted = self.sink.is_free() || self.rules.on_limit != OnLimit::Wait;
        let is_open = !self.stopping && self.rules.ended.is_none();
        is_open && is_wanted && self.intake.is_empty() && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.lanes.has_room(&self.rules, self.intake.is_single())
    }

    /// Lets what was read join the lanes, as far as they have room.
    fn fill_lanes(&mut self) {
        while !self.stopping
            && self.has_room()
            && let Some(parcel) = self.intake.take()
        {
            match parcel {
                Ok(parcel) => {
                    let displaced = self.lanes.push(parcel, &self.rules);
                    self.stats.refuse(displaced);
                }
                Err(error) => {
                    self.intake.clear();
                    self.end(Some(error));
                }
            }
        }
    }

    /// Until when to wait for something to do: now, if something may go. `None` if nothing can.
    fn ask(&mut self) -> Option<Time> {
        self.next = if self.stopping || !self.sink.is_free() { None } else { self.next_release() };
        let booking = if self.stopping { None } else { self.next_booking() };
        [self.next, booking, self.sink.deadline(), self.reporter.redraw_at()].into_iter().flatten().min()
    }

    fn next_booking(&mut self) -> Option<Time> {
        self.book().unwrap_or_else(|error| {
            self.give_up(Exit::Error, &error);
            Some(self.world.now())
        })
    }

    fn next_release(&mut self) -> Option<Time> {
        let now = self.world.now();
        if self.not_before > now && !self.lanes.is_empty() {
            return Some(self.not_before);
        }
        self.rules.limits.expire(now);
        let tidy = self.rules.limits.tidy_at();
        match self.lanes.turn(&self.rules, now) {
            Turn::Of(_) => Some(now),
            Turn::NotBefore(Verdict::At(at)) => Some(tidy.map_or(at, |tidy| tidy.min(at))),
            Turn::NotBefore(Verdict::Never) if !self.may_change() => {
                self.give_up(
                    Exit::Error,
                    &anyhow!("the next item's turn is past the end of time: shorten the period"),
                );
                // There is nothing to wait for any more.
                Some(now)
            }
            Turn::NotBefore(Verdict::Never) | Turn::Nobody => tidy,
        }
    }

    /// Whether what never comes may come yet: a limit from a file pauses, or counts what is running, or slots are booked.
    fn may_change(&self) -> bool {
        self.sink.running() > 0 || self.bookings.is_some() || self.rates.iter().any(|rate| rate.count == 0)
    }

    /// Does what is due.
    fn act(&mut self) {
        let now = self.world.now();
        self.sink.enforce(now);
        self.tidy(now);
        self.redraw(now);
        if !self.stopping && self.sink.is_free() && self.not_before <= now {
            self.release(now);
        }
    }

    /// Has the limits forget what no item will ask about any more.
    ///
    /// An item that waits asks as of when it became next in line, so what had not settled by then is kept. While
    /// none is accepted, there may be some that waits to be let in.
    fn tidy(&mut self, now: Time) {
        if self.rules.limits.tidy_at().is_some_and(|at| at <= now) {
            let is_waited_for = self.rules.ended.is_none() && !self.is_accepting();
            let outside = Some(self.intake.newest()).filter(|_| is_waited_for);
            let waiting =
                self.lanes.oldest(&self.rules).into_iter().chain(self.intake.arrival()).chain(outside);
            // What has arrived may not have been told yet: a wake-up can be late by some of a second, not by all.
            let untold = Time(now.0.saturating_sub(SECOND));
            self.rules.limits.tidy(now, waiting.fold(untold, Time::min));
        }
    }

    /// Goes on under other limits, with what is known of past releases.
    fn relimit(&mut self, rates: Vec<Rate>) {
        let now = self.world.now();
        let limits = std::mem::take(&mut self.rules.limits);
        self.rules.limits = config::rebuild(&self.rates, limits, &rates, now);
        self.rules.set_sums(&rates);
        let classifier = Classifier::new(&rates, self.separator.as_deref());
        for flight in self.flights.iter_mut() {
            let parcels = flight.parcels.iter();
            let classes = parcels.flat_map(|parcel| parcel.reclassified(&classifier, &self.delimiter));
            if let Some(class) = self.rules.sum(classes) {
                (flight.costs, flight.keys) = (class.costs, class.keys);
            }
        }
        self.intake.put_back(self.lanes.take_all(), classifier);
        self.rates = rates;
        self.reporter.limits(&self.rates);
    }

    fn fail(&mut self, cause: Cause) {
        match cause {
            Cause::ReaderGone => self.stop(Stop::ReaderGone),
            // What interrupted it is told by the world next.
            Cause::Interrupted => {}
            Cause::Failed(error) => self.give_up(Exit::Error, &error),
            Cause::Unable(exit, error) => self.give_up(exit, &error),
        }
    }

    fn give_up(&mut self, exit: Exit, error: &Error) {
        self.reporter.error(error);
        self.exit = self.exit.max(exit);
        self.stopping = true;
    }

    /// No more input. What is there is released first, whatever ended it.
    fn end(&mut self, error: Option<SourceError>) {
        self.rules.ended = Some(self.world.now());
        self.lanes.seat_all(&self.rules);
        self.bad_end = error;
    }

    /// All that was read has gone: was that the end of the input?
    fn conclude(&mut self) {
        if let Some(error) = self.bad_end.take() {
            self.give_up(Exit::Error, &error.into());
        }
    }

    /// The first stop lets running commands end, the second kills them.
    fn stop(&mut self, stop: Stop) {
        let signal = match stop {
            Stop::ReaderGone => Signal::SIGPIPE,
            Stop::Signal(signal) => {
                self.pass_on();
                signal
            }
        };
        self.exit = self.exit.max(Exit::Signal(signal as i32));
        self.stopping = true;
    }

    fn pass_on(&mut self) {
        self.sink.signal(if self.interrupted { Signal::SIGKILL } else { Signal::SIGTERM });
        self.interrupted = true;
    }

    fn redraw(&self, now: Time) {
        if self.reporter.redraw_at().is_none() {
            return;
        }
        let progress = Progress {
            stats: self.stats(),
            running: self.sink.running() as u64,
            consumed: self.consumed(),
            next: self.next,
        };
        self.reporter.redraw(now, &progress);
    }
}
