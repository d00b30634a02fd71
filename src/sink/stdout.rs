//! Standard output, written to without any buffer of our own.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

use super::{Cause, Load, SendError, Sent, Sink};
use crate::found::found;
use crate::interrupt::Interrupt;
use crate::time::Time;

/// How long an interrupted write may take to finish the item it is in.
const GRACE: Duration = Duration::from_millis(50);

/// Writes items as they are.
pub struct Stdout {
    interrupt: Arc<Interrupt>,
}

impl Stdout {
    /// Standard output; writing ends early once `interrupt` is raised.
    pub fn new(interrupt: Arc<Interrupt>) -> Self {
        Stdout { interrupt }
    }
}

impl Sink for Stdout {
    fn send(&mut self, _: Time, load: &Load) -> Result<Sent, SendError> {
        let mut writer = Writer { interrupt: &self.interrupt, written: 0, give_up: None };
        match writer.write_all(load) {
            Ok(()) => Ok(Sent::Released),
            Err(cause) => Err(SendError { written: writer.written, cause }),
        }
    }
}

/// One load on its way out.
struct Writer<'a> {
    interrupt: &'a Interrupt,
    written: usize,
    /// Set once interrupted.
    give_up: Option<Instant>,
}

impl Writer<'_> {
    fn write_all(&mut self, load: &Load) -> Result<(), Cause> {
        if found().stdout_closed {
            return Err(failed(Errno::EBADF));
        }
        let mut end = load.bytes.len();
        while self.written < end {
            if self.interrupt.is_raised() {
                end = self.end_of_item(load)?;
            }
            match write(io::stdout(), &load.bytes[self.written..end]) {
                Ok(written) => self.written += written,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait_until_writable()?,
                Err(Errno::EPIPE) => return Err(Cause::ReaderGone),
                Err(errno) => return Err(failed(errno)),
            }
        }
        if end < load.bytes.len() { Err(Cause::Interrupted) } else { Ok(()) }
    }

    /// Where to stop, once interrupted: an item that was begun is finished, if it can be in time.
    fn end_of_item(&mut self, load: &Load) -> Result<usize, Cause> {
        let give_up = *self.give_up.get_or_insert_with(|| Instant::now() + GRACE);
        let items = load.records_in(self.written);
        let boundary = load.delimiter.length(load.bytes, items);
        if boundary == self.written || Instant::now() >= give_up {
            return Err(Cause::Interrupted);
        }
        Ok(load.delimiter.length(load.bytes, items + 1))
    }

    /// A descriptor that somebody else made non-blocking.
    fn wait_until_writable(&self) -> Result<(), Cause> {
        let stdout = io::stdout();
        let timeout = if self.give_up.is_some() { PollTimeout::from(5u8) } else { PollTimeout::NONE };
        match poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)], timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }
}

fn failed(errno: Errno) -> Cause {
    let hint = match errno {
        Errno::EBADF => "it is closed: redirect it to a file, or to /dev/null",
        _ => errno.desc(),
    };
    let error = Err::<(), _>(anyhow!("{hint}")).context("cannot write to standard output");
    Cause::Failed(error.unwrap_err())
}
