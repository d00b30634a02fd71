//! How much of the limits in a state is used.

use crate::config::Rate;

/// What a state says of its limits.
#[derive(Debug)]
pub struct Status {
    /// The limits as they are kept: their periods have the reserve for late wake-ups as a margin.
    pub limits: Vec<LimitStatus>,
    /// What is held, and for how many nanoseconds more: everything, or a key. There may be more keys than are told.
    pub held: Vec<(Option<Vec<u8>>, u64)>,
    /// If runs were turned away: in how many nanoseconds the last of their turns is.
    pub last_turn: Option<u64>,
    /// Whether it is locked. On a server, none is.
    pub lock: Option<LockStatus>,
}

/// Who has locked a state.
#[derive(Clone, Copy, Debug)]
pub enum LockStatus {
    /// Nobody.
    Free,
    /// This process.
    Held {
        /// Its number.
        pid: u32,
        /// It is stopped, and so keeps the others waiting.
        is_stopped: bool,
    },
}

/// The number of held keys that are told, at most.
#[cfg(feature = "sqlite")]
pub(super) const MOST_KEYS: u32 = 10;

/// What a state says of one limit.
#[derive(Debug)]
pub struct LimitStatus {
    /// The limit.
    pub rate: Rate,
    /// How many releases may have slots at one instant.
    pub capacity: u64,
    /// How many would have one right now.
    pub free: u64,
    /// How long it takes until the next slot, in nanoseconds.
    pub next_in: u64,
}
