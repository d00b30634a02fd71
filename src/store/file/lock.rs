//! Waiting for the lock of a state file, but not forever.

use std::fs::{self, File, TryLockError};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

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

/// Locks files, one after the other.
pub(super) struct Locker {
    patience: Duration,
    helper: Option<Helper>,
}

/// A lock. It lasts until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Held(Arc<File>);

impl Drop for Held {
    fn drop(&mut self) {
        // As long as the file is open, this cannot fail.
        let _ = self.0.unlock();
    }
}

/// A thread that waits for locks. There is no waiting for one with a limit of time, and to look for it again and again
/// would favour those who have just come.
struct Helper {
    files: Sender<Arc<File>>,
    locks: Receiver<io::Result<Held>>,
}

impl Locker {
    /// That waits for `patience` at most.
    pub(super) fn new(patience: Duration) -> Self {
        Locker { patience, helper: None }
    }

    /// Locks `file` for this process alone. After [`NoLock::Held`] it is not to be locked again: it still is waited for.
    pub(super) fn lock(&mut self, file: &Arc<File>) -> Result<Held, NoLock> {
        match Self::lock_at_once(file) {
            Err(NoLock::Held) => self.wait(file),
            result => result,
        }
    }

    /// Locks `file` if nobody else does.
    pub(super) fn lock_at_once(file: &Arc<File>) -> Result<Held, NoLock> {
        match file.try_lock() {
            Ok(()) => Ok(Held(Arc::clone(file))),
            Err(TryLockError::WouldBlock) => Err(NoLock::Held),
            Err(TryLockError::Error(error)) => Err(NoLock::Failed(error)),
        }
    }

    fn wait(&mut self, file: &Arc<File>) -> Result<Held, NoLock> {
        let helper = match self.helper.take() {
            Some(helper) => helper,
            None => Helper::start().map_err(NoLock::Failed)?,
        };
        let gone = || NoLock::Failed(io::Error::other("the thread that waits for it has ended"));
        helper.files.send(Arc::clone(file)).map_err(|_| gone())?;
        let lock = match helper.locks.recv_timeout(self.patience) {
            Ok(lock) => lock.map_err(NoLock::Failed),
            // A helper that still waits is left to itself: what it gets, it gives back.
            Err(RecvTimeoutError::Timeout) => return Err(NoLock::Held),
            Err(RecvTimeoutError::Disconnected) => return Err(gone()),
        };
        self.helper = Some(helper);
        lock
    }
}

impl Helper {
    fn start() -> io::Result<Self> {
        let (files, files_to_lock) = bounded(1);
        // Unbuffered, so that a lock that nobody waits for any more is not left in the channel.
        let (locks_taken, locks) = bounded(0);
        let run = move || {
            for file in files_to_lock {
                if locks_taken.send(lock(file)).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("lock".to_owned()).stack_size(64 << 10).spawn(run)?;
        Ok(Helper { files, locks })
    }
}

fn lock(file: Arc<File>) -> io::Result<Held> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|()| Held(file)),
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

/// Whether a process has been stopped, as by ^Z.
pub(super) fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &std::path::Path) -> Arc<File> {
        Arc::new(File::open(path).unwrap())
    }

    #[test]
    fn a_lock_is_waited_for_and_one_that_comes_too_late_is_given_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let [given_up, ours, theirs] = [(); 3].map(|()| open(file.path()));
        theirs.lock().unwrap();
        let mut locker = Locker::new(Duration::from_millis(10));
        assert!(matches!(locker.lock(&given_up), Err(NoLock::Held)));
        let waiting = thread::spawn(move || {
            let mut locker = Locker::new(Duration::from_secs(60));
            drop(locker.lock(&ours).unwrap());
            drop(locker.lock(&ours).unwrap());
        });
        thread::sleep(Duration::from_millis(10));
        theirs.unlock().unwrap();
        waiting.join().unwrap();
        // Nobody holds it any more, or not for long.
        theirs.lock().unwrap();
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
