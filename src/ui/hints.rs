//! Hints for a person: why nothing happens, how long it takes, how to go on.

use super::line::reason;
use super::stats::items;
use super::wall::{clock_at, words};
use crate::config::Run;
use crate::exit::Exit;
use crate::schedule::{Stats, WaitReason};
use crate::time::{SECOND, Time, Wall};

/// A wait as long as this is explained.
const LONG: u64 = 5 * SECOND;

/// The log of commands, by which an interrupted run goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LogUse {
    /// It keeps a log.
    Kept,
    /// It goes on with the log of another.
    Resumed,
}

impl LogUse {
    /// `None` if no log is kept.
    pub(super) fn of(run: &Run) -> Option<LogUse> {
        let log = if run.resume.is_some() { LogUse::Resumed } else { LogUse::Kept };
        run.log.as_ref().map(|_| log)
    }
}

/// Reports whether a wait until `next`, or until something changes, is worth an explanation.
pub(crate) fn is_long(now: Time, next: Option<Time>) -> bool {
    next.is_none_or(|next| next.since(now) > LONG)
}

/// The reason why nothing is released before `next`; `None` if it is not worth telling.
pub(super) fn explanation(
    wall: Wall,
    now: Time,
    next: Option<Time>,
    wait_reason: &WaitReason,
) -> Option<String> {
    let (reason, until) = (reason(wait_reason), next.map(|next| clock_at(wall, now, next)));
    let text = match (wait_reason, until) {
        (WaitReason::Input | WaitReason::Command, _) => return None,
        (WaitReason::Pause(_), _) => format!("paused by the limit {reason} until it changes"),
        (WaitReason::Limit(_), Some(until)) => format!("waiting until {until} for the limit {reason}"),
        (_, Some(until)) => format!("waiting until {until}: {reason}"),
        (_, None) => return None,
    };
    Some(format!("{text} (--progress shows more)"))
}

/// A dry run in words, with its end if `wall` tells that. The table on stdout is for programs.
pub(super) fn plan(stats: &Stats, wall: Option<Wall>) -> String {
    let nanos = stats.times.last.since(stats.times.started);
    let wall = wall.filter(|_| stats.released > 0);
    let ends = wall.map(|wall| format!(", ends {}", clock_at(wall, stats.times.started, stats.times.last)));
    let ends = ends.unwrap_or_default();
    let refused = match stats.refused {
        0 => String::new(),
        refused => format!(", {refused} refused"),
    };
    format!("{}, {}{ends}{refused}", items(stats.released), words(nanos))
}

/// The way to go on, or that there is nothing left to do.
pub(super) fn next_step(log: Option<LogUse>, exit: Exit, stats: &Stats) -> Option<String> {
    let is_interrupted = matches!(exit, Exit::Signal(_) | Exit::Refused) && exit != Exit::READER_GONE;
    match log? {
        LogUse::Kept if is_interrupted => Some("to go on, run the same command with --resume".to_owned()),
        LogUse::Resumed if is_interrupted => Some("to go on, run the same command again".to_owned()),
        LogUse::Resumed if exit == Exit::Done && stats.read > 0 && stats.skipped == stats.read => {
            Some(format!("nothing left to do: the log has {} as done", items(stats.read)))
        }
        LogUse::Kept | LogUse::Resumed => None,
    }
}
