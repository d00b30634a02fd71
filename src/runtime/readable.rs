//! Waiting for something to read.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

/// The pause before another try after an error.
pub(super) const AGAIN: Duration = Duration::from_millis(10);

/// Waits until `input` can be read, if there is one, or a signal comes, or for as long as `timeout`. Returns whether
/// it was the first.
pub(super) fn wait(input: Option<BorrowedFd>, timeout: Option<Duration>) -> bool {
    let mut input = input.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    wait_for(input.as_mut_slice(), timeout)
}

/// As [`wait`], for whatever is asked of these.
pub(super) fn wait_for(fds: &mut [PollFd], timeout: Option<Duration>) -> bool {
    match poll(fds, timeout) {
        Ok(ready) => ready > 0,
        Err(Errno::EINTR) => false,
        Err(_) => {
            // The system is short of something. The caller tries again, but must not do so all the time.
            thread::sleep(timeout.unwrap_or(AGAIN).min(AGAIN));
            false
        }
    }
}

#[cfg(target_os = "linux")]
fn poll(fds: &mut [PollFd], timeout: Option<Duration>) -> nix::Result<i32> {
    nix::poll::ppoll(fds, timeout.map(Into::into), None)
}

/// To the millisecond, and rather too long.
#[cfg(not(target_os = "linux"))]
fn poll(fds: &mut [PollFd], timeout: Option<Duration>) -> nix::Result<i32> {
    use nix::poll::PollTimeout;
    let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
        PollTimeout::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
    });
    nix::poll::poll(fds, timeout)
}
