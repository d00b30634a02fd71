//! Writing to standard output and standard error, without any buffer of our own.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

use super::Cause;
use crate::inherited::inherited;
use crate::interrupt::Interrupt;

/// How long an interrupted write may take to finish what it is in.
const GRACE: Duration = Duration::from_millis(50);

/// What a pipe that is writable takes without blocking, everywhere.
const CERTAIN: usize = 512;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Stdout,
    Stderr,
}

/// Writes all it is given, unless it is interrupted.
#[derive(Clone)]
pub(super) struct Writer {
    interrupt: Arc<Interrupt>,
}

impl Writer {
    /// Writing ends early once `interrupt` is raised.
    pub(super) fn new(interrupt: Arc<Interrupt>) -> Self {
        Writer { interrupt }
    }

    /// Writes `bytes`. If interrupted, it goes on to where `boundary` says that something whole ends, given how much
    /// was written, if that can be done in time.
    ///
    /// # Errors
    /// How much was written, and why no more.
    pub(super) fn write_all(
        &self,
        target: Target,
        bytes: &[u8],
        boundary: impl Fn(usize) -> usize,
    ) -> Result<(), (usize, Cause)> {
        let mut written = 0;
        let result = self.write(target, bytes, boundary, &mut written);
        result.map_err(|cause| (written, cause))
    }

    fn write(
        &self,
        target: Target,
        bytes: &[u8],
        boundary: impl Fn(usize) -> usize,
        written: &mut usize,
    ) -> Result<(), Cause> {
        if target == Target::Stdout {
            inherited().check_stdout().map_err(Cause::Failed)?;
        }
        let mut end = bytes.len();
        let mut give_up = None;
        while *written < end {
            if self.interrupt.is_raised() {
                let give_up = *give_up.get_or_insert_with(|| Instant::now() + GRACE);
                end = boundary(*written).min(end);
                if end <= *written || Instant::now() >= give_up {
                    return Err(Cause::Interrupted);
                }
            }
            let next = match give_up {
                None => &bytes[*written..end],
                // Nobody may be there to end another write that blocks.
                Some(_) if !is_writable(target) => continue,
                Some(_) => &bytes[*written..end.min(*written + CERTAIN)],
            };
            match write_to(target, next) {
                Ok(length) => *written += length,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => _ = wait_until_writable(target, PollTimeout::NONE)?,
                // Messages that nobody reads are no reason to end, as with our own.
                Err(Errno::EPIPE) if target == Target::Stderr => return Ok(()),
                Err(Errno::EPIPE) => return Err(Cause::ReaderGone),
                Err(errno) => return Err(failed(target, errno)),
            }
        }
        if end < bytes.len() { Err(Cause::Interrupted) } else { Ok(()) }
    }
}

fn write_to(target: Target, bytes: &[u8]) -> nix::Result<usize> {
    match target {
        Target::Stdout => write(io::stdout(), bytes),
        Target::Stderr => write(io::stderr(), bytes),
    }
}

/// Whether something can be written within a short time.
fn is_writable(target: Target) -> bool {
    wait_until_writable(target, PollTimeout::from(5u8)).unwrap_or(true)
}

/// Needed for a descriptor that somebody else made non-blocking.
fn wait_until_writable(target: Target, timeout: PollTimeout) -> Result<bool, Cause> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let fd = if target == Target::Stdout { stdout.as_fd() } else { stderr.as_fd() };
    match poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], timeout) {
        Ok(ready) => Ok(ready > 0),
        // The next write, or the next look, tells more.
        Err(Errno::EINTR | Errno::EAGAIN | Errno::ENOMEM) => Ok(false),
        Err(errno) => Err(failed(target, errno)),
    }
}

fn failed(target: Target, errno: Errno) -> Cause {
    let hint = match errno {
        Errno::EBADF => "it is not open for writing: redirect it to a file, or to /dev/null",
        _ => errno.desc(),
    };
    let name = if target == Target::Stdout { "output" } else { "error" };
    let error = Err::<(), _>(anyhow!("{hint}")).with_context(|| format!("cannot write to standard {name}"));
    Cause::Failed(error.unwrap_err())
}
