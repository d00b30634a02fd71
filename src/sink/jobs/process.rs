//! A running process: its place and its deadline.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::time::{SECOND, Time};

/// The time that a command has to end cleanly after its timeout.
const GRACE: u64 = 2 * SECOND;

/// A process that was started and not reaped yet.
pub(super) struct Process {
    pub(super) pid: Pid,
    /// The number of its place among those that run, from 0.
    pub(super) slot: usize,
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

    /// True if it has come by `now`.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// Returns true once, when it has come by `now`.
    pub(super) fn pass(&mut self, now: Time) -> bool {
        let passes = self.at.take_if(|at| *at <= now).is_some();
        self.has_passed |= passes;
        passes
    }

    /// The signal to send at `now`, if the process has taken too long. Sets the next deadline.
    pub(super) fn signal(&mut self, now: Time) -> Option<Signal> {
        if !self.is_due(now) {
            return None;
        }
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
