//! Owners of slots: the slots of a process that has ended are free for others.
//!
//! An owner of slots holds a lock on one byte of the file, far beyond its end. The system releases it when the process
//! ends in any way. So a number that no one holds belongs to a process that has ended, in whatever pid namespace it
//! was.

use std::fs::File;
use std::io;

use crate::store::ledger::Owner;

pub(super) use self::system::has_ended;

/// Takes a number that no one else has, for as long as the file is open.
///
/// # Errors
/// The system refuses the lock.
pub(super) fn register(file: &File) -> io::Result<Owner> {
    loop {
        let owner = fastrand::u32(1..);
        match system::lock(file, owner) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result.map(|()| owner),
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;

    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc::{F_UNLCK, F_WRLCK, SEEK_SET, flock};

    use super::Owner;

    /// SQLite has no locks there.
    const FIRST_BYTE: i64 = 1 << 48;

    pub(super) fn lock(file: &File, owner: Owner) -> io::Result<()> {
        fcntl(file, FcntlArg::F_OFD_SETLK(&byte(owner))).map(drop).map_err(io::Error::from)
    }

    /// True if another owner of slots has ended, beyond doubt.
    pub(crate) fn has_ended(file: &File, owner: Owner) -> bool {
        let mut byte = byte(owner);
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut byte)).is_ok() && i32::from(byte.l_type) == F_UNLCK
    }

    #[expect(clippy::cast_possible_truncation, reason = "the constants are small")]
    fn byte(owner: Owner) -> flock {
        let l_start = FIRST_BYTE + i64::from(owner);
        flock { l_type: F_WRLCK as i16, l_whence: SEEK_SET as i16, l_start, l_len: 1, l_pid: 0 }
    }
}

/// Where locks belong to processes, not to open files, no owner is known to have ended.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;

    use super::Owner;

    pub(super) fn lock(_: &File, _: Owner) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn has_ended(_: &File, _: Owner) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn only_who_holds_a_number_has_not_ended() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let (ours, theirs) = (open(), open());
        let owner = register(&theirs).unwrap();
        assert!(!has_ended(&ours, owner) && has_ended(&ours, owner.wrapping_add(1)));
        drop(theirs);
        assert!(has_ended(&ours, owner));
    }
}
