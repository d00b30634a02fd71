//! Listens to the input and to whatever other threads tell.
//!
//! The input is read by the thread that waits, for that is the shortest way for an item: from a thread of its own it
//! would have to be handed over. Whatever happens meanwhile is told by other threads, which interrupt the wait.

use std::iter;
use std::time::Duration;

use super::clock::Clock;
use super::input::Input;
use super::readable;
use super::reaper::Reaper;
use super::waker::{Events, Waker};
use super::world::{Event, Wake};
use crate::source::{Reader, SourceError};
use crate::time::Time;

pub(super) struct Listener {
    clock: Clock,
    reader: Reader<Input>,
    /// The input has not ended.
    is_fed: bool,
    events: Events,
    waker: Waker,
    /// An output of commands has waited while something else had its turn.
    output_waited: bool,
}

impl Listener {
    pub(super) fn new(clock: Clock, reader: Reader<Input>, (waker, events): (Waker, Events)) -> Self {
        Listener { clock, reader, is_fed: true, events, waker, output_waited: false }
    }

    /// The input is known to have ended, and all of it was read.
    pub(super) fn is_over(&self) -> bool {
        self.reader.is_over()
    }

    /// For those who notice events.
    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// An event that has come already.
    pub(super) fn event(&self) -> Option<Event> {
        self.events.next()
    }

    /// An output of commands was told. The next one may have to wait again.
    pub(super) fn output_is_told(&mut self) {
        self.output_waited = false;
    }

    /// Listens until an instant, also to the input if it is `accepting` any.
    pub(super) fn listen(&mut self, until: Option<Time>, accepting: bool) -> Option<Wake> {
        loop {
            if let Some(event) = self.events.next() {
                let before = matches!(event, Event::Output).then(|| self.before_output(accepting)).flatten();
                return Some(before.unwrap_or(Wake::Event(event)));
            }
            let left = until.map(|until| Duration::from_nanos(until.since(self.clock.now())));
            let is_due = left == Some(Duration::ZERO);
            if accepting && self.is_fed {
                if let Some(wake) = self.read_within(left) {
                    return Some(wake);
                }
            } else if !is_due {
                self.events.interruptible(|| _ = readable::wait(None, left));
            }
            if is_due {
                return None;
            }
        }
    }

    /// An event or input that has its turn before an output of commands, which is told next: they may print all the
    /// time.
    fn before_output(&mut self, accepting: bool) -> Option<Wake> {
        if self.output_waited {
            return None;
        }
        // Of several outputs, one is told.
        let other = iter::from_fn(|| self.events.next()).find(|event| !matches!(event, Event::Output));
        let wake = match other {
            Some(event) => Wake::Event(event),
            None if accepting && self.is_fed => self.read_within(Some(Duration::ZERO))?,
            None => return None,
        };
        self.output_waited = true;
        self.waker.send(Event::Output);
        Some(wake)
    }

    /// Reads once, if there is something to read or will be within `left`.
    fn read_within(&mut self, left: Option<Duration>) -> Option<Wake> {
        let (reader, mut read) = (&mut self.reader, Ok(None));
        self.events.interruptible(|| {
            if !reader.is_waiting() || reader.input().wait(left) {
                read = reader.read_once();
            }
        });
        match read {
            Ok(Some(block)) => Some(Wake::Input(block.arrived(self.clock.now()))),
            Ok(None) if !self.reader.is_over() => None,
            Ok(None) => Some(self.end(None)),
            Err(error) => Some(self.end(Some(error))),
        }
    }

    fn end(&mut self, error: Option<SourceError>) -> Wake {
        self.is_fed = false;
        Wake::End(error)
    }

    /// Waits for a command or another event, and for nothing else: the shortest way from one command to the next.
    pub(super) fn wait_for_a_command(&mut self) -> Wake {
        loop {
            if let Some(event) = self.events.next() {
                return Wake::Event(event);
            }
            let mut has_ended = false;
            self.events.interruptible(|| has_ended = Reaper::wait());
            if has_ended {
                return Wake::Event(Event::Exited);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::waker;
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::source::Delimiter;

    /// As when commands print all the time.
    #[test]
    fn input_and_events_have_their_turn_beside_output() {
        let reader = Reader::new(Input::blank().unwrap(), Delimiter::new(b"\n"), 1024);
        let pair = waker::pair(Arc::new(Interrupt::for_this_thread()));
        let mut listener = Listener::new(Clock::start(), reader, pair);
        let waker = listener.waker();
        waker.send(Event::Output);
        let mut next = || match listener.listen(None, true) {
            Some(Wake::Event(Event::Output)) => {
                listener.output_is_told();
                waker.send(Event::Output);
                "output"
            }
            Some(Wake::Event(Event::Report)) => "report",
            Some(Wake::Input(_)) => "input",
            Some(Wake::End(None)) => "end",
            other => panic!("{other:?}"),
        };
        assert_eq!([(); 5].map(|()| next()), ["input", "output", "end", "output", "output"]);
        waker.send(Event::Report);
        assert_eq!([(); 3].map(|()| next()), ["report", "output", "output"]);
    }
}
