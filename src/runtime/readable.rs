//! Waiting for something to read.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use smallvec::SmallVec;

/// The pause before another try after an error.
pub(super) const AGAIN: Duration = Duration::from_millis(10);

/// Waits until `input`, if there is one, or one of `others` can be read, or a signal comes, or for as long as `timeout`.
/// Returns whether the input can be read, and whether any of the others.
pub(super) fn wait(
    input: Option<BorrowedFd>,
    others: &[BorrowedFd],
    timeout: Option<Duration>,
) -> (bool, bool) {
    let all = input.into_iter().chain(others.iter().copied());
    let mut fds: SmallVec<[_; 2]> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    wait_for(&mut fds, timeout);
    let mut are_ready = fds.iter().map(|fd| fd.any() == Some(true));
    (input.is_some() && are_ready.next() == Some(true), are_ready.any(|is_ready| is_ready))
}

/// As [`wait`], for whatever is asked of these. Returns whether any of it has come.
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
