//! The output of a command, kept until it is printed whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::rc::Rc;

use super::space::Space;
use super::tag::Tagged;
use super::temp_file::pieces;

/// Output up to this size is kept in memory while it waits for its turn.
pub(super) const SMALL: usize = 64 << 10;

/// The files that a running command prints to.
pub(super) struct Capture {
    pub(super) files: [File; 2],
    tag: Rc<[u8]>,
}

/// The text that a command has printed, to each of its outputs.
pub(super) struct Captured {
    pub(super) outputs: [Printed; 2],
    tag: Rc<[u8]>,
}

pub(super) enum Printed {
    Small(Vec<u8>),
    Large(File),
}

impl Capture {
    /// Has `command` print to files. Each line gets the `tag`.
    pub(super) fn of(command: &mut Command, tag: &Rc<[u8]>) -> io::Result<Self> {
        let files = [tempfile::tempfile()?, tempfile::tempfile()?];
        Space::check_now(&files[0])?;
        command.stdout(Stdio::from(files[0].try_clone()?));
        command.stderr(Stdio::from(files[1].try_clone()?));
        Ok(Capture { files, tag: Rc::clone(tag) })
    }

    /// The text that was printed, if there was space for all of it.
    pub(super) fn read(self, space: &Space) -> io::Result<Captured> {
        space.check(&self.files[0])?;
        let [stdout, stderr] = self.files.map(Printed::of);
        Ok(Captured { outputs: [stdout?, stderr?], tag: self.tag })
    }
}

impl Captured {
    /// The number of files that it is held in.
    pub(super) fn files(&self) -> usize {
        self.outputs.iter().filter(|printed| matches!(printed, Printed::Large(_))).count()
    }

    /// Takes off what was printed to standard output.
    pub(super) fn take_stdout(&mut self) -> Captured {
        let nothing = || Printed::Small(Vec::new());
        let stdout = std::mem::replace(&mut self.outputs[0], nothing());
        Captured { outputs: [stdout, nothing()], tag: Rc::clone(&self.tag) }
    }

    /// Hands one of the outputs to `print`, piece by piece. Returns whether it could be read.
    pub(super) fn print<E>(
        &self,
        printed: &Printed,
        mut print: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<io::Result<()>, E> {
        let mut tagged = Tagged::new(&self.tag);
        let is_tagged = !self.tag.is_empty();
        let mut tag_and_print =
            |bytes: &[u8]| if is_tagged { print(&tagged.piece(bytes)) } else { print(bytes) };
        let read = match printed {
            Printed::Small(bytes) if bytes.is_empty() => Ok(()),
            Printed::Small(bytes) => tag_and_print(bytes).map(Ok)?,
            Printed::Large(file) => pieces(file, tag_and_print)?,
        };
        let end = tagged.end();
        if !end.is_empty() {
            print(end)?;
        }
        Ok(read)
    }
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
