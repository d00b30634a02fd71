//! The identity of the clock: instants since boot mean nothing after the next boot of the same machine.

use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result, ensure};

use crate::store::vault::Origin;

/// The origin of this process's clock.
///
/// # Errors
/// The system does not report it.
pub(super) fn origin() -> Result<Origin> {
    let boot = boot()?.trim().to_owned();
    ensure!(!boot.is_empty(), "the system has no boot identifier");
    let namespace = fs::metadata("/proc/self/ns/time").map_or(0, |namespace| namespace.ino());
    Ok(Origin { boot, namespace })
}

#[cfg(target_os = "linux")]
fn boot() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    fs::read_to_string(path).with_context(|| format!("cannot read {path}, which identifies the boot"))
}

#[cfg(not(target_os = "linux"))]
fn boot() -> Result<String> {
    use std::process::{Command, Stdio};

    let mut sysctl = Command::new("/usr/sbin/sysctl");
    let told = sysctl.args(["-n", "kern.bootsessionuuid"]).stdin(Stdio::null()).output();
    let told = told.context("cannot run sysctl, which identifies the boot")?;
    Ok(String::from_utf8_lossy(&told.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_stays_the_same() {
        assert_eq!(origin().unwrap(), origin().unwrap());
    }
}
