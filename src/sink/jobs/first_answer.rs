//! The first answer of workers: without one, something is wrong with their command.

use super::process::Deadline;
use crate::exit::{End, Exit};
use crate::time::{SECOND, Time};

/// The number of workers that may end in a row before one has answered.
pub(super) const MAX_UNANSWERED: usize = 3;

/// The time without a first answer after which a hint says why that may be.
pub(super) const HINT_AFTER: u64 = 5 * SECOND;

/// Whether workers answer at all.
#[derive(Default)]
pub(super) struct FirstAnswer {
    /// The number of workers that have ended without an answer since the last one that gave one.
    unanswered: usize,
    /// When to hint at what may be wrong. It has passed, too, once there was an answer.
    hint: Deadline,
}

impl FirstAnswer {
    /// A worker was given an item at `now`.
    pub(super) fn expect(&mut self, now: Time) {
        if self.hint.at.is_none() {
            self.hint.set(now, Some(HINT_AFTER));
        }
    }

    /// A worker has answered.
    pub(super) fn come(&mut self) {
        *self = FirstAnswer { unanswered: 0, hint: Deadline { at: None, has_passed: true } };
    }

    /// A worker has ended without an answer. Returns the exit of the run if that has happened too often.
    pub(super) fn miss(&mut self, end: End) -> Option<Exit> {
        self.unanswered += 1;
        (self.unanswered >= MAX_UNANSWERED).then_some(match end {
            End::Exited(127) => Exit::NotFound,
            End::Exited(126) => Exit::CannotRun,
            End::Exited(status @ 1..=254) => Exit::Worker(status),
            end => Exit::of_command(end).max(Exit::CommandFailed),
        })
    }

    /// When to look for a hint.
    pub(super) fn hint_at(&self) -> Option<Time> {
        self.hint.at
    }

    /// The hint, if it is time for it at `now`.
    pub(super) fn take_hint(&mut self, now: Time) -> Option<&'static str> {
        self.hint.pass(now).then_some(
            "no worker has answered yet: does it buffer its output? Use python3 -u, stdbuf -oL, or flush after each \
             line",
        )
    }
}
