//! Unbuffered writes to standard output and standard error.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

/// The number of bytes that a writable pipe takes without blocking, on any system.
const CERTAIN: usize = 512;

/// Milliseconds until a write that must not block asks for leave again.
const WRITABLE_POLL: u8 = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Stdout,
    Stderr,
}

/// Permission to continue a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave {
    /// The number of bytes that may be written in total.
    pub(crate) end: usize,
    /// True if the write may take as long as it needs. Otherwise it blocks only if someone else fills the pipe at the
    /// same time.
    pub(crate) may_block: bool,
}

impl Target {
    /// Writes `bytes` as far as `leave` allows. It is asked before each write, with the number of bytes `written` so
    /// far.
    pub(crate) fn write(
        self,
        bytes: &[u8],
        written: &mut usize,
        mut leave: impl FnMut(usize) -> Option<Leave>,
    ) -> nix::Result<()> {
        while *written < bytes.len() {
            let Some(Leave { end, may_block }) = leave(*written).filter(|leave| leave.end > *written) else {
                return Ok(());
            };
            if !may_block && !self.is_writable(PollTimeout::from(WRITABLE_POLL))? {
                continue;
            }
            let end = if may_block { end } else { end.min(*written + CERTAIN) };
            match self.write_once(&bytes[*written..end]) {
                Ok(length) => *written += length,
                // Someone else made it non-blocking.
                Err(Errno::EAGAIN) if may_block => _ = self.is_writable(PollTimeout::NONE)?,
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes`, however long it takes.
    pub(crate) fn write_all(self, bytes: &[u8]) -> nix::Result<()> {
        self.write(bytes, &mut 0, |_| Some(Leave { end: bytes.len(), may_block: true }))
    }

    fn write_once(self, bytes: &[u8]) -> nix::Result<usize> {
        match self {
            Target::Stdout => write(io::stdout(), bytes),
            Target::Stderr => write(io::stderr(), bytes),
        }
    }

    /// Waits up to `timeout` until a write would succeed or fail at once. Returns whether it would.
    pub(crate) fn is_writable(self, timeout: PollTimeout) -> nix::Result<bool> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let fd = if self == Target::Stdout { stdout.as_fd() } else { stderr.as_fd() };
        match poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], timeout) {
            // Nothing is known yet; the caller writes or polls again.
            Err(Errno::EINTR | Errno::EAGAIN | Errno::ENOMEM) => Ok(false),
            result => result.map(|ready| ready > 0),
        }
    }
}
