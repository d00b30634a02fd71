//! The input that items are read from.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Whence, lseek};

use super::readable;
use crate::inherited::inherited;
use crate::pipe;

pub(crate) struct Input {
    /// The file; for standard input, a descriptor of our own, which bypasses std's buffer.
    file: File,
    is_stdin: bool,
    /// True once a read has filled a usual pipe and a larger one was requested.
    is_fast: bool,
}

impl Input {
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
            None => io::stdin().as_fd().try_clone_to_owned().context("cannot read the input")?.into(),
        };
        Ok(Input { file, is_stdin: path.is_none(), is_fast: false })
    }

    /// An input of a single blank line.
    ///
    /// # Errors
    /// No pipe can be made.
    pub(crate) fn blank() -> Result<Self> {
        let (reader, mut writer) = io::pipe().context("cannot create a pipe")?;
        writer.write_all(b"\n").context("cannot write to a pipe")?;
        Ok(Input { file: OwnedFd::from(reader).into(), is_stdin: false, is_fast: false })
    }

    /// Returns whether what is written to standard output would be read again from here, for ever. The test is that of
    /// cat: both are the same file, and writing is ahead of reading.
    pub(crate) fn is_fed_by_stdout(&self) -> bool {
        let stdout = io::stdout();
        let (Ok(ours), Some((at, size))) = (fstat(&self.file), place(&self.file)) else { return false };
        let (Ok(out), Some((written, _))) = (fstat(&stdout), place(&stdout)) else { return false };
        let flags = fcntl(&stdout, FcntlArg::F_GETFL).unwrap_or_default();
        let appends = OFlag::from_bits_truncate(flags).contains(OFlag::O_APPEND);
        let is_same = (ours.st_dev, ours.st_ino) == (out.st_dev, out.st_ino);
        is_same && at < if appends { size } else { written }
    }

    /// True if it is the regular file at `path`.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let (Ok(ours), Ok(theirs)) = (self.file.metadata(), fs::metadata(path)) else { return false };
        ours.is_file() && (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
    }

    /// True if it is a file that was not read to its end.
    pub(super) fn has_rest(&self) -> bool {
        place(&self.file).is_some_and(|(here, size)| here < size)
    }

    /// Waits until a read would not block, a signal comes, or `timeout` has passed. Returns whether a read would not
    /// block.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> bool {
        readable::wait(Some(self.as_fd()), &[], timeout).0
    }

    /// The same input under another descriptor.
    pub(super) fn copied(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Read for Input {
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
    /// The offset, and the size of the file.
    place: Option<(i64, i64)>,
}

impl InputPosition {
    pub(crate) fn of(input: &Input) -> Self {
        InputPosition { is_stdin: input.is_stdin, place: place(&input.file) }
    }

    /// The part of the file that is the input; `None` if it is no file.
    pub(super) fn range(&self) -> Option<Range<u64>> {
        let (here, size) = self.place?;
        Some(u64::try_from(here).ok()?..u64::try_from(size).ok()?)
    }

    /// True if what is not released must be left for others.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_stdin && self.place.is_some()
    }

    /// Moves standard input to `bytes` after where it stood at the start.
    pub(crate) fn advance(&self, bytes: u64) {
        if let (Some((here, _)), Ok(bytes)) = (self.place, i64::try_from(bytes)) {
            let _ = lseek(io::stdin(), here + bytes, Whence::SeekSet);
        }
    }
}

fn place(fd: &impl AsFd) -> Option<(i64, i64)> {
    let stat = fstat(fd).ok()?;
    let is_file = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    if is_file { Some((lseek(fd, 0, Whence::SeekCur).ok()?, stat.st_size)) } else { None }
}
