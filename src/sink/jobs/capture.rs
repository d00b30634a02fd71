//! The output of a command, kept until it is printed whole.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::Error;

use super::space::Space;
use crate::exit::Exit;
use crate::sink::Cause;
use crate::source::FileRange;

/// Output up to this size is kept in memory while it waits for its turn.
pub(super) const SMALL: usize = 64 << 10;

/// The files that a running command prints to.
pub(super) struct Capture {
    pub(super) files: [File; 2],
    tag: Rc<[u8]>,
}

/// The data that a command has printed to each of its outputs.
pub(super) struct Captured {
    pub(super) outputs: [Printed; 2],
    pub(super) tag: Rc<[u8]>,
}

pub(super) enum Printed {
    Small(Vec<u8>),
    /// With its length when the command ended: processes that were left behind may still print to it.
    Large(File, u64),
}

impl Capture {
    /// Makes `command` print to files. Each line gets the `tag`.
    pub(super) fn of(command: &mut Command, tag: &Rc<[u8]>) -> io::Result<Self> {
        let files = [tempfile::tempfile()?, tempfile::tempfile()?];
        Space::check_now(&files[0])?;
        command.stdout(Stdio::from(files[0].try_clone()?));
        command.stderr(Stdio::from(files[1].try_clone()?));
        Ok(Capture { files, tag: Rc::clone(tag) })
    }

    /// Reads what was printed, if there was space for all of it.
    pub(super) fn read(self, space: &Space) -> io::Result<Captured> {
        space.check(&self.files[0])?;
        let [stdout, stderr] = self.files.map(Printed::of);
        Ok(Captured { outputs: [stdout?, stderr?], tag: self.tag })
    }
}

impl Captured {
    /// The answer of a worker.
    pub(super) fn answer(text: &[u8], tag: Rc<[u8]>) -> io::Result<Self> {
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
        Captured { outputs: [stdout, nothing()], tag: Rc::clone(&self.tag) }
    }
}

impl Printed {
    pub(super) fn read(&self) -> Box<dyn Read + '_> {
        match self {
            Printed::Small(bytes) => Box::new(&bytes[..]),
            Printed::Large(file, length) => Box::new(FileRange { file, range: 0..*length }),
        }
    }

    fn keep(bytes: &[u8]) -> io::Result<Self> {
        if bytes.len() <= SMALL {
            return Ok(Printed::Small(bytes.to_vec()));
        }
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        Ok(Printed::Large(file, bytes.len() as u64))
    }

    fn of(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        if length > SMALL as u64 {
            return Ok(Printed::Large(file, length));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
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
