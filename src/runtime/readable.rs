//! Waiting for something to read.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use smallvec::SmallVec;

/// The pause before a retry after an error.
pub(super) const AGAIN: Duration = Duration::from_millis(10);

/// The longest timeout for the system, as some count the seconds in 32 bits. Whoever waits for longer waits again.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Waits until `input`, if there is one, or one of `others` is readable, a signal comes, or `timeout` has passed.
/// Returns whether the input is readable, and whether any of the others is.
pub(super) fn wait(
    input: Option<BorrowedFd>,
    others: &[BorrowedFd],
    timeout: Option<Duration>,
) -> (bool, bool) {
    let all = input.into_iter().chain(others.iter().copied());
    let mut fds: SmallVec<[_; 4]> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    wait_for(&mut fds, timeout);
    let mut are_ready = fds.iter().map(|fd| fd.any() == Some(true));
    (input.is_some() && are_ready.next() == Some(true), are_ready.any(|is_ready| is_ready))
}

/// As [`wait`], for the events that these ask for. Returns whether any has come.
pub(super) fn wait_for(fds: &mut [PollFd], timeout: Option<Duration>) -> bool {
    match poll(fds, timeout.map(|timeout| timeout.min(LONGEST))) {
        Ok(ready) => ready > 0,
        Err(Errno::EINTR) => false,
        Err(_) => {
            // The system is short of a resource. The caller retries, but must not spin.
            thread::sleep(timeout.unwrap_or(AGAIN).min(AGAIN));
            false
        }
    }
}

#[cfg(target_os = "linux")]
fn poll(fds: &mut [PollFd], timeout: Option<Duration>) -> nix::Result<i32> {
    match nix::poll::ppoll(fds, timeout.map(Into::into), None) {
        // Some sandboxes forbid what they do not know.
        Err(Errno::ENOSYS | Errno::EPERM) => poll_rounded(fds, timeout),
        ready => ready,
    }
}

#[cfg(not(target_os = "linux"))]
use self::poll_rounded as poll;

/// Rounds the timeout up to the millisecond.
fn poll_rounded(fds: &mut [PollFd], timeout: Option<Duration>) -> nix::Result<i32> {
    let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
        PollTimeout::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
    });
    nix::poll::poll(fds, timeout)
}
