//! Notices that the reader of stdout is gone, even while there is nothing to write.

use std::io;
use std::os::fd::AsFd;

use anyhow::Result;
use nix::poll::{PollFd, PollFlags};

use super::readable;
use super::waker::Waker;
use super::world::Event;
use crate::exit::Exit;
use crate::pipe::is_pipe;

/// Starts a thread that reports once the reader of stdout is gone, if stdout is a pipe or a socket.
pub(super) fn watch(waker: &Waker) -> Result<()> {
    if !is_pipe(io::stdout()) {
        return Ok(());
    }
    let waker = waker.clone();
    super::spawn("stdout_reader", move || {
        wait_until_gone();
        waker.send(Event::Stop(Exit::READER_GONE));
    })
}

fn wait_until_gone() {
    let stdout = io::stdout();
    // No event is asked for: errors and hang-ups are reported anyway.
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    while !readable::wait_for(&mut fds, None) {}
}
