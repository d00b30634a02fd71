//! What a person may wonder about: why nothing happens, how long it takes, how to go on.

use std::io::{self, IsTerminal};

use nix::sys::signal::Signal;

use super::line::reason;
use super::report::{Log, Reporter};
use super::stats::items;
use super::wall::{clock_at, words};
use crate::exit::Exit;
use crate::schedule::{Stats, WaitReason};
use crate::time::{SECOND, Time, Wall};

/// A wait as long as this is explained.
const LONG: u64 = 5 * SECOND;

/// Whether a wait until `next`, or until something changes, is worth an explanation.
pub fn is_long(now: Time, next: Option<Time>) -> bool {
    next.is_none_or(|next| next.since(now) > LONG)
}

impl Reporter {
    /// Whether a long wait is to be explained.
    pub fn explains(&self) -> bool {
        self.explains.get()
    }

    /// Explains a long wait; only the first.
    pub fn explain(&self, wall: Wall, now: Time, next: Option<Time>, wait_reason: &WaitReason) {
        let text = match (wait_reason, next) {
            (WaitReason::Input | WaitReason::Command, _) => return,
            (WaitReason::Pause(_), _) => {
                format!("paused by the limit {} until it changes", reason(wait_reason))
            }
            (WaitReason::Limit(_), Some(next)) => {
                let until = clock_at(wall, now, next);
                format!("waiting until {until} for the limit {}", reason(wait_reason))
            }
            (_, Some(next)) => {
                format!("waiting until {}: {}", clock_at(wall, now, next), reason(wait_reason))
            }
            (_, None) => return,
        };
        self.explains.set(false);
        self.notice(&format_args!("{text} (--progress shows more)"));
    }

    /// Says that items are typed, if they are.
    pub fn reads_terminal(&self) {
        if io::stdin().is_terminal() {
            self.notice(&"reading items from the terminal; Ctrl-D ends them");
        }
    }

    /// What a dry run would have done, in words, and when, if that can be told. The table on stdout is for programs.
    pub(super) fn plan(&self, stats: &Stats, wall: Option<Wall>) {
        let nanos = stats.times.last.since(stats.times.started);
        let wall = wall.filter(|_| stats.released > 0);
        let ends =
            wall.map(|wall| format!(", ends {}", clock_at(wall, stats.times.started, stats.times.last)));
        let ends = ends.unwrap_or_default();
        let refused = match stats.refused {
            0 => String::new(),
            refused => format!(", {refused} refused"),
        };
        self.notice(&format_args!("{}, {}{ends}{refused}", items(stats.released), words(nanos)));
    }

    /// How to go on, or that there is nothing left to do.
    pub(super) fn next_step(&self, exit: Exit, stats: &Stats) {
        let is_interrupted = match exit {
            Exit::Signal(signal) => signal != Signal::SIGPIPE as i32,
            exit => exit == Exit::Refused,
        };
        match self.log {
            Some(Log::Kept) if is_interrupted => {
                self.notice(&"to go on, run the same command with --resume");
            }
            Some(Log::Resumed) if is_interrupted => self.notice(&"to go on, run the same command again"),
            Some(Log::Resumed) if exit == Exit::Done && stats.read > 0 && stats.skipped == stats.read => {
                let all = items(stats.read);
                self.notice(&format_args!("nothing left to do: the log has {all} as done"));
            }
            _ => {}
        }
    }
}
