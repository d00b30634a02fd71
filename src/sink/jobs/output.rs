//! Output of commands that is printed whole, when they have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use anyhow::Error;
use nix::unistd::{SysconfVar, sysconf};

use super::space::Space;
use super::temp_file::{self, pieces};
use crate::output::Target;
use crate::sink::writer::Writer;
use crate::sink::{Cause, Flushed};

/// Output up to this size is kept in memory while it waits for its turn.
const SMALL: usize = 64 << 10;

/// So many commands may wait for their turn before no more are started that come after them.
const MOST_HELD: usize = 1000;

/// Descriptors for all but the outputs of commands: streams, the input, limits, a log, a state and its threads, and what
/// starting a command takes.
const OTHER_FILES: usize = 32;

/// What POSIX guarantees.
const LEAST_FILES: usize = 20;

/// Where a running command prints to.
pub(super) struct Capture([File; 2]);

impl Capture {
    /// Has `command` print to files.
    pub(super) fn of(command: &mut Command) -> io::Result<Self> {
        let files = [temp_file::empty()?, temp_file::empty()?];
        Space::check_now(&files[0])?;
        command.stdout(Stdio::from(files[0].try_clone()?));
        command.stderr(Stdio::from(files[1].try_clone()?));
        Ok(Capture(files))
    }

    /// What was printed, if there was space for all of it.
    fn read(self, space: &Space) -> io::Result<[Printed; 2]> {
        space.check(&self.0[0])?;
        let [stdout, stderr] = self.0.map(Printed::of);
        Ok([stdout?, stderr?])
    }
}

/// What a command has printed.
enum Printed {
    Small(Vec<u8>),
    Large(File),
}

impl Printed {
    fn is_file(&self) -> bool {
        matches!(self, Printed::Large(_))
    }

    fn of(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let Some(length) = usize::try_from(length).ok().filter(|&length| length <= SMALL) else {
            return Ok(Printed::Large(file));
        };
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Printed::Small(bytes))
    }
}

/// Prints the output of commands, as they end or in the order of their items.
pub(super) struct Outputs {
    writer: Writer,
    space: Space,
    in_order: bool,
    /// The numbers of the items that are not done with.
    open: BTreeSet<u64>,
    /// What waits for its turn, or cannot be read. An item may have several, from one attempt each.
    held: BTreeMap<u64, Vec<io::Result<[Printed; 2]>>>,
    /// It is the turn of the items before this one.
    next: u64,
    /// A write broke off: what comes after a piece of an output would only look as though it were whole.
    is_broken: bool,
    /// How many files are held, and the most that may be open, those of running commands included.
    files: usize,
    most_files: usize,
}

impl Outputs {
    pub(super) fn new(writer: Writer, in_order: bool) -> Self {
        let next = if in_order { 0 } else { u64::MAX };
        let (open, held) = (BTreeSet::new(), BTreeMap::new());
        let (space, is_broken) = (Space::default(), false);
        Outputs { writer, space, in_order, open, held, next, is_broken, files: 0, most_files: most_files() }
    }

    /// If no more is to be held than there is, when so many commands are running: only items before the one of this
    /// number may be started. What is held waits for them.
    pub(super) fn bound(&self, running: usize) -> Option<u64> {
        let is_short_of_files = self.in_order && self.files + 2 * (running + 1) > self.most_files;
        let is_full = self.held.len() >= MOST_HELD || is_short_of_files;
        // Of an item that is open, attempts may be held.
        let held = self.held.first_key_value().map(|(first, _)| first);
        let first = held.into_iter().chain(self.open.first()).min().filter(|_| is_full)?;
        Some(first + 1)
    }

    /// Whether files are held that an item before the one of this number will free.
    pub(super) fn will_free_files(&self, first: u64) -> bool {
        self.files > 0 && self.open.first().is_some_and(|open| *open < first)
    }

    /// A command for the item of this number has started.
    pub(super) fn open(&mut self, first: u64) {
        if self.in_order {
            self.open.insert(first);
        }
    }

    /// A command for the item of this number has ended, having printed to `capture`, or else by itself.
    pub(super) fn take(&mut self, first: u64, capture: Option<Capture>) {
        let output = capture.map(|capture| capture.read(&self.space));
        self.files += output.as_ref().map_or(0, files);
        self.held.entry(first).or_default().extend(output);
    }

    /// The item of this number is done with; all before `next` have been started.
    pub(super) fn settle(&mut self, first: u64, next: u64) {
        self.open.remove(&first);
        self.next = self.open.first().map_or(next, |open| next.min(*open));
    }

