//! Reaps children that have ended, however they ended.

use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::libc::{self, c_int};
use nix::unistd::Pid;

use crate::exit::End;

/// Reaps the next child that has ended, if there is one.
///
/// It may not be ours: this process may have had children before it became throttle. Uses libc, as nix's `waitpid`
/// knows no real-time signals: it would reap a child that one has killed, and then fail.
pub(super) fn next_ended() -> Option<(Pid, End)> {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        #[expect(unsafe_code)]
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        match Errno::result(pid) {
            Ok(0) => return None,
            Ok(pid) => {
                if let Some(end) = end_of(status) {
                    return Some((Pid::from_raw(pid), end));
                }
            }
            Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// False if a child is known to run: it has not ended.
pub(super) fn may_have_ended(child: Pid) -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all zero is a valid siginfo_t, and it outlives the call.
    #[expect(unsafe_code)]
    let (result, info) = unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        (libc::waitid(libc::P_PID, child.as_raw().cast_unsigned(), &raw mut info, flags), info)
    };
    // Some sandboxes forbid the call.
    result != 0 || info.si_signo == libc::SIGCHLD
}

/// The end of a child; `None` if it was only stopped.
fn end_of(status: c_int) -> Option<End> {
    let status = ExitStatus::from_raw(status);
    status.code().map(End::Exited).or(status.signal().map(End::Killed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_status_that_ends_a_child_is_understood() {
        for code in 0..=255 {
            assert_eq!(end_of(code << 8), Some(End::Exited(code)));
        }
        for signal in 1..=64 {
            let core_dumped = 0x80;
            assert_eq!(end_of(signal), Some(End::Killed(signal)));
            assert_eq!(end_of(signal | core_dumped), Some(End::Killed(signal)));
        }
        let stopped = 19 << 8 | 0x7f;
        assert_eq!(end_of(stopped), None);
    }
}
