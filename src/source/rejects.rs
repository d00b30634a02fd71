//! Items that can never be released.
//!
//! Each is rejected in its turn: once as many items are done as precede it in the input. Such items are found when they
//! are read, which may be far ahead. Counted at once, a few of them would be a large share of what has ended so far and
//! might end a run with `--halt`, depending on how the input was cut into blocks.

use std::collections::BTreeMap;

use anyhow::Error;

use super::Segment;
use crate::config::OnBad;

/// The most items that may be waiting to be rejected; no further items are looked at.
const MAX_REJECTS: usize = 1024;

/// Why an item can never be released.
pub(crate) enum Unfit {
    /// It cannot be charged.
    Uncharged(Error),
    /// It cannot be an argument.
    Argument(&'static str),
}

/// Items that wait to be rejected.
pub(super) struct Rejects {
    on_bad: OnBad,
    /// By the number of items that must be done before them, and their own number.
    waiting: BTreeMap<(u64, u64), (Segment, Unfit)>,
}

impl Rejects {
    pub(super) fn new(on_bad: OnBad) -> Self {
        Rejects { on_bad, waiting: BTreeMap::new() }
    }

    /// True if an item that cannot be charged is not rejected, but ends the input.
    pub(super) fn ends_the_input(&self) -> bool {
        self.on_bad == OnBad::Fail
    }

    /// Adds an item, the turn of which comes once `before` items are done.
    pub(super) fn add(&mut self, before: u64, item: &Segment, why: Unfit) {
        self.waiting.insert((before, item.first()), (item.detached(), why));
    }

    /// Takes the next one whose turn has come now that `done` items are done.
    pub(super) fn take_due(&mut self, done: u64) -> Option<(Segment, Unfit)> {
        Some(self.waiting.first_entry().filter(|first| first.key().0 <= done)?.remove())
    }

    /// True while no more may be added.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_REJECTS
    }

    /// The number of bytes of the input before the first one.
    pub(super) fn offset(&self) -> Option<u64> {
        self.waiting.values().next().map(|(segment, _)| segment.offset())
    }
}
