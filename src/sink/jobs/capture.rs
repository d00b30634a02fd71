//! The output of a command, kept until it is printed whole.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;

use anyhow::Error;

use super::space::Space;
use super::spawn::Spawn;
use super::tag::Tag;
use super::temp_files::{TempFile, TempFilePool};
use crate::exit::Exit;
use crate::sink::Cause;

/// Output up to this size is kept in memory while it waits for its turn.
pub(super) const SMALL: usize = 64 << 10;

/// The files that a running command prints to.
pub(super) struct Capture {
    pub(super) files: [TempFile; 2],
    tag: Tag,
}

/// The data that a command has printed to each of its outputs.
pub(super) struct Captured {
    pub(super) outputs: [Printed; 2],
    pub(super) tag: Tag,
}

pub(super) enum Printed {
    Small(Vec<u8>),
    /// With its length when the command ended: processes that were left behind may still print to it.
    Large(File, u64),
}

impl Capture {
    /// Makes `command` print to files. Each line gets the `tag`.
    pub(super) fn of(command: &mut Spawn, tag: &Tag, pool: &mut TempFilePool) -> io::Result<Self> {
        let [(stdout, for_stdout), (stderr, for_stderr)] = [pool.take()?, pool.take()?];
        Space::check_now(&stdout.file)?;
        (command.stdout, command.stderr) = (Some(for_stdout.into()), Some(for_stderr.into()));
        Ok(Capture { files: [stdout, stderr], tag: tag.clone() })
    }

    /// Reads what was printed, if there was space for all of it.
    pub(super) fn read(self, space: &Space, pool: &mut TempFilePool) -> io::Result<Captured> {
        space.check(&self.files[0].file)?;
        let [stdout, stderr] = self.files.map(|file| Printed::of(file, pool));
        Ok(Captured { outputs: [stdout?, stderr?], tag: self.tag })
    }
}

impl Captured {
    /// The answer of a worker.
    pub(super) fn answer(text: Vec<u8>, tag: Tag) -> io::Result<Self> {
        Ok(Captured { outputs: [Printed::keep(text)?, Printed::Small(Vec::new())], tag })
    }

    /// The number of files that hold it.
    pub(super) fn files(&self) -> usize {
        self.outputs.iter().filter(|printed| matches!(printed, Printed::Large(..))).count()
    }

    /// Removes and returns what was printed to standard output.
    pub(super) fn take_stdout(&mut self) -> Captured {
        let nothing = || Printed::Small(Vec::new());
        let stdout = std::mem::replace(&mut self.outputs[0], nothing());
        Captured { outputs: [stdout, nothing()], tag: self.tag.clone() }
    }
}

impl Printed {
    fn keep(bytes: Vec<u8>) -> io::Result<Self> {
        if bytes.len() <= SMALL {
            return Ok(Printed::Small(bytes));
        }
        let mut file = tempfile::tempfile()?;
        file.write_all(&bytes)?;
        Ok(Printed::Large(file, bytes.len() as u64))
    }

    fn of(kept: TempFile, pool: &mut TempFilePool) -> io::Result<Self> {
        let length = kept.file.metadata()?.len();
        if length > SMALL as u64 {
            return Ok(Printed::Large(kept.file, length));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        kept.file.read_exact_at(&mut bytes, 0)?;
        pool.give_back(kept, length);
        Ok(Printed::Small(bytes))
    }
}

/// The failure to read the output of the command for the item numbered `first`.
pub(super) fn unreadable(first: u64, error: io::Error) -> Cause {
    let why = match error.kind() {
        ErrorKind::StorageFull => {
            "the output of its command may be incomplete: set TMPDIR to a directory with more space"
        }
        _ => "cannot read the output of its command",
    };
    Cause::Failed(Exit::Error, Error::new(error).context(format!("item {first}: {why}")))
}
