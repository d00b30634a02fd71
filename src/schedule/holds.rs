//! Lanes in which nothing is released for a while, since a server has asked for that.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;

use crate::charge::Key;
use crate::time::Time;

/// So many are kept before it is looked which of them are over.
const FEW: usize = 64;

/// Until when each lane is held, by its name. A lane need not exist for that.
#[derive(Default)]
pub(super) struct Holds {
    by_lane: HashMap<Rc<[Key]>, Time, RandomState>,
    /// All others.
    others: Time,
    tidy_beyond: usize,
}

impl Holds {
    /// Until when a lane is held.
    pub(super) fn until(&self, lane: &[Key]) -> Time {
        self.by_lane.get(lane).copied().unwrap_or_default().max(self.others)
    }

    /// Holds a lane for longer, if that is not before `until`.
    pub(super) fn hold(&mut self, now: Time, lane: Rc<[Key]>, until: Time) {
        let hold = self.by_lane.entry(lane).or_default();
        *hold = until.max(*hold);
        if self.by_lane.len() > self.tidy_beyond.max(FEW) {
            self.by_lane.retain(|_, until| *until > now);
            self.tidy_beyond = 2 * self.by_lane.len();
        }
    }

    /// From now on, lanes have other names: whatever is held holds all.
    pub(super) fn forget_names(&mut self) {
        self.others = self.by_lane.drain().map(|(_, until)| until).fold(self.others, Time::max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_kept_until_they_are_over() {
        let name = |number: u64| Rc::from([Key::from_slice(&number.to_le_bytes())]);
        let mut holds = Holds::default();
        for now in 0..10_000 {
            holds.hold(Time(now), name(now), Time(now + 20));
            holds.hold(Time(now), name(now), Time(now + 10));
            let known =
                [0, 1, 19, 20].map(|ago| now.saturating_sub(ago)).map(|number| (number, name(number)));
            for (number, name) in known {
                let until = holds.until(&name);
                assert!(
                    until == Time(number + 20) || (until == Time(0) && number + 20 <= now),
                    "{now} {number}"
                );
            }
            assert!(holds.by_lane.len() <= FEW + 1);
        }
        assert_eq!(holds.until(&name(10_000)), Time(0));
        holds.forget_names();
        assert_eq!([name(1), Rc::from([])].map(|name| holds.until(&name)), [Time(10_019); 2]);
    }
}
