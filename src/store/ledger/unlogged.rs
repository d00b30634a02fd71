//! Units of cost that a booking has used, but that are not logged yet.

use std::ops::Range;

use anyhow::Result;

use super::{Debit, UnitLog};
use crate::time::Time;

/// With a larger count, several units share an entry of the log.
const MOST: u64 = 1 << 16;

/// Units that are not logged yet; those used at one instant become one record.
///
/// Units are logged in groups, each with the instant at which its latest unit was used. So an answer may be later than
/// need be, by the time between the first and the last use in a group, but never earlier. With a count of up to 65 536
/// a group is one unit, and answers are exact.
#[derive(Default)]
pub(super) struct Unlogged(Vec<(usize, Range<u128>, Time)>);

impl Unlogged {
    /// Adds the units of a charge, if they are logged.
    pub(super) fn add(&mut self, debit: &Debit, mut units: Range<u128>, at: Time) {
        if !debit.quota.algorithm.facts().is_logged {
            return;
        }
        units.start -= units.start % u128::from(debit.quota.terms.count.div_ceil(MOST).max(1));
        let last = self.0.iter_mut().rev().find(|(known, ..)| *known == debit.limit);
        match last {
            Some((_, known, then)) if *then == at && units.start <= known.end => known.end = units.end,
            _ => self.0.push((debit.limit, units, at)),
        }
    }

    pub(super) fn record(&mut self, log: &mut dyn UnitLog) -> Result<()> {
        self.0.drain(..).try_for_each(|(limit, units, at)| log.record(limit, units, at))
    }
}
