//! Slots that were lost, as their releases came too late for them.

use crate::time::{SECOND, Time};

/// The most times that the number of slots for what follows others in a lane is halved, and the least that it becomes.
const MAX_HALVINGS: u32 = 6;
const LEAST_FOLLOWING: u64 = 4;

/// The nanoseconds after which slots that come in time make up for a loss.
const REGAINED_AFTER: u64 = SECOND / 20;

/// The slots lost of late.
#[derive(Clone, Default)]
pub(super) struct Losses {
    /// The number of times that the number of slots for what follows others is halved, and when that last changed.
    halvings: u32,
    changed: Time,
    /// One was lost after the last one that was used.
    since_use: bool,
}

impl Losses {
    /// Notes that a slot was lost. Those for what follows in its lane may be over when its item has another.
    pub(super) fn lose(&mut self, now: Time) {
        *self = Losses { halvings: (self.halvings + 1).min(MAX_HALVINGS), changed: now, since_use: true };
    }

    /// Notes that slots came in time.
    pub(super) fn regain(&mut self, now: Time) {
        if self.halvings > 0 && now.since(self.changed) > REGAINED_AFTER {
            (self.halvings, self.changed) = (self.halvings - 1, now);
        }
    }

    /// Notes that a slot was used.
    pub(super) fn use_slot(&mut self) {
        self.since_use = false;
    }

    /// True if a slot was lost after the last one that was used.
    pub(super) fn lost_since_use(&self) -> bool {
        self.since_use
    }

    /// The part of a number of slots that is ordered for what follows others in its lane.
    pub(super) fn following(&self, slots: u64) -> u64 {
        (slots >> self.halvings).max(slots.min(LEAST_FOLLOWING))
    }
}
