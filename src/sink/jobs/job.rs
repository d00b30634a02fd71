//! A running command, and how it is started and signalled.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::capture::Capture;
use super::spawn::{Spawn, Spawner};
use crate::exit::End;
use crate::time::{SECOND, Time};

/// The time that a command has to end cleanly after its timeout.
const GRACE: u64 = 2 * SECOND;

pub(super) struct Job {
    pub(super) pid: Pid,
    /// The number of its first item.
    pub(super) first: u64,
    pub(super) slot: usize,
    /// The file to which it writes what a server has said.
    pub(super) headers: Option<PathBuf>,
    pub(super) capture: Option<Capture>,
    pub(super) deadline: Deadline,
}

/// The deadline of a process.
#[derive(Default)]
pub(super) struct Deadline {
    /// The instant at which to signal it next for taking too long.
    pub(super) at: Option<Time>,
    /// True once it has taken too long.
    pub(super) has_passed: bool,
}

impl Deadline {
    /// Allows this number of nanoseconds from `now` on, or any, unless the process has taken too long before.
    pub(super) fn set(&mut self, now: Time, timeout: Option<u64>) {
        if !self.has_passed {
            self.at = timeout.and_then(|timeout| now.checked_add(timeout.into()));
        }
    }

    /// The signal to send at `now`, if the process has taken too long. Sets the next deadline.
    pub(super) fn signal(&mut self, now: Time) -> Option<Signal> {
        self.at.filter(|at| *at <= now)?;
        let is_first = !std::mem::replace(&mut self.has_passed, true);
        self.at = now.checked_add(GRACE.into()).filter(|_| is_first);
        Some(if is_first { Signal::SIGTERM } else { Signal::SIGKILL })
    }
}

/// The numbers of places for running processes.
#[derive(Default)]
pub(super) struct Slots {
    /// The slots that were taken and are free again. All that were never taken follow.
    free: BTreeSet<usize>,
    /// The number of slots that were ever taken.
    taken: usize,
}

impl Slots {
    /// The first free slot.
    pub(super) fn first(&self) -> usize {
        self.free.first().copied().unwrap_or(self.taken)
    }

    /// Takes a slot that is free.
    pub(super) fn take(&mut self, slot: usize) {
        self.free.remove(&slot);
        self.taken = self.taken.max(slot + 1);
    }

    pub(super) fn free(&mut self, slot: usize) {
        self.free.insert(slot);
    }
}

/// Starts commands, and sends them signals.
///
/// Without a controlling terminal, or with a timeout, each command leads a process group of its own, so that a signal
/// also reaches what it started. Otherwise it stays in our group: the terminal's Ctrl-C reaches it there, and it can
/// still ask for passwords on /dev/tty. In a group of its own, it gets our Ctrl-C passed on.
pub(super) struct Parent {
    own_group: bool,
    spawner: Spawner,
}

impl Parent {
    /// # Errors
    /// The system has no memory.
    pub(super) fn new(is_timed: bool) -> io::Result<Self> {
        let has_terminal = File::open("/dev/tty").is_ok();
        let own_group = is_timed || !has_terminal;
        Ok(Parent { own_group, spawner: Spawner::new(own_group)? })
    }

    pub(super) fn start(&self, spawn: &Spawn) -> io::Result<Pid> {
        self.spawner.start(spawn)
    }

    /// The end of a process that has been reaped, as it counts. What one that took too long has left behind is killed.
    pub(super) fn end(&self, pid: Pid, deadline: &Deadline, end: End) -> End {
        if !deadline.has_passed {
            return end;
        }
        // The group's ID is not reused while a process of the group exists.
        self.signal(pid, Signal::SIGKILL);
        match end {
            End::Exited(_) => End::Killed(Signal::SIGTERM as i32),
            end @ End::Killed(_) => end,
        }
    }

    /// Sends a signal to a command that was started here and not reaped, so its process ID is still its own.
    pub(super) fn signal(&self, pid: Pid, signal: Signal) {
        let send = if self.own_group { killpg } else { kill };
        let _ = send(pid, signal);
        if signal != Signal::SIGKILL {
            // A stopped command would never receive it.
            let _ = send(pid, Signal::SIGCONT);
        }
    }
}
