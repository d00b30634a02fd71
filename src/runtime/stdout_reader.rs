//! Notices that the reader of stdout is gone, even while there is nothing to write.

use std::time::Duration;

use anyhow::Result;
use nix::poll::{PollFd, PollFlags};

use super::readable;
use super::waker::Waker;
use super::world::Event;
use crate::exit::Exit;
use crate::output::Target;
use crate::pipe::is_pipe;

/// Starts a thread that reports once the reader of stdout is gone, if stdout is a pipe or a socket. Returns whether it
/// is.
pub(super) fn watch(waker: &Waker) -> Result<bool> {
    if !is_pipe(Target::Stdout.fd()) {
        return Ok(false);
    }
    let waker = waker.clone();
    super::spawn("stdout_reader", move || {
        while !is_gone(None) {}
        waker.send(Event::Stop(Exit::READER_GONE));
    })?;
    Ok(true)
}

/// Waits up to `timeout` for the reader to be gone. May return before that.
pub(super) fn is_gone(timeout: Option<Duration>) -> bool {
    // Errors and hang-ups are reported anyway, but by macOS only if some event is asked for. This one never comes.
    readable::wait_for(&mut [PollFd::new(Target::Stdout.fd(), PollFlags::POLLRDBAND)], timeout)
}
