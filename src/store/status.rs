//! The use of the limits in a state.

use crate::config::Rate;

/// The use of a state.
#[derive(Debug)]
pub struct Status {
    /// The limits as they are kept, with the reserve for late wake-ups as their margins.
    pub limits: Vec<LimitStatus>,
    /// Holds of all keys (`None`) or of one, with the nanoseconds that they last. There may be more than are listed.
    pub held: Vec<(Option<Vec<u8>>, u64)>,
    /// The nanoseconds until the last slot that a waiting run has booked, if there are any. On a server, the
    /// slots of runs that were killed count, and there are none if the newest slot was given back.
    pub booked: Option<u64>,
    /// The nanoseconds until the last turn of the runs that were turned away, if there are any.
    pub last_turn: Option<u64>,
    /// `None` on a server, which has no locks.
    pub lock: Option<LockStatus>,
}

/// The holder of a state's lock.
#[derive(Clone, Copy, Debug)]
pub enum LockStatus {
    /// No one.
    Free,
    /// This process.
    Held {
        /// Its process ID.
        pid: u32,
        /// True if it is stopped, and so keeps the others waiting.
        is_stopped: bool,
    },
}

/// The most held keys that are listed.
pub(super) const MAX_KEYS: usize = 10;

/// The use of one limit; if each key has its own slots, by the empty key.
#[derive(Debug)]
pub struct LimitStatus {
    /// The limit.
    pub rate: Rate,
    /// The most releases that may have slots at one instant.
    pub capacity: u64,
    /// The number of releases that would have one right now.
    pub free: u64,
    /// Nanoseconds until the next slot.
    pub next_in: u64,
    /// The use by all keys. `None` if they have no slots of their own, or are on a server, where finding them is slow.
    pub keys: Option<KeysInUse>,
}

/// The keys that have used slots of a limit.
#[derive(Debug, Default)]
pub struct KeysInUse {
    /// Their number.
    pub number: u64,
    /// Those with the most used slots, and how many these are: at most three.
    pub fullest: Vec<(Vec<u8>, u64)>,
}

const MAX_FULLEST: usize = 3;

impl KeysInUse {
    /// Counts a key that has used this many slots.
    pub(super) fn count(&mut self, key: &[u8], used: u64) {
        if used > 0 {
            self.number += 1;
            let place = self.fullest.partition_point(|(_, other)| *other >= used);
            self.fullest.insert(place, (key.to_owned(), used));
            self.fullest.truncate(MAX_FULLEST);
        }
    }
}
