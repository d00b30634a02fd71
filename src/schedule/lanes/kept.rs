//! Answers of the gate that are kept for as long as they stand.

use crate::gate::{Gate, Opening, Part};
use crate::time::Time;

/// An answer of the gate, if one is kept. It stands until the gate's revision changes, or it ends, or what was asked
/// about is next in line since another instant.
#[derive(Clone, Copy, Default)]
pub(super) struct Kept(Option<KeptOpening>);

#[derive(Clone, Copy)]
struct KeptOpening {
    opening: Opening,
    revision: u64,
    /// What was asked about is next in line since then.
    since: Option<Time>,
}

impl Kept {
    /// This part of the gate has answered just now.
    pub(super) fn new(opening: Opening, gate: &dyn Gate, part: Part, since: Option<Time>) -> Self {
        Kept(Some(KeptOpening { opening, revision: gate.revision(part), since }))
    }

    /// The answer, if it still stands at `now`.
    pub(super) fn get(self, gate: &dyn Gate, part: Part, since: Option<Time>, now: Time) -> Option<Opening> {
        let stands = |answer: &KeptOpening| {
            answer.revision == gate.revision(part) && answer.since == since && !answer.opening.is_over(now)
        };
        self.0.filter(stands).map(|answer| answer.opening)
    }

    /// The same is answered to what is next in line since another instant.
    pub(super) fn carry_over(&mut self, since: Option<Time>) {
        self.0.iter_mut().for_each(|answer| answer.since = since);
    }
}
