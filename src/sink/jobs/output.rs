//! The output of commands, printed whole when they have ended, or line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;

use nix::unistd::{SysconfVar, sysconf};
use smallvec::SmallVec;

use super::capture::{Capture, Captured, Printed, unreadable};
use super::gathered::Gathered;
use super::lines::Lines;
use super::space::Space;
use super::tag::Tagged;
use super::temp_files::{MAX_KEPT, TempFilePool};
use crate::interrupt::Interrupt;
use crate::output::Target;
use crate::sink::writer::OutputWriter;
use crate::sink::{Cause, Flushed};
use crate::source::FileRange;

/// The number of commands whose output may wait for its turn before no later ones are started.
const MAX_WAITING: usize = 1000;

/// The most bytes written at once.
const PIECE: usize = 64 << 10;

/// Descriptors for everything but the outputs of commands: streams, the input, limits, a log, a state and its threads,
/// and what starting a command takes.
const OTHER_FILES: usize = 32 + MAX_KEPT;

/// Guaranteed by POSIX.
const LEAST_FILES: usize = 20;

/// Prints the output of commands as they end, or in the order of their items.
pub(super) struct Outputs {
    interrupt: Arc<Interrupt>,
    space: Space,
    pub(super) pool: TempFilePool,
    buffer: Box<[u8]>,
    turns: PrintOrder,
    /// Outputs that wait for their turn, or cannot be read. An item may have several, one from each attempt.
    waiting: BTreeMap<u64, SmallVec<[io::Result<Captured>; 1]>>,
    /// The standard output of attempts that will be retried.
    superseded: BTreeMap<u64, Captured>,
    /// Output that is printed as it comes.
    pub(super) lines: Lines,
    gathered: Gathered,
    /// True once a write broke off: what followed a partial output would only seem to be whole.
    is_broken: bool,
    /// The number of files of finished commands, and the most that may be open, including those of running commands.
    files: usize,
    most_files: usize,
}

/// Whose output may be printed.
struct PrintOrder {
    in_order: bool,
    /// The numbers of the started items that are not done, if outputs are printed in order.
    open: BTreeSet<u64>,
    /// It is the turn of the items before this one.
    next: u64,
}

impl PrintOrder {
    fn start(&mut self, first: u64) {
        if self.in_order {
            self.open.insert(first);
        }
    }

    /// The item numbered `first` is done; all before `next` have been started.
    fn end(&mut self, first: u64, next: u64) {
        self.open.remove(&first);
        self.next = self.open.first().map_or(next, |open| next.min(*open));
    }
}

impl Outputs {
    /// Prints captured output `in_order`, or else as commands end.
    pub(super) fn new(interrupt: Arc<Interrupt>, in_order: bool) -> Self {
        let next = if in_order { 0 } else { u64::MAX };
        Outputs {
            interrupt,
            space: Space::default(),
            pool: TempFilePool::default(),
            buffer: vec![0; PIECE].into(),
            turns: PrintOrder { in_order, open: BTreeSet::new(), next },
            waiting: BTreeMap::new(),
            superseded: BTreeMap::new(),
            lines: Lines::default(),
            gathered: Gathered::default(),
            is_broken: false,
            files: 0,
            most_files: most_files(),
        }
    }

    /// What breaks off printing.
    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// If no more outputs may wait while `running` commands run, the number of the first item that may not be started.
    /// The outputs wait for the items before it.
    pub(super) fn bound(&self, running: usize) -> Option<u64> {
        let is_short_of_files = self.turns.in_order && self.files + 2 * (running + 1) > self.most_files;
        let is_full = self.waiting.len() >= MAX_WAITING || is_short_of_files;
        // An open item may have outputs of earlier attempts waiting.
        let waiting = self.waiting.first_key_value().map(|(first, _)| first);
        let first = waiting.into_iter().chain(self.turns.open.first()).min().filter(|_| is_full)?;
        Some(first + 1)
    }

    /// True if files wait that an item before the one numbered `first` will free.
    pub(super) fn will_free_files(&self, first: u64) -> bool {
        self.files > 0 && self.turns.open.first().is_some_and(|open| *open < first)
    }

    /// Notes that a command for the item numbered `first` has started.
    pub(super) fn open(&mut self, first: u64) {
        self.files -= self.superseded.remove(&first).map_or(0, |output| output.files());
        self.turns.start(first);
    }

    /// Notes that a command for the item numbered `first` has ended, with its output in `capture` if that is captured.
    pub(super) fn take(&mut self, first: u64, capture: Option<Capture>) {
        let output = capture.map(|capture| capture.read(&self.space, &mut self.pool));
        self.end(first, output);
    }

    /// Notes that there will be no more output of the item numbered `first`.
    pub(super) fn end(&mut self, first: u64, output: Option<io::Result<Captured>>) {
        self.lines.end(first);
        self.files += output.as_ref().map_or(0, files);
        self.waiting.entry(first).or_default().extend(output);
    }

    /// Notes that the item numbered `first` will be retried. Its standard output so far is printed only if that does
    /// not happen, and if there was room to keep it.
    pub(super) fn supersede(&mut self, first: u64) {
        let Some(Ok(last)) = self.waiting.get_mut(&first).and_then(|outputs| outputs.last_mut()) else {
            return;
        };
        let output = last.take_stdout();
        if self.superseded.len() < MAX_WAITING && self.files < self.most_files / 2 {
            self.superseded.insert(first, output);
        } else {
            self.files -= output.files();
        }
    }

    /// Notes that the item numbered `first` is done; all before `next` have been started.
    pub(super) fn retire(&mut self, first: u64, next: u64) {
        self.turns.end(first, next);
    }

