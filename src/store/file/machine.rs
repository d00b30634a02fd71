//! The identity of the clock: instants since boot mean nothing after the next boot of the same machine.

use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The time namespace of all processes that were not put into another one.
const INITIAL: u64 = 0xefff_fffa;

/// Processes that agree in it read the same clock.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct ClockOrigin {
    /// Differs for each boot.
    pub(super) boot: String,
    /// The time namespace, which shifts the clock; 0 where there are none.
    pub(super) namespace: u64,
}

impl ClockOrigin {
    /// The origin of this process's clock.
    ///
    /// # Errors
    /// The system does not report it.
    pub(super) fn ours() -> Result<Self> {
        let boot = boot()?.trim().to_owned();
        ensure!(!boot.is_empty(), "the system has no boot identifier");
        let namespace = fs::metadata("/proc/self/ns/time").map_or(0, |namespace| namespace.ino());
        Ok(ClockOrigin { boot, namespace })
    }

    /// True if the clock counts from boot, so that nothing happened before 0.
    pub(super) fn counts_from_boot(&self) -> bool {
        matches!(self.namespace, 0 | INITIAL)
    }
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
        assert_eq!(ClockOrigin::ours().unwrap(), ClockOrigin::ours().unwrap());
    }
}