    /// All that is still held will not wait any longer.
    pub(super) fn finish(&mut self) -> Flushed {
        self.next = u64::MAX;
        self.flush()
    }

    /// Prints that of which it is the turn.
    pub(super) fn flush(&mut self) -> Flushed {
        let mut flushed = Flushed::default();
        while let Some(held) = self.held.first_entry().filter(|held| *held.key() < self.next) {
            let (first, outputs) = held.remove_entry();
            self.files -= outputs.iter().map(files).sum::<usize>();
            match outputs.into_iter().try_for_each(|output| self.print(first, output)) {
                Ok(()) => flushed.printed.push(first),
                Err(cause) => {
                    flushed.unprinted += 1;
                    flushed.cause = flushed.cause.or(cause);
                }
            }
        }
        flushed
    }

    /// Prints what a command has printed, unless a write broke off before; that was told.
    fn print(&mut self, first: u64, output: io::Result<[Printed; 2]>) -> Result<(), Option<Cause>> {
        if self.is_broken {
            return Err(None);
        }
        let output = output.map_err(|error| unreadable(first, error))?;
        Ok(self.write(first, output)?)
    }

    fn write(&mut self, first: u64, output: [Printed; 2]) -> Result<(), Cause> {
        for (target, printed) in [Target::Stdout, Target::Stderr].into_iter().zip(output) {
            let mut write = |bytes: &[u8]| {
                let written = self.writer.write_all(target, bytes, |_| bytes.len());
                self.is_broken |= written.is_err();
                written.map_err(|(_, cause)| cause)
            };
            match printed {
                Printed::Small(bytes) if bytes.is_empty() => {}
                Printed::Small(bytes) => write(&bytes)?,
                Printed::Large(file) => {
                    pieces(&file, write)?.map_err(|error| unreadable(first, error))?;
                    // Another command may have found none beside this file.
                    let _ = self.space.check(&file);
                }
            }
        }
        Ok(())
    }
}

/// How many files an output is held in.
fn files(output: &io::Result<[Printed; 2]>) -> usize {
    output.iter().flatten().filter(|printed| printed.is_file()).count()
}

/// How many files the outputs of commands may keep open.
fn most_files() -> usize {
    let most = sysconf(SysconfVar::OPEN_MAX).ok().flatten().and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(LEAST_FILES).saturating_sub(OTHER_FILES)
}

/// What the command for the item of this number printed cannot be had.
fn unreadable(first: u64, error: io::Error) -> Cause {
    let is_full = error.kind() == io::ErrorKind::StorageFull;
    let error = Error::new(error);
    Cause::Failed(match is_full {
        true => error.context(format!(
            "item {first}: what its command printed may be incomplete: set TMPDIR to where there is room"
        )),
        false => error.context(format!("item {first}: cannot read what its command printed")),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::interrupt::Interrupt;

    fn outputs() -> Outputs {
        Outputs { most_files: 10, ..Outputs::new(Writer::new(Arc::new(Interrupt::for_this_thread())), true) }
    }

    /// A command for the item of this number starts, prints so much, and ends.
    fn end(outputs: &mut Outputs, first: u64, length: usize) {
        let capture = Capture::of(&mut Command::new("true")).unwrap();
        capture.0[0].write_all_at(&vec![b'x'; length], 0).unwrap();
        outputs.open(first);
        outputs.take(first, Some(capture));
    }

    #[test]
    fn no_more_are_held_than_there_may_be() {
        let mut outputs = outputs();
        outputs.open(3);
        for first in 4..1004 {
            assert_eq!(outputs.bound(4), None, "{first}");
            end(&mut outputs, first, 0);
            outputs.settle(first, 1);
            assert!(outputs.flush().printed.is_empty());
        }
        assert_eq!(outputs.bound(0), Some(4));
        outputs.settle(3, 1003);
        outputs.flush();
        assert_eq!(outputs.bound(0), None);
    }

    #[test]
    fn files_are_left_for_the_first_item_that_is_not_done() {
        let mut outputs = outputs();
        // With nothing held, those that run may become too many.
        assert_eq!([outputs.bound(4), outputs.bound(5)], [None, None]);
        outputs.open(3);
        assert_eq!([outputs.bound(4), outputs.bound(5)], [None, Some(4)]);
        end(&mut outputs, 5, SMALL + 1);
        end(&mut outputs, 7, SMALL + 1);
        assert_eq!([outputs.bound(3), outputs.bound(4)], [None, Some(4)]);
        assert_eq!([3, 4].map(|first| outputs.will_free_files(first)), [false, true]);
        outputs.in_order = false;
        assert_eq!(outputs.bound(9), None);
    }
}
