//! The one lock in front of a state: `flock`, which the kernel queues, and takes back when a process ends.

use std::fs::{self, File, TryLockError};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The lock is held only for moments, unless its holder is stopped.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Why the lock was not taken.
#[derive(Debug)]
pub(super) enum NoLock {
    /// Another process holds it.
    Held,
    /// The system call failed.
    Failed(io::Error),
}

/// A lock. It lasts until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lock(Arc<File>);

impl Drop for Lock {
    fn drop(&mut self) {
        // As long as the file is open, this cannot fail.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Locks `file` if nobody else does.
    pub(super) fn at_once(file: &Arc<File>) -> Result<Self, NoLock> {
        match file.try_lock() {
            Ok(()) => Ok(Lock(Arc::clone(file))),
            Err(TryLockError::WouldBlock) => Err(NoLock::Held),
            Err(TryLockError::Error(error)) => Err(NoLock::Failed(error)),
        }
    }

    /// Locks `file` when its turn comes, however long that takes.
    pub(super) fn in_turn(file: &Arc<File>) -> Result<Self, NoLock> {
        loop {
            match file.lock() {
                Ok(()) => return Ok(Lock(Arc::clone(file))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(NoLock::Failed(error)),
            }
        }
    }

    /// Locks `file` within `patience`, behind all who wait for their turn.
    pub(super) fn within(patience: Duration, file: &Arc<File>) -> Result<Self, NoLock> {
        let start = Instant::now();
        loop {
            match Self::at_once(file) {
                Err(NoLock::Held) if start.elapsed() < patience => thread::sleep(Duration::from_millis(1)),
                result => return result,
            }
        }
    }
}

/// The process that holds the lock of `file`, if the system tells.
pub(super) fn holder(file: &File) -> Option<u32> {
    let name = name(file)?;
    // While others come and go, the list is told with gaps.
    (0..10).find_map(|_| holder_in(&fs::read_to_string("/proc/locks").ok()?, &name))
}

/// What the system calls a file in its list of locks.
#[cfg(target_os = "linux")]
fn name(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    use nix::sys::stat::{major, minor};

    let metadata = file.metadata().ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    Some(format!("{:02x}:{:02x}:{inode}", major(device), minor(device)))
}

#[cfg(not(target_os = "linux"))]
fn name(_: &File) -> Option<String> {
    None
}

/// As in `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`; those who wait have an arrow after the number.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    let locks = locks.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    locks
        .filter(|fields| fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&file))
        .find_map(|fields| fields[4].parse().ok().filter(|pid| *pid > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_waited_for_for_a_while() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || Arc::new(File::open(file.path()).unwrap());
        let lock = Lock::at_once(&open()).unwrap();
        assert!(matches!(Lock::within(Duration::from_millis(10), &open()), Err(NoLock::Held)));
        let others = [open(), open()].map(|other| thread::spawn(move || Lock::in_turn(&other).map(drop)));
        drop(lock);
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        Lock::within(Duration::from_secs(60), &open()).unwrap();
    }

    #[test]
    fn the_holder_is_found() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fe:00:5678 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 12 fe:00:56 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 13 fe:00:56 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 fe:00:56 0 EOF\n";
        assert_eq!(holder_in(locks, "fe:00:56"), Some(14));
        assert_eq!(holder_in(locks, "fe:01:56"), None);
        // Of another pid namespace.
        assert_eq!(holder_in("1: FLOCK  ADVISORY  WRITE 0 fe:00:56 0 EOF\n", "fe:00:56"), None);
    }
}
