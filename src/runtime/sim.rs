//! The simulated world: a clock that jumps to whatever is waited for.
//!
//! `--dry-run` and the tests run in it.

use std::cell::Cell;
use std::iter::Peekable;
use std::rc::Rc;

use anyhow::Error;

use super::world::{Wait, Wake, World};
use crate::source::Segment;
use crate::time::{Time, Wall};

/// A clock that stands still until it is set.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Rc<Cell<Time>>);

impl SimClock {
    /// The instant that it shows.
    pub fn now(&self) -> Time {
        self.0.get()
    }

    /// Sets it to `at`, unless it is already later.
    pub fn reach(&self, at: Time) {
        self.0.set(self.now().max(at));
    }
}

/// A world whose arrivals are known in advance.
pub struct Sim<I: Iterator<Item = Result<Segment, Error>>> {
    clock: SimClock,
    wall: Wall,
    arrivals: Peekable<I>,
    ended: bool,
}

impl<I: Iterator<Item = Result<Segment, Error>>> Sim<I> {
    /// A world that starts with its first arrival, or at `clock` if that is later. Its instants count from 1970.
    pub fn new(clock: SimClock, arrivals: I) -> Self {
        let mut arrivals = arrivals.peekable();
        if let Some(Ok(first)) = arrivals.peek() {
            clock.reach(first.arrival());
        }
        Sim { clock, wall: Wall::default(), arrivals, ended: false }
    }

    /// True if its instants count from 1970.
    pub fn is_dated(&self) -> bool {
        self.now().is_dated()
    }

    /// Sets the wall clock, which shows `shown` now.
    pub fn set_wall(&mut self, shown: Time) {
        self.wall = Wall::new(self.now(), shown);
    }

    /// The next arrival, if it comes by `until`, or the end of the input.
    fn arrival(&mut self, until: Option<Time>) -> Option<Wake> {
        let is_due = |block: &Segment| until.is_none_or(|until| block.arrival() <= until);
        match self.arrivals.next_if(|next| next.as_ref().map_or(true, is_due)) {
            Some(Ok(block)) => {
                self.clock.reach(block.arrival());
                Some(Wake::Input(block))
            }
            Some(Err(error)) => Some(self.end(Some(error))),
            None if self.arrivals.peek().is_none() => Some(self.end(None)),
            None => None,
        }
    }

    fn end(&mut self, error: Option<Error>) -> Wake {
        self.ended = true;
        Wake::End(error)
    }
}

impl<I: Iterator<Item = Result<Segment, Error>>> World for Sim<I> {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wall(&mut self) -> Wall {
        self.wall
    }

    fn wait(&mut self, wait: Wait) -> Wake {
        let until = wait.until.map(|until| until.max(self.now()));
        if wait.accepting
            && !self.ended
            && let Some(wake) = self.arrival(until)
        {
            return wake;
        }
        let Some(until) = until else { return Wake::Stalled };
        self.clock.reach(until);
        Wake::Due
    }
}
