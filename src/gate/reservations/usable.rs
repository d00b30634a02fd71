//! How many slots at one instant, or nearly so, can be used before they are over.

use super::order::Slot;
use crate::time::Time;

/// After this number of slots that were used in time, more at one instant are tried.
const TRIED_AFTER: u64 = 64;

/// Commands start one after the other, so of many slots at one instant the last may be over before their turn. This
/// finds out how many are of use: fewer after a loss, more again when none was lost for a while.
#[derive(Clone)]
pub(super) struct Usable {
    /// Releases leave one after the other; otherwise, any number of slots is of use.
    pub(super) is_serial: bool,
    most: u64,
    /// The most that are ever ordered.
    all: u64,
    /// When the first of the slots that were used together is over, and the number of those that begin by then.
    together: (Time, u64),
    /// The number used in time since one was lost, or since more were tried.
    in_time: u64,
}

impl Usable {
    /// At first, `all` are taken to be of use.
    pub(super) fn new(all: u64) -> Self {
        Usable { is_serial: false, most: all, all, together: (Time::ZERO, 0), in_time: 0 }
    }

    /// The most slots at one instant that are of use; at least 1.
    pub(super) fn most(&self) -> u64 {
        if self.is_serial { self.most } else { u64::MAX }
    }

    /// Notes that a slot was used, by a release that was over at `now`.
    pub(super) fn note(&mut self, slot: Slot, now: Time) {
        if slot.until < now {
            return self.lose();
        }
        let (over, number) = self.together;
        self.together = if slot.at <= over { (over, number + 1) } else { (slot.until, 1) };
        self.in_time += 1;
        if self.in_time == TRIED_AFTER {
            self.most = self.all.min(self.most + (self.most / 8).max(1));
            self.in_time = 0;
        }
    }

    /// Notes that a slot was not used in time.
    pub(super) fn lose(&mut self) {
        let fewer = self.most - 1;
        self.most = fewer.min(self.together.1.max(self.most / 2)).max(1);
        self.in_time = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `count` slots from `at` on, of which each is good for 10 and takes 4.
    fn use_slots(usable: &mut Usable, at: u64, count: u64) {
        (1..=count).for_each(|number| {
            usable.note(Slot { at: Time(at), until: Time(at + 10) }, Time(at + 4 * number));
        });
    }

    #[test]
    fn no_more_are_of_use_than_were_used_together_before_one_was_lost() {
        let mut usable = Usable { is_serial: true, ..Usable::new(40) };
        // Of more than half, it is not known at first that they are too many.
        let after = [100, 200, 300, 400, 500, 600].map(|at| {
            use_slots(&mut usable, at, 3);
            usable.most()
        });
        assert_eq!(after, [20, 10, 5, 2, 1, 1]);
    }

    #[test]
    fn more_are_tried_when_none_was_lost_for_a_while() {
        let mut usable = Usable { is_serial: true, ..Usable::new(12) };
        (0..5).for_each(|_| usable.lose());
        assert_eq!(usable.most(), 1);
        let mut at = 0;
        let mut rounds = |usable: &mut Usable| {
            (0..TRIED_AFTER / 2).for_each(|_| {
                at += 100;
                use_slots(usable, at, 2);
            });
            usable.most()
        };
        assert_eq!([(); 3].map(|()| rounds(&mut usable)), [2, 3, 4]);
        usable.lose();
        assert_eq!(usable.most(), 2);
        assert_eq!([(); 12].map(|()| rounds(&mut usable)).last(), Some(&12));
    }
}
