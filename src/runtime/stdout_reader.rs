//! Notices that the reader of stdout is gone, even while there is nothing to write.

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};

use super::waker::Waker;
use super::world::Event;
use crate::schedule::Stop;

/// The pause before another try after an error.
const AGAIN: Duration = Duration::from_millis(100);

/// Starts a thread that tells once the reader of stdout is gone, if stdout is a pipe or a socket.
pub(super) fn watch(waker: &Waker) -> io::Result<()> {
    let kind = fstat(io::stdout())
        .map_or(SFlag::empty(), |stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
    if kind != SFlag::S_IFIFO && kind != SFlag::S_IFSOCK {
        return Ok(());
    }
    let waker = waker.clone();
    super::spawn("stdout_reader", move || {
        wait_until_gone();
        waker.send(Event::Stop(Stop::ReaderGone));
    })
}

fn wait_until_gone() {
    let stdout = io::stdout();
    // No event is asked for: errors and hang-ups are reported all the same.
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(ready) if ready > 0 => return,
            Ok(_) | Err(Errno::EINTR) => {}
            // An error says nothing about the reader: the system is short of something.
            Err(_) => thread::sleep(AGAIN),
        }
    }
}
