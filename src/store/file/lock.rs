//! The one lock in front of a state: `flock`, which the system takes back when a process ends.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{holder, refusal};
use crate::store::{BEFORE_TELLING, StoreError};

/// The lock is held only for moments, unless its holder is stopped.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The pauses between two tries: there is no waiting for a lock with a limit of time.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// A lock. It lasts until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lock(pub(super) Arc<File>);

impl Drop for Lock {
    fn drop(&mut self) {
        // As long as the file is open, this cannot fail.
        let _ = self.0.unlock();
    }
}

/// How to lock: [`File::try_lock`], or [`File::try_lock_shared`] if others may do the same at the same time.
pub(super) type TryLock = fn(&File) -> Result<(), TryLockError>;

impl Lock {
    /// Locks the file at `path` if nobody else does.
    pub(super) fn at_once(
        path: &Path,
        file: &Arc<File>,
        try_lock: TryLock,
    ) -> Result<Option<Self>, StoreError> {
        match try_lock(file) {
            Ok(()) => Ok(Some(Lock(Arc::clone(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(refusal::failed(path, "cannot lock it", error)),
        }
    }

    /// Locks the file at `path` within `patience`. `tell` is told if it takes long.
    pub(super) fn within(
        patience: Duration,
        path: &Path,
        file: &Arc<File>,
        try_lock: TryLock,
        tell: impl FnOnce(String),
    ) -> Result<Self, StoreError> {
        let (start, mut pause, mut tell) = (Instant::now(), FIRST_PAUSE, Some(tell));
        loop {
            if let Some(lock) = Lock::at_once(path, file, try_lock)? {
                return Ok(lock);
            }
            if start.elapsed() >= patience {
                return Err(refusal::locked(path, file, patience));
            }
            if start.elapsed() >= Duration::from_secs(BEFORE_TELLING)
                && let Some(tell) = tell.take()
            {
                tell(format!("{}: locked by {}; waiting for it", path.display(), holder::culprit(file)));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_lock_is_waited_for_for_a_while() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let open = || Arc::new(File::open(&path).unwrap());
        let within = |patience| Lock::within(patience, &path, &open(), File::try_lock, drop);
        let lock = Lock::at_once(&path, &open(), File::try_lock).unwrap().unwrap();
        assert!(Lock::at_once(&path, &open(), File::try_lock).unwrap().is_none());
        assert_eq!(within(Duration::from_millis(10)).unwrap_err().exit, Exit::StoreAway);
        let unlocks = thread::spawn(move || drop(lock));
        within(Duration::from_secs(60)).unwrap();
        unlocks.join().unwrap();
    }
}
