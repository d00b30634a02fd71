//! Which file systems several machines may have in common.

use std::io;
use std::path::Path;

/// The name of such a file system that `path` is on, if it is.
#[cfg(target_os = "linux")]
pub(super) fn of(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(name(nix::sys::statfs::statfs(path)?.filesystem_type().0))
}

/// Nothing is known of that here.
#[cfg(not(target_os = "linux"))]
pub(super) fn of(_: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// By the number that `statfs` tells. Its type depends on the machine; its lower half is what counts.
#[cfg(target_os = "linux")]
fn name(number: impl TryInto<i64>) -> Option<&'static str> {
    let number = format!("{:016x} ", number.try_into().unwrap_or(0));
    SHARED.split(", ").find_map(|known| known.strip_prefix(&number[8..]))
}

/// File systems that several machines may have in common. Of what is behind FUSE nothing can be known: perhaps sshfs.
#[cfg(target_os = "linux")]
const SHARED: &str = "00006969 NFS, 0000517b SMB, fe534d42 SMB, ff534d42 CIFS, 5346414f AFS, 6b414653 AFS, \
                      00c36400 Ceph, 73757245 Coda, 01021997 9p, 65735546 FUSE, 7461636f OCFS2, 01161970 GFS2, \
                      0bd00bd0 Lustre, 47504653 GPFS, 786f4256 a folder shared by VirtualBox, \
                      bacbacbc a folder shared by VMware, aad7aaea PanFS, 19830326 BeeGFS, 0000564c NCP";

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(name(0x6969_i64), Some("NFS"));
        assert_eq!(name(0xff53_4d42_i64), Some("CIFS"));
        assert_eq!(name(0xff53_4d42_u32.cast_signed()), Some("CIFS"));
        // ext4 and tmpfs.
        assert_eq!((name(0xef53_i64), name(0x0102_1994_i64)), (None, None));
    }
}
