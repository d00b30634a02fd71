//! Checks that a state file can be trusted: it is ours alone, and on this machine.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::refusal::{About, present, refused};
use crate::store::StoreError;

/// Opens the file at `path`, if there is one.
///
/// # Errors
/// It is not a file of ours alone, or is not on this machine.
pub(super) fn open(path: &Path) -> Result<Option<File>, StoreError> {
    // Checked before it is opened, as opening a device may have side effects.
    check(path)?;
    // It may have become a pipe since, and opening that must not block.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let opened = present(OpenOptions::new().read(true).write(true).custom_flags(flags).open(path));
    let Some(file) = opened.context("cannot open it").about(path)? else { return Ok(None) };
    check_found(path, file.metadata())?;
    is_local(path).map(|()| Some(file))
}

/// Checks the file at `path`, if there is one, without opening it.
///
/// # Errors
/// It is not a file of ours alone.
pub(super) fn check(path: &Path) -> Result<(), StoreError> {
    check_found(path, fs::symlink_metadata(path))
}

fn check_found(path: &Path, found: io::Result<Metadata>) -> Result<(), StoreError> {
    let found = present(found).context("cannot access it").about(path)?;
    let why = found.and_then(|found| unfit(&found, shared_group(directory(path))));
    why.map_or(Ok(()), |why| Err(refused(path, why)))
}

pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Checks that a state file may be in `directory`.
///
/// # Errors
/// It may not, as others might replace the file, or it is not on this machine.
pub(super) fn check_directory(directory: &Path) -> Result<(), StoreError> {
    let metadata = fs::metadata(directory).context("cannot access this directory").about(directory)?;
    if ![geteuid().as_raw(), 0].contains(&metadata.uid()) && group_of(&metadata).is_none() {
        return Err(refused(directory, "this directory belongs to another user: use one of your own"));
    }
    // In a sticky directory, no one replaces the files of others.
    if metadata.mode() & 0o1002 == 0o0002 {
        return Err(refused(directory, "all users may write to this directory: use another, or chmod o-w"));
    }
    is_local(directory)
}

/// The group whose members share the states in a directory: it is setgid, and they may write to it, but all others may
/// not.
pub(super) fn shared_group(directory: &Path) -> Option<u32> {
    fs::metadata(directory).ok().as_ref().and_then(group_of)
}

fn group_of(metadata: &Metadata) -> Option<u32> {
    (metadata.mode() & 0o2022 == 0o2020).then(|| metadata.gid())
}

/// Why a file cannot be trusted, and what to do about it. In a directory that a group shares, its members may use the
/// file, too.
fn unfit(metadata: &Metadata, group: Option<u32>) -> Option<&'static str> {
    let kind = metadata.file_type();
    let is_shared = group == Some(metadata.gid());
    match metadata {
        _ if kind.is_symlink() => Some("it is a symbolic link: name its target instead"),
        _ if kind.is_dir() => Some("it is a directory: name a file in it"),
        _ if kind.is_fifo() => Some("it is a named pipe: name a file"),
        _ if !kind.is_file() => Some("it is not a regular file: name one"),
        _ if metadata.uid() != geteuid().as_raw() && !is_shared => {
            Some("it belongs to another user: use a file of your own, or a Redis server to share limits")
        }
        _ if metadata.nlink() > 1 => Some("it has a second name (a hard link): remove the other one"),
        _ if is_shared && metadata.mode() & 0o007 != 0 => Some("all users have access to it: chmod o= it"),
        _ if !is_shared && metadata.mode() & 0o077 != 0 => {
            Some("other users have access to it: chmod go= it")
        }
        _ => None,
    }
}

fn is_local(path: &Path) -> Result<(), StoreError> {
    match network(path).context("cannot determine its file system").about(path)? {
        Some(name) => {
            let why = format!(
                "it is on {name}, which machines with different locks and clocks may share: use a local \
                 directory or, to share limits over a network, a Redis server"
            );
            Err(refused(path, &why))
        }
        None => Ok(()),
    }
}

/// The file system that `path` is on, if several machines may share it.
#[cfg(target_os = "linux")]
fn network(path: &Path) -> io::Result<Option<&'static str>> {
    // It may have been removed meanwhile.
    let system = present(nix::sys::statfs::statfs(path).map_err(io::Error::from))?;
    Ok(system.and_then(|system| network_of(system.filesystem_type().0)))
}

