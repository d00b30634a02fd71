//! The spec of an algorithm for the rest of the program, and what follows from them.

use anyhow::Result;

use super::Terms;
use crate::time::{Civil, SECOND, Time, Zone};

/// The name of an algorithm, the options it takes, and the numbers it allows. The methods derive the rest.
pub struct Spec {
    /// The name, as it is typed.
    pub name: &'static str,
    /// The help: what it allows and whom it is for, in lines of up to 67 columns.
    pub help: &'static str,
    /// The options that it takes, among those that not every rule takes.
    pub takes: &'static [Extra],
    /// The quota accrues continuously, N per P. Otherwise all of it is available again when a window ends.
    pub accrues: bool,
    /// The number of releases of cost 1 that may go at once when the limit is idle.
    pub burst: fn(&Terms) -> u64,
    /// The most that is allowed in any window of length P; in any civil period, for the calendar.
    pub max_per_window: fn(&Terms) -> u64,
    /// Checks that the terms are possible.
    pub check: fn(&Terms) -> Result<()>,
}

/// An option that not every rule takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    /// `burst=`
    Burst,
    /// `from=exit`
    FromExit,
    /// `tz=`: the rule goes by the calendar.
    Zone,
}

/// The most that a limit allows a run that never runs out of items: `first` at once, then `height` after each `length`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stairs {
    /// The number that may go at once.
    pub first: u64,
    /// The number that may go after each length.
    pub height: u64,
    /// In nanoseconds.
    pub length: u64,
    /// A slope instead of stairs: it rises by `height` in each `length`.
    pub is_slope: bool,
}

/// The margin of a window for commands: the period divided by this, and the most, in nanoseconds.
const MARGIN_PART: u64 = 50;
const MAX_MARGIN: u64 = SECOND / 20;

/// Steps of one release that are shorter than this, in nanoseconds, become a slope: they are too short to draw, and
/// their length would be rounded too much.
const SHORTEST: u64 = 1000;

/// The most instants that the log of a shared limit keeps apart: a few kilobytes for any count, and 0.1 % of the rate
/// is lost at most.
const INSTANTS: u64 = 1024;

/// A civil period is always shorter than its nominal length times this.
const LONGER: u64 = 2;

impl Spec {
    /// True if it takes this option.
    pub fn takes(&self, option: Extra) -> bool {
        self.takes.contains(&option)
    }

    /// True if its windows are civil periods, such as days and months.
    pub fn is_civil(&self) -> bool {
        self.takes(Extra::Zone)
    }

    /// True if what accrues is kept, up to a burst.
    pub fn has_burst(&self) -> bool {
        self.takes(Extra::Burst)
    }

    /// True if it keeps a gap after each release, so that only the last one matters.
    pub fn keeps_gaps(&self) -> bool {
        self.accrues && !self.has_burst()
    }

    /// The most that a release may cost; `None` if any cost is allowed in the end.
    pub fn max_cost(&self, terms: &Terms) -> Option<u64> {
        (!self.accrues).then_some(terms.count)
    }

    /// The most that a slot may cost. For a bucket that is the burst, as a slot does not know how long an item has
    /// waited.
    pub fn max_slot_cost(&self, terms: &Terms) -> u64 {
        if self.keeps_gaps() { u64::MAX } else { (self.burst)(terms) }
    }

    /// The longest time, in nanoseconds, for which a release of this cost can affect later ones.
    pub fn matters_for(&self, terms: &Terms, cost: u64) -> u64 {
        let cost = if self.has_burst() { (self.burst)(terms) } else { cost };
        match self.accrues {
            true => narrow(terms.gap(cost)),
            false if self.is_civil() => terms.period.saturating_mul(LONGER),
            false => terms.period,
        }
    }

    /// The margin, in nanoseconds, of a limit on commands without `margin=`: of two requests that start a period apart,
    /// the second may take less time to arrive. None for what accrues: all gaps of a period would share it.
    pub fn margin_for_commands(&self, period: u64) -> u64 {
        if self.accrues { 0 } else { (period / MARGIN_PART).min(MAX_MARGIN).min(u64::MAX - period) }
    }

    /// The terms with a margin added.
    pub fn padded_terms(&self, terms: &Terms, margin: u64) -> Terms {
        match self.is_civil() {
            true => Terms { margin, ..*terms },
            false => Terms { period: terms.period.saturating_add(margin), ..*terms },
        }
    }

