//! Reading, on a thread of its own, into a bounded channel.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use crossbeam_channel::{Receiver, bounded};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Whence, lseek};

use super::Clock;
use crate::found::found;
use crate::pipe;
use crate::source::{Block, Reader, SourceError};

/// How many blocks may lie between the reader and the pump.
const AHEAD: usize = 2;

/// Where bytes come from.
pub struct Input {
    from: From,
    /// So much has come at once that a larger pipe was asked for.
    is_fast: bool,
}

/// Where bytes come from.
enum From {
    /// Standard input, without a buffer of std's.
    Stdin,
    /// A file named on the command line.
    File(File),
}

impl Input {
    /// The file at `path`, or else standard input.
    ///
    /// # Errors
    /// The file cannot be opened, or stdin was closed when the process started.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        match path {
            Some(path) => {
                let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
                Ok(Input { from: From::File(file), is_fast: false })
            }
            None if found().stdin_closed => {
                bail!("standard input is closed: pipe items in, or name a file with -a")
            }
            None => Ok(Input { from: From::Stdin, is_fast: false }),
        }
    }
}

impl Input {
    /// Whether reading would not block.
    pub(super) fn is_ready(&self) -> bool {
        let is_ready = |fd: BorrowedFd| poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO);
        let ready = match &self.from {
            From::Stdin => is_ready(io::stdin().as_fd()),
            From::File(file) => is_ready(file.as_fd()),
        };
        ready.is_ok_and(|ready| ready > 0)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &self.from {
            From::Stdin => read(&io::stdin(), buffer),
            From::File(file) => read(file, buffer),
        }?;
        if read >= pipe::USUAL && !std::mem::replace(&mut self.is_fast, true) {
            match &self.from {
                From::Stdin => pipe::enlarge(io::stdin()),
                From::File(file) => pipe::enlarge(file),
            }
        }
        Ok(read)
    }
}

fn read(fd: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::read(fd, buffer) {
            Ok(read) => return Ok(read),
            Err(Errno::EINTR) => {}
            // Somebody else made the descriptor non-blocking.
            Err(Errno::EAGAIN) => {
                let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The input as it arrives.
pub(super) struct Feed {
    blocks: Receiver<Result<Block, SourceError>>,
    read: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Starts reading. The arrival of a block is when its last byte had been read.
    pub(super) fn start(reader: Reader<impl Read + Send + 'static>, clock: Clock) -> io::Result<Self> {
        let (send, blocks) = bounded(AHEAD);
        let read = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&read);
        let thread = super::spawn("reader", move || {
            for block in reader {
                let block = block.map(|block| block.arrived(clock.now()));
                let is_last = block.is_err();
                count.fetch_add(block.as_ref().map_or(0, Block::records), Relaxed);
                if send.send(block).is_err() || is_last {
                    break;
                }
            }
        })?;
        Ok(Feed { blocks, read, thread: Some(thread) })
    }

    /// An input that is over.
    pub(super) fn over() -> Self {
        Feed { blocks: bounded(0).1, read: Arc::default(), thread: None }
    }

    /// Whether it never had anything.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_none()
    }

    pub(super) fn blocks(&self) -> &Receiver<Result<Block, SourceError>> {
        &self.blocks
    }

    pub(super) fn items_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Ends the thread. Only for input that never blocks: it cannot be ended within a `read`.
    pub(super) fn stop(self) {
        drop(self.blocks);
        self.thread.into_iter().for_each(|thread| _ = thread.join());
    }
}

/// Where the input stood at the start, if it is a file that can be read from anywhere.
///
/// We read ahead of what is released. Of standard input, the rest is left for whoever reads the file next, as POSIX
/// asks of utilities.
pub struct Position {
    is_stdin: bool,
    /// Where it stood, and the size of the file.
    place: Option<(i64, i64)>,
}

impl Position {
    /// Where `input` stands.
    pub fn of(input: &Input) -> Self {
        match &input.from {
            From::Stdin => Position { is_stdin: true, place: place(&io::stdin()) },
            From::File(file) => Position { is_stdin: false, place: place(file) },
        }
    }

    /// How many bytes there are to read, if that is known.
    pub fn size_left(&self) -> Option<u64> {
        self.place.and_then(|(here, size)| u64::try_from(size - here).ok())
    }

    /// Whether what is not released has to be left for others.
    pub fn is_shared(&self) -> bool {
        self.is_stdin && self.place.is_some()
    }

    /// Sets standard input to `bytes` after where it stood.
    pub fn advance(&self, bytes: u64) {
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
