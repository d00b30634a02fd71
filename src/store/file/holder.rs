//! Who keeps a state locked.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::Duration;

use crate::exit::Exit;
use crate::store::StoreError;

/// The longest wait for a lock. It is held only for moments, unless its holder is stopped.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Says that the file at `path` has been locked for all of `patience`.
pub(super) fn kept(patience: Duration, path: &Path, file: Option<Metadata>) -> StoreError {
    let (patience, holder) = (patience.as_secs(), describe_holder(file));
    let why = format_args!("locked for more than {patience} s by {holder}");
    StoreError::new(Exit::StoreAway, path.display(), why)
}

/// The holder of the lock, and what to do about it.
pub(super) fn describe_holder(file: Option<Metadata>) -> String {
    match find(file) {
        Some(pid) if is_stopped(pid) => {
            format!("process {pid}, which is stopped: resume it with 'kill -CONT {pid}', or end it")
        }
        Some(pid) => format!("process {pid}: end it, or use another state"),
        None => "a process that cannot be seen from here: end it, or use another state".to_owned(),
    }
}

/// The process that keeps `file` locked, if the system reports it.
pub(super) fn find(file: Option<Metadata>) -> Option<u32> {
    let name = name(&file?);
    // While processes come and go, the list may have gaps.
    (0..10).find_map(|_| holder_in(&fs::read_to_string("/proc/locks").ok()?, &name))
}

/// The name of a file in the system's list of locks; none where there is no such list.
#[cfg(target_os = "linux")]
fn name(file: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;

    use nix::sys::stat::{major, minor};

    let (device, inode) = (file.dev(), file.ino());
    format!("{:02x}:{:02x}:{inode}", major(device), minor(device))
}

#[cfg(not(target_os = "linux"))]
fn name(_: &Metadata) -> String {
    String::new()
}

/// Lines look like `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`; those that wait have an arrow after the number.
///
/// SQLite has locks of its own. If another program has one of these, whoever has ours waits for it, too.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    let locks = locks.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let locks: Vec<_> = locks.filter(|fields| fields.get(5) == Some(&file)).collect();
    let holders = |kind| {
        let such = locks.iter().filter(move |fields| fields[1] == kind);
        such.filter_map(|fields| fields[4].parse::<u32>().ok().filter(|pid| *pid > 0))
    };
    let ours = holders("FLOCK").next();
    holders("POSIX").find(|pid| Some(*pid) != ours).or(ours)
}

/// True if a process has been stopped, as by ^Z.
pub(super) fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows a name in parentheses, which may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fe:00:5678 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 14 fe:00:56 1073741826 1073742335\n\
                     3: -> FLOCK  ADVISORY  WRITE 13 fe:00:56 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 fe:00:56 0 EOF\n";
        assert_eq!(holder_in(locks, "fe:00:56"), Some(14));
        assert_eq!(holder_in(locks, "fe:01:56"), None);
        // The holder of our lock waits for another program.
        let waits = format!("5: POSIX  ADVISORY  READ 15 fe:00:56 1073741826 1073742335\n{locks}");
        assert_eq!(holder_in(&waits, "fe:00:56"), Some(15));
        assert_eq!(holder_in(&waits[..60], "fe:00:56"), Some(15));
        // A holder in another pid namespace.
        assert_eq!(holder_in("1: FLOCK  ADVISORY  WRITE 0 fe:00:56 0 EOF\n", "fe:00:56"), None);
    }
}
