//! Answers of the gate, kept as long as they stand.

use crate::gate::{Gate, Opening, Part};
use crate::time::Time;

/// An answer of the gate. It stands until the gate's revision changes, the opening ends, or the request's `since`
/// changes.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) opening: Opening,
    revision: u64,
    /// The `since` of the request; `None` if the answer does not depend on it.
    pub(super) since: Option<Time>,
}

impl Default for Kept {
    /// An answer that does not stand.
    fn default() -> Self {
        Kept { opening: Opening::NEVER, revision: u64::MAX, since: None }
    }
}

impl Kept {
    /// An answer that this part of the gate has just given.
    pub(super) fn new(opening: Opening, gate: &dyn Gate, part: Part, since: Option<Time>) -> Self {
        Kept { opening, revision: gate.revision(part), since }
    }

    pub(super) fn stands(self, gate: &dyn Gate, part: Part, since: Option<Time>, now: Time) -> bool {
        self.revision == gate.revision(part) && self.since == since && !self.opening.is_over(now)
    }
}
