//! Listens to the input and to events from other threads.
//!
//! The thread that waits also reads the input, which is the shortest path for an item: a reading thread would have to
//! hand it over. Everything else is reported by other threads, which interrupt the wait.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::Error;

use super::clock::Clock;
use super::input::InputFile;
use super::readable;
use super::reaper::Reaper;
use super::waker::Events;
use super::world::{Event, Wake};
use crate::source::Reader;
use crate::time::Time;

pub(super) struct Listener {
    clock: Clock,
    pub(super) reader: Reader<InputFile>,
    /// True until the input ends.
    is_fed: bool,
    pub(super) events: Events,
    /// True if command output has waited while the input had its turn.
    output_waited: bool,
    /// True if the last wake was an output: whatever is due has its turn before the next one.
    output_told: bool,
}

impl Listener {
    pub(super) fn new(clock: Clock, reader: Reader<InputFile>, events: Events) -> Self {
        Listener { clock, reader, is_fed: true, events, output_waited: false, output_told: false }
    }

    /// Listens until an instant: to events, to `outputs`, and to the input if `accepting`. `None` if nothing comes.
    pub(super) fn listen(
        &mut self,
        until: Option<Time>,
        accepting: bool,
        outputs: &[BorrowedFd],
    ) -> Option<Wake> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(Wake::Event(event));
            }
            let left = until.map(|until| Duration::from_nanos(until.since(self.clock.now())));
            let (reads, is_due) = (accepting && self.is_fed, left == Some(Duration::ZERO));
            let outputs = if std::mem::take(&mut self.output_told) && is_due { &[] } else { outputs };
            if is_due && !reads && outputs.is_empty() {
                return None;
            }
            let wake = self.poll(left, reads, outputs);
            if is_due || wake.is_some() {
                return wake;
            }
        }
    }

    /// Waits up to `left` for `outputs`, and for input if it `reads` any. The two take turns, as commands may print
    /// without pause.
    fn poll(&mut self, left: Option<Duration>, reads: bool, outputs: &[BorrowedFd]) -> Option<Wake> {
        let Listener { reader, events, output_waited, .. } = self;
        let (mut has_input, mut has_output, mut read) = (reads && !reader.is_waiting(), false, Ok(None));
        events.interruptible(|| {
            if !has_input || !outputs.is_empty() {
                let input = (reads && !has_input).then(|| reader.input().as_fd());
                let left = if has_input { Some(Duration::ZERO) } else { left };
                let (is_readable, has_printed) = readable::wait(input, outputs, left);
                (has_input, has_output) = (has_input || is_readable, has_printed);
            }
            *output_waited = has_output && has_input && !*output_waited;
            if has_input && (!has_output || *output_waited) {
                read = reader.read_once();
            }
        });
        self.output_told = has_output && !self.output_waited;
        if self.output_told {
            return Some(Wake::Output);
        }
        match read {
            Ok(Some(block)) => Some(Wake::Input(block.arrived(self.clock.now()))),
            Ok(None) if !reads || !self.reader.is_over() => None,
            Ok(None) => Some(self.end(None)),
            Err(error) => Some(self.end(Some(error))),
        }
    }

    /// True if only a part of an item was read so far.
    pub(super) fn has_begun_item(&self) -> bool {
        self.is_fed && self.reader.has_begun_item()
    }

    fn end(&mut self, error: Option<Error>) -> Wake {
        self.is_fed = false;
        Wake::End(error)
    }

    /// Waits only for the end of a command or for another event: the shortest path from one command to the next.
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
    use std::io::{self, Write};

    use super::*;
    use crate::source::Delimiter;

    /// The output is always readable, as when commands print without pause.
    #[test]
    fn input_and_events_have_their_turn_beside_output() {
        let reader = Reader::new(InputFile::blank().unwrap(), Delimiter::new(b"\n"), 1024);
        let mut listener = Listener::new(Clock::start(), reader, Events::for_this_thread());
        let waker = listener.events.waker.clone();
        let (output, mut printing) = io::pipe().unwrap();
        printing.write_all(b"x").unwrap();
        let mut next = || match listener.listen(None, true, &[output.as_fd()]) {
            Some(Wake::Output) => "output",
            Some(Wake::Event(Event::Report)) => "report",
            Some(Wake::Input(_)) => "input",
            Some(Wake::End(None)) => "end",
            other => panic!("{other:?}"),
        };
        assert_eq!([(); 5].map(|()| next()), ["input", "output", "end", "output", "output"]);
        waker.send(Event::Report);
        assert_eq!([(); 3].map(|()| next()), ["report", "output", "output"]);
    }

    #[test]
    fn what_is_due_has_its_turn_beside_output() {
        let reader = Reader::new(InputFile::blank().unwrap(), Delimiter::new(b"\n"), 1024);
        let mut listener = Listener::new(Clock::start(), reader, Events::for_this_thread());
        let (output, mut printing) = io::pipe().unwrap();
        printing.write_all(b"x").unwrap();
        let mut is_due = || match listener.listen(Some(Time::ZERO), false, &[output.as_fd()]) {
            Some(Wake::Output) => false,
            None => true,
            other => panic!("{other:?}"),
        };
        assert_eq!([(); 4].map(|()| is_due()), [false, true, false, true]);
    }
}
