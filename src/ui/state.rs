//! The status of shared limits in words.

use serde_json::{Value, json};

use super::number::{count_of, in_seconds};
use crate::config::rounded_duration;
use crate::printable::{escaped, excerpt};
use crate::store::{KeysInUse, LimitStatus, LockStatus, Status};

/// A line for each limit and each hold, for what is booked and what waits to book, and for the lock, if there are any.
pub(crate) fn describe(status: &Status) -> String {
    let limits = status.limits.iter().map(limit);
    let held = status.held.iter().map(|(key, left)| match key {
        None => format!("held: everything, for {}", roughly(*left)),
        Some(key) => format!("held: key {}, for {}", excerpt(key), roughly(*left)),
    });
    let booked =
        status.booked.map(|left| format!("booked: slots in the next {}, by waiting runs", roughly(left)));
    let turns = status
        .last_turn
        .map(|turn| format!("queue: runs wait to book a slot, the last for {}", roughly(turn)));
    let lock = status.lock.map(|lock| match lock {
        LockStatus::Free => "lock: free".to_owned(),
        LockStatus::Held { pid, is_stopped } => {
            format!("lock: held by process {pid}{}", if is_stopped { ", which is stopped" } else { "" })
        }
    });
    limits.chain(held).chain(booked).chain(turns).chain(lock).collect::<Vec<_>>().join("\n")
}

/// The same as one JSON object. What there is none of, or is not known, is null.
pub(crate) fn json(status: &Status) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let held = status
        .held
        .iter()
        .map(|(key, left)| json!({ "key": key.as_deref().map(text), "seconds": in_seconds(*left) }));
    let lock = status.lock.map(|lock| match lock {
        LockStatus::Free => json!({ "pid": null, "stopped": false }),
        LockStatus::Held { pid, is_stopped } => json!({ "pid": pid, "stopped": is_stopped }),
    });
    let limit = |LimitStatus { rate, capacity, free, next_in, keys }: &LimitStatus| {
        let mut limit = json!({ "limit": rate.to_string(), "capacity": capacity });
        if rate.is_by_key() {
            limit["keys"] = keys.as_ref().map(|keys| keys.number).into();
            let fullest = |(key, used): &(Vec<u8>, u64)| json!({ "key": text(key), "used": used });
            limit["fullest_keys"] =
                keys.as_ref().map(|keys| keys.fullest.iter().map(fullest).collect::<Vec<_>>()).into();
        } else {
            limit["used"] = capacity.saturating_sub(*free).into();
            limit["free"] = (*free).into();
            limit["next_in_seconds"] = in_seconds(*next_in).into();
        }
        limit
    };
    json!({
        "limits": status.limits.iter().map(limit).collect::<Vec<_>>(),
        "held": held.collect::<Vec<_>>(),
        "booked_seconds": status.booked.map(in_seconds),
        "queued_seconds": status.last_turn.map(in_seconds),
        "lock": lock,
    })
}

fn keys_in_use(keys: &KeysInUse, capacity: u64) -> String {
    let fullest = keys.fullest.iter().map(|(key, used)| format!("{} {used} of {capacity}", excerpt(key)));
    let fullest = fullest.collect::<Vec<_>>().join(", ");
    match keys.number {
        0 => "no key in use".to_owned(),
        number => format!("{} in use, the fullest: {fullest}", count_of(number, "key")),
    }
}

/// Rounded up to the millisecond: it changes while it is read.
fn roughly(nanos: u64) -> String {
    rounded_duration(nanos.next_multiple_of(1_000_000))
}

fn limit(status: &LimitStatus) -> String {
    let LimitStatus { rate, capacity, free, next_in, keys } = status;
    if rate.is_by_key() {
        let of_keys = keys.as_ref().map(|keys| keys_in_use(keys, *capacity));
        let of_keys = of_keys.unwrap_or_else(|| "keys on a server are not listed".to_owned());
        return format!("{}: {capacity} for each key; {of_keys}", escaped(&rate.to_string()));
    }
    let next = match next_in {
        0 => "now".to_owned(),
        _ => format!("in {}", roughly(*next_in)),
    };
    let used = capacity.saturating_sub(*free);
    escaped(&format!("{rate}: {used} used, {free} free, next slot {next}"))
}
