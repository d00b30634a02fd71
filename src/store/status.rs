//! The use of the limits in a state.

use crate::config::Rate;

/// The use of a state.
#[derive(Debug)]
pub struct Status {
    /// The limits as they are kept: their periods have the reserve for late wake-ups as a margin.
    pub limits: Vec<LimitStatus>,
    /// Holds of all keys (`None`) or of one, with the nanoseconds that they last. There may be more than are told.
    pub held: Vec<(Option<Vec<u8>>, u64)>,
    /// Nanoseconds until the last turn of the runs that were turned away, if any were.
    pub last_turn: Option<u64>,
    /// `None` on a server, which has no locks.
    pub lock: Option<LockStatus>,
}

/// The holder of a state's lock.
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
#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(super) const MOST_KEYS: u32 = 10;

/// The use of one limit.
#[derive(Debug)]
pub struct LimitStatus {
    /// The limit.
    pub rate: Rate,
    /// The most releases that may have slots at one instant.
    pub capacity: u64,
    /// The number that would have one right now.
    pub free: u64,
    /// Nanoseconds until the next slot.
    pub next_in: u64,
}
