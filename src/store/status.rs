//! How much of the limits in a state is used.

use crate::config::Rate;

/// What a state says of its limits.
#[derive(Debug)]
pub struct Status {
    /// The limits as they are kept: their periods have the reserve for late wake-ups as a margin.
    pub limits: Vec<LimitStatus>,
    /// The process that holds the lock, and whether it is stopped.
    pub holder: Option<(u32, bool)>,
}

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
