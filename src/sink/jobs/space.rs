//! Checks that there is space for what commands print.
//!
//! A command that writes to a full file system gets an error, but may ignore it; then its output is too short, and
//! nothing else shows it. So whenever files are about to be given up, and their space with them, the file system must
//! not be full: if it is, whatever was printed meanwhile may be incomplete, whichever command printed it.

use std::cell::Cell;
use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::sys::statvfs::{Statvfs, fstatvfs};
use nix::unistd::geteuid;

/// With less free space than this, a file system is full: some keep a reserve for themselves.
const LEAST: u64 = 64 << 10;

#[derive(Default)]
pub(super) struct Space {
    was_full: Cell<bool>,
}

impl Space {
    /// Checks that there is space where `file` is.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn check_now(file: &File) -> io::Result<()> {
        let is_full = fstatvfs(file).is_ok_and(|system| is_full(&system));
        if is_full { Err(Errno::ENOSPC.into()) } else { Ok(()) }
    }

    /// Checks that there has been space all the time. To be called before a file is given up.
    ///
    /// # Errors
    /// There was none.
    pub(super) fn check(&self, file: &File) -> io::Result<()> {
        self.was_full.set(self.was_full.get() || Self::check_now(file).is_err());
        if self.was_full.get() { Err(Errno::ENOSPC.into()) } else { Ok(()) }
    }
}

/// A file system that does not say how large it is has no known end.
#[expect(clippy::useless_conversion, reason = "some systems count in 32 bits")]
fn is_full(system: &Statvfs) -> bool {
    let free = if geteuid().is_root() { system.blocks_free() } else { system.blocks_available() };
    system.blocks() > 0 && u64::from(free).saturating_mul(u64::from(system.fragment_size())) < LEAST
}
