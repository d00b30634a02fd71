//! The loop: ask, wait, send, commit. Every decision to release is made here, and nowhere else.
//!
//! # Why no window is ever exceeded
//!
//! The instant that is checked against the limits is read *before* the items leave, the instant that is
//! charged *after* they left. Let release e start at start(e), the instant checked, and be over at end(e), the
//! instant charged. Under a limit of N per P, release k+N is let go only once release k, as charged, is at
//! least P ago: start(k+N) ≥ end(k) + P. Whatever happened in between, a late wake-up, a slow write, a
//! process stopped for an hour, it can only have made the distance longer.

mod lane;

use anyhow::{Error, anyhow};
use nix::sys::signal::Signal;

use self::lane::Lane;
use crate::exit::Exit;
use crate::limiter::{All, Ask, Limiter, Verdict};
use crate::report::Reporter;
use crate::sink::{Cause, Sent, Sink};
use crate::source::{Block, Delimiter, SourceError};
use crate::spec::Batch;
use crate::stats::Stats;
use crate::time::Time;

/// Where the pump lives: it tells the time and what happens.
pub trait World {
    /// The present instant. Never decreases.
    fn now(&self) -> Time;

    /// Waits for whatever comes first: `until`, input if it is `accepting` any, or something else to hear of.
    ///
    /// What has already happened is told before [`Wake::Due`]; so, what has arrived by an instant is in the
    /// lane before a release at that instant is chosen. With no `until` it waits as long as it takes.
    fn wait(&mut self, until: Option<Time>, accepting: bool) -> Wake;

    /// How many items have been read, whether or not they were accepted yet.
    fn items_read(&self) -> u64;
}

/// Why a wait is over.
#[derive(Debug)]
pub enum Wake {
    /// The instant has come.
    Due,
    /// Items have arrived.
    Input(Block),
    /// There will be no more, and why, if not for the end of the input.
    End(Option<SourceError>),
    /// A command has ended.
    Exited,
    /// The run is to end.
    Stop(Stop),
    /// Statistics are asked for.
    Report,
}

/// Why a run ends before its input does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A signal that asks for it.
    Signal(Signal),
    /// Nobody reads what is written.
    ReaderGone,
}

/// The loop with all that it needs.
pub struct Pump<'a> {
    world: &'a mut dyn World,
    sink: &'a mut dyn Sink,
    reporter: &'a Reporter,
    limits: All,
    batch: Batch,
    lane: Lane,
    /// When the input ended.
    ended: Option<Time>,
    /// Nothing more is released.
    stopping: bool,
    /// A signal has been passed on to the commands.
    interrupted: bool,
    exit: Exit,
    stats: Stats,
}

/// The next release, as far as it can be known now.
#[derive(Clone, Copy)]
struct Next {
    ask: Ask,
    at: Time,
}

impl<'a> Pump<'a> {
    /// A pump that lets items from `world` pass to `sink` as `limits` allow.
    pub fn new(
        world: &'a mut dyn World,
        sink: &'a mut dyn Sink,
        reporter: &'a Reporter,
        limits: All,
        delimiter: Delimiter,
        batch: Batch,
    ) -> Self {
        let stats = Stats::new(world.now());
        Pump {
            world,
            sink,
            reporter,
            limits,
            batch,
            lane: Lane::new(delimiter),
            ended: None,
            stopping: false,
            interrupted: false,
            exit: Exit::Done,
            stats,
        }
    }

    /// Runs until all items are released and all commands have ended, or the run is stopped.
    pub fn run(&mut self) -> Exit {
        while !self.is_over() {
            let next = self.ask();
            match self.world.wait(next.map(|next| next.at), self.is_accepting()) {
                Wake::Due => next.into_iter().for_each(|next| self.release(next.ask)),
                Wake::Input(block) => self.lane.push(block),
                Wake::End(error) => self.end(error),
                Wake::Exited => self.reap(),
                Wake::Stop(stop) => self.stop(stop),
                Wake::Report => self.reporter.statistics(&self.stats(), self.world.now()),
            }
        }
        self.exit
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        Stats { read: self.world.items_read(), ..self.stats }
    }

