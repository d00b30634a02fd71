//! Hints for a person: why nothing happens, how long it takes, how to continue.

use super::line::reason;
use super::number::items;
use super::stats::counted;
use super::wall::{clock_at, words};
use crate::exit::Exit;
use crate::schedule::{Forecast, Stats, WaitReason};
use crate::time::{SECOND, Time, Wall};

/// Longer waits are explained.
const LONG: u64 = 5 * SECOND;

/// Reports whether a wait until `next`, or until something changes, is worth an explanation.
pub(super) fn is_long(now: Time, next: Option<Time>) -> bool {
    next.is_none_or(|next| next.since(now) > LONG)
}

/// Why nothing is released before the next release; `None` if it is not worth a message.
pub(super) fn explanation(
    Forecast { next, wait_reason, .. }: &Forecast,
    wall: Wall,
    now: Time,
) -> Option<String> {
    let (reason, until) = (reason(wait_reason), next.map(|next| clock_at(wall, now, next)));
    match (wait_reason, until) {
        (WaitReason::Input | WaitReason::Command, _) => None,
        (WaitReason::Pause(_), _) => Some(format!("paused by the limit {reason} until it changes")),
        (WaitReason::Limit(_), Some(until)) => Some(format!("waiting until {until} for the limit {reason}")),
        (_, Some(until)) => Some(format!("waiting until {until}: {reason}")),
        (_, None) => None,
    }
}

/// A dry run in words, with its end if `wall` is given. The table on stdout is for programs.
pub(super) fn plan(stats: &Stats, wall: Option<Wall>) -> String {
    let nanos = stats.times.last.since(stats.times.started);
    let wall = wall.filter(|_| stats.released > 0);
    let ends = wall.map(|wall| format!(", ends {}", clock_at(wall, stats.times.started, stats.times.last)));
    let (ends, refused) = (ends.unwrap_or_default(), counted(stats.refused, "refused"));
    format!("{}, {}{ends}{refused}", items(stats.released), words(nanos))
}

/// A hint on how to continue, or that nothing is left to do. `resumes` is true if the run resumes the log of another.
pub(super) fn next_step(resumes: bool, exit: Exit, stats: &Stats) -> Option<String> {
    let is_interrupted = matches!(exit, Exit::Signal(_) | Exit::Refused) && exit != Exit::READER_GONE;
    match (is_interrupted, resumes) {
        (true, false) => Some("to continue, run the same command with --resume".to_owned()),
        (true, true) => Some("to continue, run the same command again".to_owned()),
        (false, true) if exit == Exit::Done && stats.read > 0 && stats.skipped == stats.read => {
            Some(format!("nothing left to do: the log already has {}", items(stats.read)))
        }
        (false, _) => None,
    }
}
