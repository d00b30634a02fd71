//! Answers of the gate, kept as long as they stand.

use crate::gate::{Gate, Opening, Scope};
use crate::time::Time;

/// An answer of the gate. It stands until the gate's version changes, the opening ends, or the request's `since`
/// changes.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) opening: Opening,
    version: u64,
    /// The `since` of the request; `None` if the answer does not depend on it.
    pub(super) since: Option<Time>,
}

impl Default for Kept {
    /// An answer that does not stand.
    fn default() -> Self {
        Kept { opening: Opening::NEVER, version: u64::MAX, since: None }
    }
}

impl Kept {
    /// An answer that the gate has just given.
    pub(super) fn new(opening: Opening, gate: &Gate, scope: Scope, since: Option<Time>) -> Self {
        Kept { opening, version: gate.version(scope), since }
    }

    pub(super) fn stands(self, gate: &Gate, scope: Scope, since: Option<Time>, now: Time) -> bool {
        self.version == gate.version(scope) && self.since == since && !self.opening.is_over(now)
    }
}
