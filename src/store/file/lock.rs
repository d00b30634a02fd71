//! The one lock in front of a state: `flock`, which the system releases when a process ends.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::holder::{describe_holder, kept};
use super::refusal::About;
use crate::store::{BEFORE_WARNING, StoreError};

/// The pauses between two tries, as a lock cannot be waited for with a timeout.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// A longer pause means that the process was stopped. No one may have held the lock meanwhile.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// A lock, held until it is dropped or the process ends in any way.
#[derive(Debug)]
pub(super) struct Lock(pub(super) Arc<File>);

impl Drop for Lock {
    fn drop(&mut self) {
        // While the file is open, only a signal makes this fail.
        while self.0.unlock().is_err_and(|error| error.kind() == ErrorKind::Interrupted) {}
    }
}

impl Lock {
    /// Locks the file at `path`, if no one else has it locked.
    pub(super) fn at_once(path: &Path, file: &Arc<File>) -> Result<Option<Self>, StoreError> {
        loop {
            return match file.try_lock() {
                Ok(()) => Ok(Some(Lock(Arc::clone(file)))),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => continue,
                Err(TryLockError::Error(error)) => Err(error).context("cannot lock it").about(path),
            };
        }
    }

    /// Locks the file at `path` within `patience`. Calls `warn` with the reason if that takes long.
    pub(super) fn within(
        patience: Duration,
        path: &Path,
        file: &Arc<File>,
        warn: impl FnOnce(String),
    ) -> Result<Self, StoreError> {
        let (mut waited, mut pause, mut warn) = (Duration::ZERO, FIRST_PAUSE, Some(warn));
        loop {
            if let Some(lock) = Lock::at_once(path, file)? {
                return Ok(lock);
            }
            if waited >= patience {
                return Err(kept(patience, path, file.metadata().ok()));
            }
            if waited >= Duration::from_secs(BEFORE_WARNING)
                && let Some(warn) = warn.take()
            {
                let holder = describe_holder(file.metadata().ok());
                warn(format!("{}: locked by {holder}; waiting for it", path.display()));
            }
            let start = Instant::now();
            thread::sleep(pause);
            waited += start.elapsed().min(LONGEST_WAIT);
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
        let within = |patience| Lock::within(patience, &path, &open(), drop);
        let lock = Lock::at_once(&path, &open()).unwrap().unwrap();
        assert!(Lock::at_once(&path, &open()).unwrap().is_none());
        assert_eq!(within(Duration::from_millis(10)).unwrap_err().exit, Exit::StoreAway);
        let unlocks = thread::spawn(move || drop(lock));
        within(Duration::from_secs(60)).unwrap();
        unlocks.join().unwrap();
    }
}
