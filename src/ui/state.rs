//! The status of shared limits in words.

use crate::config::rounded_duration;
use crate::printable::{escaped, excerpt};
use crate::store::{LimitStatus, LockStatus, Status};

/// A line for each limit and each hold, for runs that wait for their turn, and for the lock, if there are any.
pub(crate) fn describe(status: &Status) -> String {
    let limits = status.limits.iter().map(limit);
    let held = status.held.iter().map(|(key, left)| match key {
        None => format!("held: everything, for {}", roughly(*left)),
        Some(key) => format!("held: key {}, for {}", excerpt(key), roughly(*left)),
    });
    let turns = status
        .last_turn
        .map(|turn| format!("turns: runs are waiting for theirs, the last is in {}", roughly(turn)));
    let lock = status.lock.map(|lock| match lock {
        LockStatus::Free => "lock: free".to_owned(),
        LockStatus::Held { pid, is_stopped: false } => format!("lock: held by process {pid}"),
        LockStatus::Held { pid, is_stopped: true } => {
            format!("lock: held by process {pid}, which is stopped")
        }
    });
    limits.chain(held).chain(turns).chain(lock).collect::<Vec<_>>().join("\n")
}

/// Rounded up to the millisecond: it changes while it is read.
fn roughly(nanos: u64) -> String {
    rounded_duration(nanos.next_multiple_of(1_000_000))
}

fn limit(status: &LimitStatus) -> String {
    let LimitStatus { rate, capacity, free, next_in } = status;
    let next = match next_in {
        0 => "now".to_owned(),
        _ => format!("in {}", roughly(*next_in)),
    };
    let used = capacity.saturating_sub(*free);
    escaped(&format!("{rate}: {used} used, {free} free, next slot {next}"))
}
