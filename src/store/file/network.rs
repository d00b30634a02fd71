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
    let bytes = number.try_into().unwrap_or(0).to_le_bytes();
    let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    SHARED.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(target_os = "linux")]
/// File systems that several machines may have in common.
const SHARED: [(u32, &str); 19] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x0102_1997, "9p"),
    // Of what is behind it nothing can be known: perhaps sshfs.
    (0x6573_5546, "FUSE"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x786f_4256, "a folder shared by VirtualBox"),
    (0xbacb_acbc, "a folder shared by VMware"),
    (0xaad7_aaea, "PanFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0000_564c, "NCP"),
];

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
