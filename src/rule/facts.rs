//! Facts about an algorithm for the rest of the program, and all that follows from them.

use anyhow::Result;

use super::{SlotRule, Terms};
use crate::time::{Stretch, Time};

/// The name of an algorithm, the options it takes, and the numbers it allows. All else follows from these.
pub struct Facts {
    /// As it is typed.
    pub name: &'static str,
    /// Describes what it allows, and whom it is for, in lines of up to 67 columns.
    pub help: &'static str,
    /// The options that it takes, of those that not every rule takes.
    pub takes: &'static [Extra],
    /// The quota accrues continuously, N per P. Otherwise a window ends, and all of it is available again.
    pub accrues: bool,
    /// A store keeps the instant of each unit of cost, as two numbers do not tell all.
    pub is_logged: bool,
    /// The number of releases of cost 1 that may go at once after idling.
    pub at_once: fn(&Terms) -> u64,
    /// The most within any period; of the calendar, if it goes by that.
    pub most: fn(&Terms) -> u64,
    /// Checks that there is such a limit.
    pub check: fn(&Terms) -> Result<()>,
    /// Its rule for booking slots.
    pub slots: fn(Terms) -> Box<dyn SlotRule>,
    /// Its rule for booking slots in Lua, for a Redis server; see `store/redis/scripts/state.lua`.
    pub script: &'static str,
}

/// An option that not every rule takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    /// `burst=`
    Burst,
    /// `from=exit`
    FromExit,
    /// `tz=`: it goes by the calendar.
    Zone,
}

/// The most that a limit allows of a run that never stops: `first` at once, then `height` after each `length`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stairs {
    /// The number that may go at once.
    pub first: u64,
    /// The number that may go after each length.
    pub height: u64,
    /// In nanoseconds.
    pub length: u64,
    /// It accrues all the time instead: the height is that of the slope after each length.
    pub is_slope: bool,
}

/// Stairs of one that are shorter than this, in nanoseconds, are not drawn, and would not be whole numbers.
const SHORTEST: u64 = 1000;

/// A period of the calendar is shorter than this number of times its nominal length.
const LONGER: u64 = 2;

impl Facts {
    /// True if it takes this option.
    pub fn takes(&self, option: Extra) -> bool {
        self.takes.contains(&option)
    }

    /// The most that a release may cost, if any is never allowed.
    pub fn dearest(&self, terms: &Terms) -> Option<u64> {
        (!self.accrues).then_some(terms.count)
    }

    /// The most that a slot may cost: no more than a burst, as a slot does not know for how long an item has waited.
    pub fn dearest_slot(&self, terms: &Terms) -> u64 {
        if self.accrues && !self.takes(Extra::Burst) { u64::MAX } else { (self.at_once)(terms) }
    }

    /// The longest time, in nanoseconds, for which a release of this cost makes a difference to those after it.
    pub fn matters_for(&self, terms: &Terms, cost: u64) -> u64 {
        let cost = if self.takes(Extra::Burst) { (self.at_once)(terms) } else { cost };
        match self.accrues {
            true => narrow(terms.gap(cost)),
            false if self.takes(Extra::Zone) => terms.period.saturating_mul(LONGER),
            false => terms.period,
        }
    }

    /// The terms that have a margin in them.
    pub fn padded_terms(&self, terms: &Terms, margin: u64) -> Terms {
        match self.takes(Extra::Zone) {
            true => Terms { margin, ..*terms },
            false => Terms { period: terms.period.saturating_add(margin), ..*terms },
        }
    }

    /// The nanoseconds for which a release is held back at least once all is used up: the period, or the gap, or what
    /// it takes to fill a small bucket.
    pub fn prescribed(&self, terms: &Terms) -> u64 {
        let gap = terms.period / terms.count.max(1);
        if self.accrues { gap.saturating_mul((self.at_once)(terms)).min(terms.period) } else { terms.period }
    }

    /// The terms that slots have to keep so that releases, which may be late by `late` nanoseconds, keep `terms`.
    pub fn slot_terms(&self, terms: &Terms, late: u64) -> Terms {
        if self.takes(Extra::Zone) {
            return Terms { burst: 0, ..*terms };
        }
        let [period, late] = [terms.period, late].map(u128::from);
        if !self.accrues {
            return Terms { period: narrow(period + late), burst: 0, ..*terms };
        }
        // As much as accrues while a release may be late is held back. Where there is not as much that may go at once,
        // the first release beyond it has to come later, and so all others.
        let at_once = u128::from((self.at_once)(terms).max(1));
        let accruing = u128::from(terms.count) * late;
        let held_back = accruing.div_ceil(period).min(at_once - 1);
        let lengthened = (period + accruing).div_ceil(held_back + 1).max(period);
        let burst = if self.takes(Extra::Burst) { at_once - held_back } else { 0 };
        Terms { period: narrow(lengthened), burst: narrow(burst), ..*terms }
    }

    /// The stairs of a run that never stops.
    pub fn stairs(&self, terms: &Terms) -> Stairs {
        let one = terms.period / terms.count.max(1);
        let is_slope = self.accrues && one < SHORTEST;
        let (height, length) = if self.accrues && !is_slope { (1, one) } else { (terms.count, terms.period) };
        Stairs { first: (self.at_once)(terms), height, length, is_slope }
    }

    /// The end of the stair that begins at `at`: it is as long as the others, except by the calendar.
    pub fn next_stair(&self, terms: &Terms, at: Time) -> Time {
        let civil = self.civil(terms, at).and_then(|period| terms.wall.when(period.end));
        civil.unwrap_or_else(|| at.saturating_add(self.stairs(terms).length.max(1)))
    }

    /// The nanoseconds for which a period with `at` in it has lasted, this instant included: as long as any, except by
    /// the calendar.
    pub fn lasted(&self, terms: &Terms, at: Time) -> u64 {
        let civil = self.civil(terms, at).map(|period| terms.wall.nanos(at) - period.start + 1);
        civil.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(terms.period)
    }

    /// The number of periods of the calendar from `first` to `last`, if it goes by that.
    pub fn periods(&self, terms: &Terms, first: Time, last: Time) -> Option<i128> {
        if self.takes(Extra::Zone) { terms.periods(first, last) } else { None }
    }

    fn civil(&self, terms: &Terms, at: Time) -> Option<Stretch> {
        if self.takes(Extra::Zone) { terms.civil(at) } else { None }
    }
}

/// As a `u64`; its largest, if that is too small.
pub(super) fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
