//! Notices that the reader of stdout is gone, even while there is nothing to write.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::stat::{SFlag, fstat};

use super::readable;
use super::waker::Waker;
use super::world::Event;
use crate::schedule::Stop;

/// Starts a thread that reports once the reader of stdout is gone, if stdout is a pipe or a socket. Returns whether it
/// is.
pub(super) fn watch(waker: &Waker) -> io::Result<bool> {
    let kind = fstat(io::stdout())
        .map_or(SFlag::empty(), |stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
    if kind != SFlag::S_IFIFO && kind != SFlag::S_IFSOCK {
        return Ok(false);
    }
    let waker = waker.clone();
    super::spawn("stdout_reader", move || {
        while !is_gone(None) {}
        waker.send(Event::Stop(Stop::ReaderGone));
    })?;
    Ok(true)
}

/// Waits up to `timeout` for the reader to be gone. May return before that.
pub(super) fn is_gone(timeout: Option<Duration>) -> bool {
    let stdout = io::stdout();
    // No event is asked for: errors and hang-ups are reported anyway.
    readable::wait_for(&mut [PollFd::new(stdout.as_fd(), PollFlags::empty())], timeout)
}
