//! Items that can never be released, which count in turn: once as many are done with as stand before them in the input.
//!
//! They are found when they are read, however far ahead that is. Counted then, a few of them would be a large share of
//! what has ended so far, and end a run with `--halt`, depending on how the input was cut into blocks.

use std::collections::BTreeMap;

use super::{Action, Notice, Schedule};
use crate::exit::Exit;
use crate::source::Segment;

/// So many wait for their turn before no more are looked for.
const MOST: usize = 1024;

/// An item that can never be released.
struct Reject {
    number: u64,
    offset: u64,
    notice: Notice,
    exit: Exit,
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

    /// How many bytes of the input stand before the first one.
    pub(super) fn offset(&self) -> Option<u64> {
        self.waiting.values().next().map(|reject| reject.offset)
    }

    /// The next one, if its turn has come with so many items done with.
    fn take_due(&mut self, done: u64) -> Option<Reject> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= done)?;
        Some(first.remove())
    }
}

impl Schedule {
    /// The item in front of the intake can never be released.
    pub(super) fn reject(&mut self, why: impl FnOnce(&Self, &Segment) -> Notice, exit: Exit) {
        let Some(segment) = self.intake.pass() else { return };
        // What was passed over or left out so far stands before it, and counts for nothing.
        let uncounted = self.intake.skipped() + self.intake.blank();
        let (number, offset) = (segment.first(), segment.offset());
        let before = number.saturating_sub(1 + uncounted);
        let reject = Reject { number, offset, notice: why(self, &segment), exit };
        self.rejects.waiting.insert((before, number), reject);
        self.count_rejects();
    }

    /// Counts those whose turn has come.
    pub(super) fn count_rejects(&mut self) {
        while !self.stopping
            && let Some(Reject { number, notice, exit, .. }) = self.rejects.take_due(self.done())
        {
            self.stats.settled += 1;
            self.actions.push_back(Action::Tell(notice));
            self.finish(number, 1, Some(exit));
        }
    }

    /// The number of items that are done with: not those whose command is running.
    pub(super) fn done(&self) -> u64 {
        self.stats.settled - self.attempts.items_in_flight()
    }
}