    /// The shortest time, in nanoseconds, for which a release is held back once the limit is used up: the period, the
    /// gap, or the time to fill a small bucket.
    pub fn prescribed(&self, terms: &Terms) -> u64 {
        let gap = terms.period / terms.count.max(1);
        if self.accrues { gap.saturating_mul((self.burst)(terms)).min(terms.period) } else { terms.period }
    }

    /// The terms that slots must keep so that releases up to `late` nanoseconds after their slots keep `terms`.
    pub fn slot_terms(&self, terms: &Terms, late: u64) -> Terms {
        let terms = &Terms { instants: INSTANTS, ..*terms };
        if self.is_civil() {
            return Terms { burst: 0, ..*terms };
        }
        let [period, late] = [terms.period, late].map(u128::from);
        if !self.accrues {
            return Terms { period: narrow(period + late), burst: 0, ..*terms };
        }
        // What accrues while a release may be late is held back from what may go at once. Where that is too little, the
        // first release beyond it must come later, and so must all others: the period is lengthened.
        let at_once = u128::from((self.burst)(terms).max(1));
        let accruing = u128::from(terms.count) * late;
        let held_back = accruing.div_ceil(period).min(at_once - 1);
        let lengthened = (period + accruing).div_ceil(held_back + 1).max(period);
        let burst = if self.has_burst() { at_once - held_back } else { 0 };
        Terms { period: narrow(lengthened), burst: narrow(burst), ..*terms }
    }

    /// The stairs of a run that never runs out of items.
    pub fn stairs(&self, terms: &Terms) -> Stairs {
        let one = terms.period / terms.count.max(1);
        let is_slope = self.accrues && one < SHORTEST;
        let (height, length) = if self.accrues && !is_slope { (1, one) } else { (terms.count, terms.period) };
        Stairs { first: (self.burst)(terms), height, length, is_slope }
    }

    /// The end of the step that begins at `at`. All steps have the same length, except for the calendar.
    pub fn next_stair(&self, terms: &Terms, at: Time) -> Time {
        let end = |(civil, zone): (Civil, Zone)| civil.around(zone, terms.wall.nanos(at)).end;
        let end = self.civil(terms).and_then(|civil| terms.wall.when(end(civil)));
        end.unwrap_or_else(|| at.saturating_add(self.stairs(terms).length.max(1)))
    }

    /// The nanoseconds from the start of the civil period around `at` to `at` inclusive; without the calendar, the
    /// period.
    pub fn lasted(&self, terms: &Terms, at: Time) -> u64 {
        let shown = terms.wall.nanos(at);
        let lasted = self.civil(terms).map(|(civil, zone)| shown - civil.around(zone, shown).start + 1);
        lasted.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(terms.period)
    }

    /// The nanoseconds before `at` of which a rule surely knows the releases of this cost.
    pub fn remembers_for(&self, terms: &Terms, cost: u64, at: Time) -> u64 {
        match self.accrues {
            // Even of a bucket, as one that was full before is full again.
            true if cost == 1 => narrow(terms.gap(cost)),
            true => self.matters_for(terms, cost),
            false => self.lasted(terms, at),
        }
    }

    /// True if all that a window had is forgotten at its end, however late in it that was: then more than the count may
    /// be within a period.
    pub fn forgets_at_once(&self, terms: &Terms) -> bool {
        !self.accrues && (self.max_per_window)(terms) > terms.count
    }

    /// The number of civil periods from `first` to `last`, if the rule goes by the calendar.
    pub fn periods(&self, terms: &Terms, first: Time, last: Time) -> Option<i128> {
        let (civil, zone) = self.civil(terms)?;
        Some(civil.number(zone, terms.wall.nanos(first), terms.wall.nanos(last)))
    }

    /// What P stands for, and the zone, if the rule goes by the calendar.
    pub(crate) fn civil(&self, terms: &Terms) -> Option<(Civil, Zone)> {
        let civil = Civil::new(terms.period).filter(|_| self.is_civil())?;
        Some((civil, terms.zone.unwrap_or_else(Zone::utc)))
    }
}

/// The number as a `u64`, saturating.
pub(super) fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
