//! Pipes; larger ones, where the system supports them.

use std::os::fd::AsFd;

use nix::sys::stat::{SFlag, fstat};

/// The usual capacity of a pipe, in bytes.
pub(crate) const USUAL: usize = 64 << 10;

/// The largest pipe that Linux allows an unprivileged process, in bytes.
#[cfg(target_os = "linux")]
const LARGE: i32 = 1 << 20;

/// True of a pipe or a socket.
pub(crate) fn is_pipe(fd: impl AsFd) -> bool {
    let kind =
        fstat(fd).map_or(SFlag::empty(), |stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
    [SFlag::S_IFIFO, SFlag::S_IFSOCK].contains(&kind)
}

/// Tries to enlarge a pipe, so that reader and writer take turns less often.
pub(crate) fn enlarge(fd: impl AsFd) {
    #[cfg(target_os = "linux")]
    if nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_GETPIPE_SZ).is_ok_and(|size| size < LARGE) {
        let _ = nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_SETPIPE_SZ(LARGE));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_that_holds_more_stays_as_it_is() {
        use nix::fcntl::{FcntlArg, fcntl};

        let (reader, _writer) = std::io::pipe().unwrap();
        let more = 2 * super::LARGE;
        // Only root may have such a pipe.
        if fcntl(&reader, FcntlArg::F_SETPIPE_SZ(more)).is_ok() {
            super::enlarge(&reader);
            assert!(fcntl(&reader, FcntlArg::F_GETPIPE_SZ).unwrap() >= more);
        }
    }
}