    fn is_over(&self) -> bool {
        let nothing_to_release = self.stopping || (self.ended.is_some() && self.lane.is_empty());
        nothing_to_release && self.sink.running() == 0
    }

    fn is_accepting(&self) -> bool {
        !self.stopping && self.ended.is_none() && self.lane.has_room(self.batch.items.get())
    }

    /// When may the items in front go?
    fn ask(&mut self) -> Option<Next> {
        if self.stopping || !self.sink.is_free() {
            return None;
        }
        let since = self.lane.since()?;
        let ask = Ask { since: self.closes().map_or(since, |closes| closes.max(since)), cost: 1 };
        match self.limits.earliest(&ask) {
            Verdict::At(at) => Some(Next { ask, at }),
            Verdict::Never => {
                let item = self.stats.consumed + 1;
                self.give_up(
                    Exit::Error,
                    &anyhow!("item {item}: its turn is past the end of time: shorten the period"),
                );
                None
            }
        }
    }

    /// When the batch in front is closed: it is full, has lingered long enough, or the input has ended.
    /// `None` if its release closes it.
    fn closes(&self) -> Option<Time> {
        let linger = self.batch.linger?;
        let first = self.lane.arrival(0)?;
        let lingered = first.checked_add(linger.into()).unwrap_or(Time(u64::MAX));
        let full = self.lane.arrival(self.batch.items.get() - 1);
        Some([full, self.ended].into_iter().flatten().fold(lingered, Time::min))
    }

    /// Sends what may go now, and charges it.
    fn release(&mut self, ask: Ask) {
        let start = self.world.now();
        if !self.limits.earliest(&ask).allows(start) {
            return;
        }
        let load = match self.batch.items.get() {
            1 => self.lane.front(self.limits.room(start, &ask).min(self.sink.span())),
            items => {
                let closed = self.closes().unwrap_or(start);
                self.lane.gather(self.lane.arrived(closed, items), self.sink.most_bytes())
            }
        };
        let records = load.records;
        let sent = self.sink.send(start, &load);
        let gone = sent.as_ref().map_or_else(|error| load.records_in(error.written), |_| records);
        let end = self.world.now();
        match sent {
            Ok(Sent::Released) => {
                let cost = ask.cost * self.batch.releases(records);
                self.limits.commit(end, &Ask { cost, ..ask });
                self.stats.released += records;
            }
            Ok(Sent::Refused) => {
                self.exit = self.exit.max(Exit::CommandFailed);
                self.stats.failed += records;
            }
            Err(error) => {
                self.stats.released += gone;
                self.fail(error.cause);
            }
        }
        self.stats.consumed += gone;
        self.stats.bytes += self.lane.advance(gone, end) as u64;
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

    /// No more input: what is there is released, whatever ended it.
    fn end(&mut self, error: Option<SourceError>) {
        self.ended = Some(self.world.now());
        if let Some(error) = error {
            self.reporter.error(&error.into());
            self.exit = self.exit.max(Exit::Error);
        }
    }

    fn reap(&mut self) {
        let reaped = self.sink.reap();
        self.stats.failed += reaped.failed;
        self.exit = self.exit.max(reaped.exit);
        self.stopping |= reaped.exit.ends_the_run();
    }

    /// The first stop lets running commands end, the second kills them.
    fn stop(&mut self, stop: Stop) {
        let signal = match stop {
            Stop::ReaderGone => Signal::SIGPIPE,
            Stop::Signal(signal) => {
                self.sink.signal(if self.interrupted { Signal::SIGKILL } else { Signal::SIGTERM });
                self.interrupted = true;
                signal
            }
        };
        self.exit = self.exit.max(Exit::Signal(signal as i32));
        self.stopping = true;
    }
}
