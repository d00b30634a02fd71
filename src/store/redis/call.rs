//! Calls of the script, and its answers.

use redis::{Cmd, cmd};

use super::keys::redis_key;
use super::nodes::NodeId;
use super::{LIMITS_KEPT, SLACK};
use crate::store::record::VERSION;
use crate::store::vault::{Reading, Suspicion, Value, Waiting, Write};
use crate::time::{SECOND, Time, Wall};

/// An answer of the script.
pub(super) struct ScriptAnswer {
    pub(super) node: NodeId,
    pub(super) reading: Reading,
    pub(super) outcome: Outcome,
    pub(super) value: Option<Value>,
    /// The reply, or the requests of all that wait, as far as it was told.
    pub(super) told: Vec<Value>,
    /// Why earlier values may be lost, once that was learned.
    pub(super) suspicion: Option<Suspicion>,
}

/// What became of a call of the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Read,
    Swapped,
    Replied,
    HasTurn,
    Waits,
}

const OUTCOMES: [Outcome; 5] =
    [Outcome::Read, Outcome::Swapped, Outcome::Replied, Outcome::HasTurn, Outcome::Waits];

/// A swap, as the script is told of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Call<'a> {
    pub(super) key: &'a [u8],
    /// What the old value begins with.
    pub(super) begins: &'a [u8],
    /// The new value; empty if it only waits.
    pub(super) new: &'a [u8],
    /// The milliseconds for which to keep it.
    pub(super) millis: u64,
    pub(super) id: &'a str,
    pub(super) request: &'a [u8],
    pub(super) replies: &'a [Waiting],
}

impl<'a> Call<'a> {
    pub(super) fn of(write: &'a Write, id: &'a str) -> Self {
        let Write { key, old, decided, value: new, idle, request, replies } = write;
        let begins = old.as_ref().map_or(&b""[..], |old| &old[..VERSION.min(old.len())]);
        let has_limits = key.is_empty() && !new.is_empty();
        let longer = if has_limits { LIMITS_KEPT } else { SLACK };
        let millis = idle.since(*decided).saturating_add(longer).div_ceil(1_000_000).min(1 << 52);
        Call { key, begins, new, millis, id, request: request.as_deref().unwrap_or_default(), replies }
    }

    /// As a command. The process may have the turn for this number of microseconds.
    pub(super) fn command(&self, script: &str, name: &str, turn: u64) -> Cmd {
        let Call { key, begins, new, millis, id, request, replies } = *self;
        let mut command = cmd("EVALSHA");
        command.arg(script).arg(1).arg(redis_key(name, key));
        command.arg(begins).arg(new).arg(millis).arg(id).arg(request).arg(turn);
        replies.iter().for_each(|(id, reply)| _ = command.arg(id).arg(reply));
        command
    }
}

/// Reads what the script returns.
pub(super) fn read(
    (seconds, micros, outcome, value, told): (u64, u64, usize, Value, Vec<Value>),
    node: NodeId,
    asked: Time,
    answered: Time,
) -> Option<ScriptAnswer> {
    let shown = seconds.checked_mul(SECOND)?.checked_add(micros.checked_mul(1000)?)?;
    let reading = Reading { asked, shown: Time(shown), answered, wall: Wall::EPOCH };
    let value = Some(value).filter(|value| !value.is_empty());
    Some(ScriptAnswer { node, reading, outcome: *OUTCOMES.get(outcome)?, value, told, suspicion: None })
}
