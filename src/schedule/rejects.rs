//! Items that can never be released, which count in turn: once as many are done with as stand before them in the input.
//!
//! They are found when they are read, however far ahead that is. Counted then, a few of them would be a large share of
//! what has ended so far, and end a run with `--halt`, depending on how the input was cut into blocks.

use std::collections::BTreeMap;

use super::Notice;
use crate::exit::Exit;

/// As soon as this number waits for its turn, no more are looked for.
const MOST: usize = 1024;

/// An item that can never be released.
pub(super) struct Reject {
    /// Its number.
    pub(super) item: u64,
    /// How many bytes of the input stand before it.
    pub(super) offset: u64,
    pub(super) notice: Notice,
    pub(super) exit: Exit,
}

/// Those that wait for their turn.
#[derive(Default)]
pub(super) struct Rejects {
    /// By the number of items that are to be done with before them, and their own number.
    waiting: BTreeMap<(u64, u64), Reject>,
}

impl Rejects {
    pub(super) fn are_full(&self) -> bool {
        self.waiting.len() >= MOST
    }

    /// Adds one before which `uncounted` items were passed over or left out, and count for nothing.
    pub(super) fn add(&mut self, reject: Reject, uncounted: u64) {
        let before = reject.item.saturating_sub(1 + uncounted);
        self.waiting.insert((before, reject.item), reject);
    }

    /// How many bytes of the input stand before the first one.
    pub(super) fn offset(&self) -> Option<u64> {
        self.waiting.values().next().map(|reject| reject.offset)
    }

    /// The next one, if its turn has come with as many items done with.
    pub(super) fn take_due(&mut self, done: u64) -> Option<Reject> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= done)?;
        Some(first.remove())
    }
}
