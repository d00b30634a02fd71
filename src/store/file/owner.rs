//! Owners of slots: the slots of a process that has ended are free for others.
//!
//! An owner of slots holds a lock on one byte of the file, beyond its end. The system releases it when the process
//! ends in any way. So a number that no one holds belongs to a process that has ended, in whatever pid namespace it
//! was.

use std::fs::File;
use std::io;

use crate::store::ledger::Owner;

pub(super) use self::system::has_ended;

/// The highest number of an owner.
const LAST: Owner = (1 << 30) - (1 << 16) - 1;

/// Takes a number that no one else has, for as long as the file is open.
///
/// # Errors
/// The system refuses the lock.
pub(super) fn register(file: &File) -> io::Result<Owner> {
    loop {
        let owner = fastrand::u32(1..=LAST);
        match system::lock(file, owner) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
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

    /// Above the bytes that SQLite locks. All are below 2 GiB, as the locks of 32-bit processes end there.
    const FIRST_BYTE: u32 = (1 << 30) + (1 << 16);

    pub(super) fn lock(file: &File, owner: Owner) -> io::Result<()> {
        fcntl(file, FcntlArg::F_OFD_SETLK(&byte(owner)?)).map(drop).map_err(io::Error::from)
    }

    /// True if another owner of slots has ended, beyond doubt.
    pub(crate) fn has_ended(file: &File, owner: Owner) -> bool {
        let Ok(mut byte) = byte(owner) else { return false };
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut byte)).is_ok() && i32::from(byte.l_type) == F_UNLCK
    }

    /// # Errors
    /// No owner has this number.
    #[expect(clippy::cast_possible_truncation, reason = "the constants are small")]
    fn byte(owner: Owner) -> io::Result<flock> {
        let byte = FIRST_BYTE.checked_add(owner).and_then(|byte| i32::try_from(byte).ok());
        let l_start = byte.ok_or(io::ErrorKind::InvalidInput)?.into();
        Ok(flock { l_type: F_WRLCK as i16, l_whence: SEEK_SET as i16, l_start, l_len: 1, l_pid: 0 })
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
        assert!(!has_ended(&ours, owner) && has_ended(&ours, owner % LAST + 1));
        drop(theirs);
        assert!(has_ended(&ours, owner));
    }

    /// The numbers of a state that was tampered with are not those of processes that have ended.
    #[test]
    fn every_number_is_that_of_a_byte_that_all_can_lock() {
        let file = tempfile::tempfile().unwrap();
        for (owner, is_known) in [(1, true), (LAST, true), (LAST + 1, false), (u32::MAX, false)] {
            assert_eq!(system::lock(&file, owner).is_ok(), is_known, "{owner}");
            assert_eq!(has_ended(&file, owner), is_known, "{owner}");
        }
    }
}