/// No list of file systems is known here.
#[cfg(not(target_os = "linux"))]
fn network(_: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Finds a file system by the number that `statfs` reports. The type of the number depends on the machine; only its
/// lower half counts.
#[cfg(target_os = "linux")]
fn network_of(number: impl TryInto<i64>) -> Option<&'static str> {
    let number = format!("{:016x} ", number.try_into().unwrap_or(0));
    SHARED.split(", ").find_map(|known| known.strip_prefix(&number[8..]))
}

/// File systems that several machines may share. What is behind FUSE is unknown: perhaps sshfs.
#[cfg(target_os = "linux")]
const SHARED: &str = "00006969 NFS, 0000517b SMB, fe534d42 SMB, ff534d42 CIFS, 5346414f AFS, 6b414653 AFS, \
                      00c36400 Ceph, 73757245 Coda, 01021997 9p, 65735546 FUSE, 7461636f OCFS2, 01161970 GFS2, \
                      0bd00bd0 Lustre, 47504653 GPFS, 786f4256 a folder shared by VirtualBox, \
                      bacbacbc a folder shared by VMware, aad7aaea PanFS, 19830326 BeeGFS, 0000564c NCP";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;
    use crate::exit::Exit;

    fn why(path: &Path) -> String {
        let error = open(path).expect_err("refused");
        assert_eq!(error.exit, Exit::BadStore);
        format!("{:#}", error.error)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_a_file_of_ours_alone_will_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert!(open(&path("none")).unwrap().is_none());
        fs::write(path("file"), "").unwrap();
        set_mode(&path("file"), 0o600);
        assert!(open(&path("file")).unwrap().is_some());

        symlink(path("file"), path("link")).unwrap();
        assert!(why(&path("link")).contains("symbolic link"));
        assert!(why(directory.path()).contains("is a directory"));
        mkfifo(&path("fifo"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        assert!(why(&path("fifo")).contains("named pipe"));
        assert!(why(Path::new("/dev/null")).contains("not a regular file"));
        for mode in [0o640, 0o602, 0o610] {
            set_mode(&path("file"), mode);
            assert!(why(&path("file")).contains("other users have access to it"));
        }
        set_mode(&path("file"), 0o600);
        fs::hard_link(path("file"), path("second")).unwrap();
        assert!(why(&path("file")).contains("second name"));
        fs::remove_file(path("second")).unwrap();
        assert!(open(&path("file")).unwrap().is_some());
        if geteuid().is_root() {
            chown(path("file"), Some(12345), None).unwrap();
            assert!(why(&path("file")).contains("belongs to another user"));
        }
    }

    #[test]
    fn the_members_of_a_group_share_what_is_in_a_setgid_directory_that_they_may_write_to() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o660);
        assert!(why(&file).contains("other users have access to it"));
        set_mode(directory.path(), 0o2770);
        assert!(open(&file).unwrap().is_some());
        assert!(check_directory(directory.path()).is_ok());
        set_mode(&file, 0o664);
        assert!(why(&file).contains("all users have access to it"));
        set_mode(&file, 0o660);
        if geteuid().is_root() {
            chown(&file, Some(12345), None).unwrap();
            assert!(open(&file).unwrap().is_some());
            chown(&file, Some(12345), Some(12345)).unwrap();
            assert!(why(&file).contains("belongs to another user"));
            chown(directory.path(), Some(12345), None).unwrap();
            set_mode(directory.path(), 0o2770);
            assert!(check_directory(directory.path()).is_ok());
            set_mode(directory.path(), 0o0770);
            assert!(check_directory(directory.path()).is_err());
        }
    }

    #[test]
    fn a_directory_that_is_open_to_all_will_not_do_unless_it_is_sticky() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, is_good) in [(0o700, true), (0o755, true), (0o775, true), (0o777, false), (0o1777, true)] {
            set_mode(directory.path(), mode);
            assert_eq!(check_directory(directory.path()).is_ok(), is_good, "{mode:o}");
        }
        if geteuid().is_root() {
            set_mode(directory.path(), 0o700);
            chown(directory.path(), Some(12345), None).unwrap();
            assert!(check_directory(directory.path()).is_err());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network_of(0x6969_i64), Some("NFS"));
        assert_eq!(network_of(0xff53_4d42_i64), Some("CIFS"));
        assert_eq!(network_of(0xff53_4d42_u32.cast_signed()), Some("CIFS"));
        // ext4 and tmpfs.
        assert_eq!((network_of(0xef53_i64), network_of(0x0102_1994_i64)), (None, None));
    }
}
