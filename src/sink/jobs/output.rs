//! Output of commands that is printed whole, when they have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use anyhow::Context;

use super::temp_file::{self, pieces};
use crate::sink::writer::{Target, Writer};
use crate::sink::{Cause, Flushed};

/// Output up to this size is kept in memory while it waits for its turn.
const SMALL: usize = 64 << 10;

/// So many commands may wait for their turn before no more are started.
const MOST_HELD: usize = 1000;

/// Where a running command prints to.
pub(super) struct Capture([File; 2]);

impl Capture {
    /// Has `command` print to files.
    pub(super) fn of(command: &mut Command) -> io::Result<Self> {
        let files = [temp_file::empty()?, temp_file::empty()?];
        command.stdout(Stdio::from(files[0].try_clone()?));
        command.stderr(Stdio::from(files[1].try_clone()?));
        Ok(Capture(files))
    }

    fn read(self) -> io::Result<[Printed; 2]> {
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
    in_order: bool,
    /// The numbers of the items that are not done with.
    open: BTreeSet<u64>,
    /// What waits for its turn, or cannot be read. An item may have several, from one attempt each.
    held: BTreeMap<u64, Vec<io::Result<[Printed; 2]>>>,
    /// It is the turn of the items before this one.
    next: u64,
    /// A write broke off: what comes after a piece of an output would only look as though it were whole.
    is_broken: bool,
}

impl Outputs {
    pub(super) fn new(writer: Writer, in_order: bool) -> Self {
        let next = if in_order { 0 } else { u64::MAX };
        Outputs { writer, in_order, open: BTreeSet::new(), held: BTreeMap::new(), next, is_broken: false }
    }

    /// Whether more may be started.
    pub(super) fn has_room(&self) -> bool {
        self.held.len() < MOST_HELD
    }

    /// A command for the item of this number has started.
    pub(super) fn open(&mut self, first: u64) {
        if self.in_order {
            self.open.insert(first);
        }
    }

    /// A command for the item of this number has ended, having printed to `capture`, or else by itself.
    pub(super) fn take(&mut self, first: u64, capture: Option<Capture>) {
        self.held.entry(first).or_default().extend(capture.map(Capture::read));
    }

    /// The item of this number is done with; none before `next` is still to be started.
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
            match outputs.into_iter().try_for_each(|output| self.print(output)) {
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
    fn print(&mut self, output: io::Result<[Printed; 2]>) -> Result<(), Option<Cause>> {
        if self.is_broken {
            return Err(None);
        }
        let output = output.context("cannot read what a command printed").map_err(Cause::Failed)?;
        Ok(self.write(output)?)
    }

    fn write(&mut self, output: [Printed; 2]) -> Result<(), Cause> {
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
                    pieces(&file, write)?
                        .context("cannot read what a command printed")
                        .map_err(Cause::Failed)?;
                }
            }
        }
        Ok(())
    }
}
