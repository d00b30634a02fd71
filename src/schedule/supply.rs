//! Items that were read but have not joined a lane yet.
//!
//! An item that can never be released is rejected in its turn: once as many items are done as precede it in the input.
//! Such items are found when they are read, which may be far ahead. Counted at once, a few of them would be a large
//! share of what has ended so far and might end a run with `--halt`, depending on how the input was cut into blocks.

use std::collections::BTreeMap;

use anyhow::Error;

use super::{Notice, Stats};
use crate::config::{OnBad, Plan, Rate, Separator};
use crate::exit::Exit;
use crate::source::{Advice, Charger, Delimiter, Intake, Segment};

/// The most items that may be waiting to be rejected; no further items are looked at.
const MAX_REJECTS: usize = 1024;

/// The items that come next, the rejected ones among them, and how the input ends.
pub(super) struct Supply {
    pub(super) intake: Intake,
    /// Items that can never be released, by the number of items that must be done before them, and their own number.
    rejects: BTreeMap<(u64, u64), Reject>,
    /// What to do about an item that cannot be charged.
    pub(super) on_bad: OnBad,
    separator: Option<Separator>,
    pub(super) advice: Advice,
    /// The error that ended the input, if one did.
    pub(super) bad_end: Option<Error>,
}

/// An item that can never be released.
pub(super) struct Reject {
    /// Its number.
    pub(super) item: u64,
    /// The number of input bytes before it.
    offset: u64,
    pub(super) notice: Notice,
    pub(super) exit: Exit,
}

impl Supply {
    pub(super) fn new(plan: &Plan, rates: &[Rate], delimiter: &Delimiter) -> Self {
        let separator = plan.input.separator.clone();
        let charger = Charger::new(rates, separator.as_ref());
        Supply {
            intake: Intake::new(plan, delimiter.clone(), charger),
            rejects: BTreeMap::new(),
            on_bad: plan.input.on_bad,
            separator,
            advice: Advice::new(&plan.input, &plan.members, rates),
            bad_end: None,
        }
    }

    pub(super) fn recharge(&mut self, waiting: Vec<Segment>, rates: &[Rate], bound: &[u64]) {
        let mut charger = Charger::new(rates, self.separator.as_ref());
        charger.bound(bound);
        charger.keep_matched(&self.intake.charger);
        self.advice.change_limits(rates);
        self.intake.put_back(waiting, charger);
    }

    /// Takes out the front item, which was looked at, as it can never be released. Items that were skipped or left out
    /// do not count towards its turn.
    pub(super) fn reject(&mut self, why: impl FnOnce(&Segment) -> Notice, exit: Exit) {
        let Some(segment) = self.intake.pass() else { return };
        let (item, offset, notice) = (segment.first(), segment.offset(), why(&segment));
        let before = item.saturating_sub(1 + self.intake.passed_over());
        self.rejects.insert((before, item), Reject { item, offset, notice, exit });
    }

    /// Takes out the next item to reject, if its turn has come now that `done` items are done.
    pub(super) fn take_rejected(&mut self, done: u64) -> Option<Reject> {
        Some(self.rejects.first_entry().filter(|first| first.key().0 <= done)?.remove())
    }

    /// True while no more items may be looked at, as too many wait to be rejected.
    pub(super) fn is_full(&self) -> bool {
        self.rejects.len() >= MAX_REJECTS
    }

    /// The number of input bytes before the next item, which may be one that waits to be rejected.
    pub(super) fn offset(&self) -> u64 {
        self.rejects.values().next().map_or(u64::MAX, |reject| reject.offset).min(self.intake.offset())
    }

    /// The counters of the run, completed with the items read and skipped.
    pub(super) fn counted(&self, stats: &Stats) -> Stats {
        Stats { read: self.intake.read(), skipped: self.intake.skipped(), ..*stats }
    }

    /// The number of items read, without skipped ones. May include some that will be skipped when they are looked at.
    pub(super) fn items(&self) -> u64 {
        self.intake.read() - self.intake.skipped()
    }

    /// The advice on all items together, once they were all looked at.
    pub(super) fn last_advice(&mut self) -> Vec<String> {
        let has_looked_at_all = self.items() > 0 && self.intake.skipped() == 0;
        self.advice.at_end(&self.intake.charger, has_looked_at_all)
    }
}
