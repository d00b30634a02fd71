//! Output of commands that is printed whole, when they have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use anyhow::Context;

use super::temp_file::{self, pieces};
use crate::sink::Cause;
use crate::sink::writer::{Target, Writer};

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
    /// What waits until all items before it are done with. An item may have several, from one attempt each.
    held: BTreeMap<u64, Vec<[Printed; 2]>>,
}

impl Outputs {
    pub(super) fn new(writer: Writer, in_order: bool) -> Self {
        Outputs { writer, in_order, open: BTreeSet::new(), held: BTreeMap::new() }
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

    /// A command for the item of this number has ended, having printed to `capture`.
    pub(super) fn take(&mut self, first: u64, capture: Capture) -> Result<(), Cause> {
        let [stdout, stderr] = capture.0.map(Printed::of);
        let printed = stdout.and_then(|stdout| Ok([stdout, stderr?]));
        let printed = printed.context("cannot read what a command printed").map_err(Cause::Failed)?;
        if self.in_order {
            self.held.entry(first).or_default().push(printed);
            return Ok(());
        }
        self.print(printed)
    }

    /// The item of this number is done with; none before `next` is still to be started.
    pub(super) fn settle(&mut self, first: u64, next: u64) -> Result<(), Cause> {
        self.open.remove(&first);
        let next = self.open.first().map_or(next, |open| next.min(*open));
        while let Some(held) = self.held.first_entry().filter(|held| *held.key() < next) {
            for printed in held.remove() {
                self.print(printed)?;
            }
        }
        Ok(())
    }

    /// All that is still held will not wait any longer.
    pub(super) fn finish(&mut self) -> Result<(), Cause> {
        self.open.clear();
        self.settle(0, u64::MAX)
    }

    fn print(&self, printed: [Printed; 2]) -> Result<(), Cause> {
        for (target, printed) in [Target::Stdout, Target::Stderr].into_iter().zip(printed) {
            let write = |bytes: &[u8]| {
                self.writer.write_all(target, bytes, |_| bytes.len()).map_err(|(_, cause)| cause)
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
