//! The input that items are read from.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, absolute};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::readable;
use crate::inherited::{inherited, stdin};
use crate::output::Target;
use crate::pipe;

pub(crate) struct InputFile {
    /// The file; for standard input, a descriptor of our own, which bypasses std's buffer.
    pub(super) file: File,
    is_stdin: bool,
    /// True once a read has filled a usual pipe and a larger one was requested.
    is_fast: bool,
}

impl InputFile {
    /// Opens the file at `path`, or else standard input.
    ///
    /// # Errors
    /// The file cannot be opened, or stdin was closed when the process started.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let file = match path {
            Some(path) => open(path).with_context(|| format!("cannot read {}", path.display()))?,
            None if inherited().stdin_closed => {
                bail!("standard input is closed: pipe items in, or name a file with -a")
            }
            None => as_file(stdin()).context("cannot read the input")?,
        };
        Ok(InputFile { file, is_stdin: path.is_none(), is_fast: false })
    }

    /// An input of a single blank line.
    ///
    /// # Errors
    /// No pipe can be made.
    pub(crate) fn blank() -> Result<Self> {
        let (reader, mut writer) = io::pipe().context("cannot create a pipe")?;
        writer.write_all(b"\n").context("cannot write to a pipe")?;
        Ok(InputFile { file: OwnedFd::from(reader).into(), is_stdin: false, is_fast: false })
    }

    /// Returns whether what is written to standard output would be read again from here, for ever. The test is that of
    /// cat: both are the same file, and writing is ahead of reading.
    pub(crate) fn is_fed_by_stdout(&self) -> bool {
        let Some(place) = FilePlace::of(&self.file) else { return false };
        let Some(out) = as_file(Target::Stdout.fd()).ok().and_then(|file| FilePlace::of(&file)) else {
            return false;
        };
        let flags = fcntl(Target::Stdout.fd(), FcntlArg::F_GETFL).unwrap_or_default();
        let appends = OFlag::from_bits_truncate(flags).contains(OFlag::O_APPEND);
        place.id == out.id && place.offset < if appends { place.size } else { out.offset }
    }

    /// True if it is a file that was not read to its end.
    pub(super) fn has_rest(&self) -> bool {
        FilePlace::of(&self.file).is_some_and(|place| place.offset < place.size)
    }
}

impl AsFd for InputFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = nix::unistd::read(&self.file, buffer).map_err(|errno| match errno {
            // Someone else made the descriptor non-blocking, and may have read what was there. Wait only briefly: the
            // caller has other things to listen to.
            Errno::EAGAIN => {
                readable::wait(Some(self.as_fd()), &[], Some(readable::AGAIN));
                io::ErrorKind::Interrupted.into()
            }
            errno => io::Error::from(errno),
        })?;
        if read >= pipe::USUAL && !std::mem::replace(&mut self.is_fast, true) {
            pipe::enlarge(&self.file);
        }
        Ok(read)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

/// Where the input stood at the start, if it is a regular file.
///
/// We read ahead of what is released. The rest of standard input is left for whoever reads the file next, as POSIX asks
/// of utilities.
#[derive(Clone, Copy)]
pub(crate) struct InputPosition {
    is_stdin: bool,
    place: Option<FilePlace>,
}

impl InputPosition {
    pub(crate) fn of(input: &InputFile) -> Self {
        InputPosition { is_stdin: input.is_stdin, place: FilePlace::of(&input.file) }
    }

    /// The part of the file that is the input; `None` if it is no file.
    pub(super) fn range(&self) -> Option<Range<u64>> {
        self.place.map(|place| place.offset..place.size)
    }

    /// True if what is not released must be left for others.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_stdin && self.place.is_some()
    }

    /// Moves standard input to `bytes` after where it stood at the start.
    pub(crate) fn advance(&self, bytes: u64) {
        if let (Some(place), Ok(mut stdin)) = (self.place, as_file(stdin())) {
            let _ = stdin.seek(SeekFrom::Start(place.offset + bytes));
        }
    }
}

/// True if `open` is the regular file at `path`.
pub(crate) fn is_at(open: impl AsFd, path: &Path) -> bool {
    let place = as_file(open).ok().and_then(|file| FilePlace::of(&file));
    place.is_some_and(|place| Some(place.id) == id_of(path))
}

/// True if both are names of one file.
pub(crate) fn are_same(one: &Path, other: &Path) -> bool {
    let is_one_name = absolute(one).is_ok_and(|one| absolute(other).is_ok_and(|other| one == other));
    is_one_name || id_of(one).is_some_and(|id| Some(id) == id_of(other))
}

/// A position in a regular file.
#[derive(Clone, Copy)]
struct FilePlace {
    offset: u64,
    size: u64,
    id: (u64, u64),
}

impl FilePlace {
    /// `None` if it is no regular file.
    fn of(mut file: &File) -> Option<Self> {
        let metadata = file.metadata().ok().filter(Metadata::is_file)?;
        Some(FilePlace { offset: file.stream_position().ok()?, size: metadata.size(), id: id(&metadata) })
    }
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| id(&metadata))
}

/// Device and inode.
fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Another descriptor for the same open file. The calls of [`File`] are those for large files, also on 32-bit systems.
fn as_file(fd: impl AsFd) -> io::Result<File> {
    fd.as_fd().try_clone_to_owned().map(File::from)
}
