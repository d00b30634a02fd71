//! Processes: whose slots they are, since what a dead one has booked is free for others, and whether one is stopped.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

/// A process, told from any other that had or will have its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// When it started, in ticks since the machine did; 0 where that is not known.
    pub(super) started: u64,
    /// Its number means nothing in another pid namespace.
    pub(super) namespace: u64,
}

impl Owner {
    /// This process.
    pub(super) fn ours() -> Self {
        let pid = std::process::id();
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
        // What is mounted there may be that of another namespace.
        let is_ours =
            fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == pid.to_string().as_str());
        let started = stat(pid).filter(|_| is_ours).as_deref().and_then(started);
        Owner { pid, started: started.unwrap_or(0), namespace }
    }

    /// Whether it has ended, beyond doubt, as seen by `ours`.
    pub(super) fn is_dead(self, ours: Owner) -> bool {
        let is_known = ours.started > 0 && self.started > 0 && self.namespace == ours.namespace;
        is_known
            && match stat(self.pid) {
                Some(stat) => started(&stat).is_some_and(|started| started != self.started),
                // Not if it merely cannot be read.
                None => !fs::exists(format!("/proc/{}", self.pid)).unwrap_or(true),
            }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.pid, self.started, self.namespace)
    }
}

impl FromStr for Owner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split(' ').map_while(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().ok_or(());
        Ok(Owner { pid: next()?.try_into().map_err(drop)?, started: next()?, namespace: next()? })
    }
}

fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// The 22nd field.
fn started(stat: &str) -> Option<u64> {
    from_third(stat)?.nth(19)?.parse().ok()
}

/// Whether a process has been stopped, as by ^Z.
pub(super) fn is_stopped(pid: u32) -> bool {
    let state = |stat: String| from_third(&stat)?.next().map(|state| state.starts_with(['T', 't']));
    stat(pid).and_then(state).unwrap_or(false)
}

/// The fields from the third on; the second, a name in parentheses, may hold anything.
fn from_third(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_what_has_ended_is_dead() {
        let ours = Owner::ours();
        assert!(ours.started > 0 && !ours.is_dead(ours));
        assert_eq!(ours.to_string().parse(), Ok(ours));
        assert!(Owner { started: 1, ..ours }.is_dead(ours), "its number was given to another");
        assert!(!Owner { started: 1, namespace: 7, ..ours }.is_dead(ours), "it cannot be seen from here");
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a process");
        let started = started(&stat(child.id()).expect("it runs")).expect("a number");
        let owner = Owner { pid: child.id(), started, ..ours };
        assert!(!owner.is_dead(ours));
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert!(owner.is_dead(ours));
    }
}
