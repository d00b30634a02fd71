//! Looks for children that have ended, however they ended, and reaps them.

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

/// True unless a child is known to run: some sandboxes forbid to look.
pub(super) fn may_have_ended(child: Pid) -> bool {
    has_ended(Some(child), libc::WNOHANG).unwrap_or(true)
}

/// True if a child has ended, or this one. Does not reap it. Waits for its end unless `options` are `WNOHANG`.
///
/// Uses libc, as nix has `waitid` only for some of the systems that do.
///
/// # Errors
/// Those of the call.
pub(crate) fn has_ended(child: Option<Pid>, options: c_int) -> nix::Result<bool> {
    let (of, id) = child.map_or((libc::P_ALL, 0), |child| (libc::P_PID, child.as_raw().cast_unsigned()));
    // SAFETY: all zero is a valid siginfo_t, and it outlives the call.
    #[expect(unsafe_code)]
    let (result, info) = unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let options = libc::WEXITED | libc::WNOWAIT | options;
        (libc::waitid(of, id, &raw mut info, options), info)
    };
    Errno::result(result).map(|_| info.si_signo == libc::SIGCHLD)
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