    /// Notes that it is the turn of everything that still waits.
    pub(super) fn finish(&mut self) {
        self.turns.next = u64::MAX;
        for (first, output) in std::mem::take(&mut self.superseded) {
            self.waiting.entry(first).or_default().push(Ok(output));
        }
    }

    /// Prints the outputs whose turn it is. Calls `meanwhile` if the thread is asked for something.
    pub(super) fn flush(&mut self, meanwhile: &mut dyn FnMut()) -> Flushed {
        let interrupt = Arc::clone(&self.interrupt);
        let writer = &mut OutputWriter { interrupt: &interrupt, meanwhile };
        let mut flushed = Flushed { cause: self.print_lines(writer).err(), ..Flushed::default() };
        while let Some(waiting) =
            self.waiting.first_entry().filter(|waiting| *waiting.key() < self.turns.next)
        {
            let (first, outputs) = waiting.remove_entry();
            self.files -= outputs.iter().map(files).sum::<usize>();
            if let [Ok(output)] = &outputs[..]
                && !self.is_broken
                && self.gathered.add(first, output)
            {
                continue;
            }
            self.print_gathered(writer, &mut flushed);
            let printed = match self.is_broken {
                // The failure was reported when it happened.
                true => Err(None),
                false => outputs.into_iter().try_for_each(|one| self.print(first, one, writer)).map_err(Some),
            };
            match printed {
                Ok(()) => flushed.printed.push(first),
                Err(cause) => {
                    flushed.unprinted += 1;
                    flushed.cause = flushed.cause.or(cause);
                }
            }
        }
        self.print_gathered(writer, &mut flushed);
        flushed
    }

    fn print_gathered(&mut self, writer: &mut OutputWriter, flushed: &mut Flushed) {
        if let Err(cause) = self.gathered.print(writer, flushed) {
            self.is_broken = true;
            flushed.cause.get_or_insert(cause);
        }
    }

    /// Prints what has come, line by line.
    fn print_lines(&mut self, writer: &mut OutputWriter) -> Result<(), Cause> {
        let printed = self.lines.print(&mut self.buffer, (!self.is_broken).then_some(writer));
        self.is_broken |= printed.is_err();
        printed
    }

    fn print(
        &mut self,
        first: u64,
        output: io::Result<Captured>,
        writer: &mut OutputWriter,
    ) -> Result<(), Cause> {
        let output = output.map_err(|error| unreadable(first, error))?;
        for (target, printed) in [Target::Stdout, Target::Stderr].into_iter().zip(&output.outputs) {
            let mut write = |bytes: &[u8]| {
                let written = writer.print(target, bytes);
                self.is_broken |= written.is_err();
                written.map_err(|(_, cause)| cause)
            };
            let mut tagged = Tagged::new(&output.tag);
            let text: &mut dyn Read = match printed {
                Printed::Small(text) => &mut &text[..],
                Printed::Large(file, length) => &mut FileRange { file, range: 0..*length },
            };
            let read = loop {
                match text.read(&mut self.buffer) {
                    Ok(0) => break Ok(()),
                    Ok(read) => write(&tagged.piece(&self.buffer[..read]))?,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => break Err(unreadable(first, error)),
                }
            };
            write(tagged.end())?;
            read?;
            if let Printed::Large(file, _) = printed {
                // While this file existed, another command may have found no space left.
                let _ = self.space.check(file);
            }
        }
        Ok(())
    }
}

/// The number of files that hold an output.
fn files(output: &io::Result<Captured>) -> usize {
    output.as_ref().map_or(0, Captured::files)
}

/// The number of files that the outputs of commands may keep open.
fn most_files() -> usize {
    let most = sysconf(SysconfVar::OPEN_MAX).ok().flatten().and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(LEAST_FILES).saturating_sub(OTHER_FILES)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::capture::SMALL;
    use super::super::spawn::Spawn;
    use super::*;

    fn outputs() -> Outputs {
        let interrupt = Arc::new(Interrupt::for_this_thread());
        Outputs { most_files: 10, ..Outputs::new(interrupt, true) }
    }

    /// Starts a command for the item numbered `first`, which prints `length` bytes and ends.
    fn end(outputs: &mut Outputs, first: u64, length: usize) {
        let mut command = Spawn::new("true".as_ref(), &[]).unwrap();
        let capture = Capture::of(&mut command, &None, &mut outputs.pool).unwrap();
        capture.files[0].file.write_all_at(&vec![b'x'; length], 0).unwrap();
        outputs.open(first);
        outputs.take(first, Some(capture));
    }

    #[test]
    fn no_more_wait_than_there_may_be() {
        let mut outputs = outputs();
        outputs.open(3);
        for first in 4..1004 {
            assert_eq!(outputs.bound(4), None, "{first}");
            end(&mut outputs, first, 0);
            outputs.retire(first, 1);
            assert!(outputs.flush(&mut || ()).printed.is_empty());
        }
        assert_eq!(outputs.bound(0), Some(4));
        outputs.retire(3, 1003);
        outputs.flush(&mut || ());
        assert_eq!(outputs.bound(0), None);
    }

    #[test]
    fn files_are_left_for_the_first_item_that_is_not_done() {
        let mut outputs = outputs();
        // With nothing waiting, running commands may use too many files.
        assert_eq!([outputs.bound(4), outputs.bound(5)], [None, None]);
        outputs.open(3);
        assert_eq!([outputs.bound(4), outputs.bound(5)], [None, Some(4)]);
        end(&mut outputs, 5, SMALL + 1);
        end(&mut outputs, 7, SMALL + 1);
        assert_eq!([outputs.bound(3), outputs.bound(4)], [None, Some(4)]);
        assert_eq!([3, 4].map(|first| outputs.will_free_files(first)), [false, true]);
        outputs.turns.in_order = false;
        assert_eq!(outputs.bound(9), None);
    }
}
