//! Who holds the lock of a state, and what to do about it.

use std::fs::{self, File};

/// Who keeps the lock, and what to do about it.
pub(super) fn culprit(file: &File) -> String {
    match holder(file) {
        Some(pid) if is_stopped(pid) => {
            format!("process {pid}, which is stopped: let it go on by 'kill -CONT {pid}', or end it")
        }
        Some(pid) => format!("process {pid}: end it, or use another state"),
        None => "a process that cannot be seen from here: end it, or use another state".to_owned(),
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
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After a name in parentheses, which may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

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
