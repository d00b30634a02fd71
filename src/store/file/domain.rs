//! Whose clock it is: instants since the machine was started mean nothing to the same machine, started again.

use anyhow::{Context, Result};

/// Those who agree in it read the same clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Domain {
    /// Another one each time that the machine is started.
    pub(super) boot: [u8; 16],
    /// The time namespace, which shifts the clock; 0 where there is no such thing.
    pub(super) namespace: u64,
}

impl Domain {
    /// That of this process.
    ///
    /// # Errors
    /// The system does not tell.
    pub(super) fn ours() -> Result<Self> {
        let text = system::boot()?;
        let boot = uuid(&text).with_context(|| format!("'{}' is no boot id", text.escape_debug()))?;
        Ok(Domain { boot, namespace: system::namespace() })
    }

    /// Whether the clock shows how long the machine has been running, so that nothing happened before 0.
    pub(super) fn counts_from_boot(self) -> bool {
        matches!(self.namespace, 0 | system::INITIAL)
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|&c| c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    number.map(u128::to_be_bytes)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use anyhow::{Context, Result};

    /// The namespace that all processes are in unless they were put into another one.
    pub(super) const INITIAL: u64 = 0xefff_fffa;

    pub(super) fn boot() -> Result<String> {
        let path = "/proc/sys/kernel/random/boot_id";
        fs::read_to_string(path)
            .with_context(|| format!("cannot read {path}, which tells one boot from the next"))
    }

    pub(super) fn namespace() -> u64 {
        fs::metadata("/proc/self/ns/time").map_or(0, |namespace| namespace.ino())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::process::{Command, Stdio};

    use anyhow::{Context, Result};

    pub(super) const INITIAL: u64 = 0;

    pub(super) fn boot() -> Result<String> {
        let mut sysctl = Command::new("/usr/sbin/sysctl");
        let told = sysctl.args(["-n", "kern.bootsessionuuid"]).stdin(Stdio::null()).output();
        let told = told.context("cannot run sysctl, which tells one boot from the next")?;
        Ok(String::from_utf8_lossy(&told.stdout).into_owned())
    }

    pub(super) fn namespace() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_stays_the_same() {
        let ours = Domain::ours().unwrap();
        assert_eq!(Domain::ours().unwrap(), ours);
        assert_ne!(ours.boot, [0; 16]);
    }

    #[test]
    fn a_boot_id_is_a_uuid() {
        assert_eq!(uuid("00000000-0000-0000-0000-00000000002a\n"), Some(42u128.to_be_bytes()));
        for other in ["", "2a", "x0000000-0000-0000-0000-00000000002a"] {
            assert_eq!(uuid(other), None, "{other}");
        }
    }
}
