//! What a state says of its limits, in words.

use crate::config::rounded_duration;
use crate::printable::escaped;
use crate::store::{LimitStatus, Status};

/// A line for each limit, and one for the lock.
pub fn describe(status: &Status) -> String {
    let mut lines: Vec<_> = status.limits.iter().map(limit).collect();
    lines.push(match status.holder {
        None => "lock: free".to_owned(),
        Some((pid, false)) => format!("lock: held by process {pid}"),
        Some((pid, true)) => format!("lock: held by process {pid}, which is stopped"),
    });
    lines.join("\n")
}

fn limit(status: &LimitStatus) -> String {
    let LimitStatus { rate, capacity, free, next_in } = status;
    let next = match next_in {
        0 => "now".to_owned(),
        // Rounded up: it changes while it is read.
        _ => format!("in {}", rounded_duration(next_in.next_multiple_of(1_000_000))),
    };
    let used = capacity.saturating_sub(*free);
    escaped(&format!("{rate}: {used} used, {free} free, next slot {next}"))
}
