//! Unbuffered writes to standard output and standard error.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::libc;
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
            match write(self.fd(), &bytes[*written..end]) {
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

    /// Its descriptor, without the buffer that std allocates for standard output.
    #[expect(unsafe_code)]
    pub(crate) fn fd(self) -> BorrowedFd<'static> {
        let number = if self == Target::Stdout { libc::STDOUT_FILENO } else { libc::STDERR_FILENO };
        // SAFETY: the start of the program has seen to it that it is open, and nothing closes it.
        unsafe { BorrowedFd::borrow_raw(number) }
    }

    /// Waits up to `timeout` until a write would succeed or fail at once. Returns whether it would.
    pub(crate) fn is_writable(self, timeout: PollTimeout) -> nix::Result<bool> {
        match poll(&mut [PollFd::new(self.fd(), PollFlags::POLLOUT)], timeout) {
            // Nothing is known yet; the caller writes or polls again.
            Err(Errno::EINTR | Errno::EAGAIN | Errno::ENOMEM) => Ok(false),
            result => result.map(|ready| ready > 0),
        }
    }
}
