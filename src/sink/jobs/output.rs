//! Output of commands that is printed whole, when they have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use anyhow::Error;

use super::space::Space;
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
    /// What waits until all items before it are done with. An item may have several, from one attempt each.
    held: BTreeMap<u64, Vec<[Printed; 2]>>,
}

impl Outputs {
    pub(super) fn new(writer: Writer, in_order: bool) -> Self {
        let (open, held) = (BTreeSet::new(), BTreeMap::new());
        Outputs { writer, space: Space::default(), in_order, open, held }
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
        let printed = capture.read(&self.space).map_err(|error| unreadable(first, error))?;
        if self.in_order {
            self.held.entry(first).or_default().push(printed);
            return Ok(());
        }
        self.print(first, printed)
    }

    /// The item of this number is done with; none before `next` is still to be started.
    pub(super) fn settle(&mut self, first: u64, next: u64) -> Result<(), Cause> {
        self.open.remove(&first);
        let next = self.open.first().map_or(next, |open| next.min(*open));
        while let Some(held) = self.held.first_entry().filter(|held| *held.key() < next) {
            let (first, printed) = held.remove_entry();
            for printed in printed {
                self.print(first, printed)?;
            }
        }
        Ok(())
    }

    /// All that is still held will not wait any longer.
    pub(super) fn finish(&mut self) -> Result<(), Cause> {
        self.open.clear();
        self.settle(0, u64::MAX)
    }

    fn print(&self, first: u64, printed: [Printed; 2]) -> Result<(), Cause> {
        for (target, printed) in [Target::Stdout, Target::Stderr].into_iter().zip(printed) {
            let write = |bytes: &[u8]| {
                self.writer.write_all(target, bytes, |_| bytes.len()).map_err(|(_, cause)| cause)
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
