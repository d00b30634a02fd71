//! Larger pipes, where the system has them.

use std::os::fd::AsFd;

/// A pipe holds 64 KiB unless told otherwise.
pub(crate) const USUAL: usize = 64 << 10;

/// As much as Linux lets an unprivileged process have.
#[cfg(target_os = "linux")]
const LARGE: i32 = 1 << 20;

/// Has a pipe hold more, so that reader and writer take turns less often. It may well stay as it is.
pub(crate) fn enlarge(fd: impl AsFd) {
    #[cfg(target_os = "linux")]
    let _ = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETPIPE_SZ(LARGE));
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}
