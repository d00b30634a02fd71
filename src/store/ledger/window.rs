//! A sliding window: when each of the last N units of cost was used.

use std::ops::Range;

use super::account::{end_of_window, mark};
use super::{Account, Log};
use crate::store::Quota;
use crate::time::Time;

/// Of a larger count, several units share an entry of the log.
const MOST: u64 = 1 << 16;

/// One limit of the algorithm `sliding`.
///
/// Units are noted in groups, each with when the latest of them was used: so an answer may be later than need be, by as
/// much as lies between the first and the last of a group, but never earlier. With a count of up to 65 536 a group is
/// one unit, and answers are exact.
pub(super) struct Window<'a> {
    pub(super) limit: usize,
    pub(super) quota: &'a Quota,
}

impl Window<'_> {
    /// The first instant at or after `since` that allows a release.
    pub(super) fn earliest<L: Log>(
        &self,
        account: &Account,
        since: Time,
        cost: u64,
        log: &mut L,
    ) -> Result<Time, L::Error> {
        // The last unit that is asked for must be a period later than the one that is N before it.
        let unit = account.used + u128::from(cost) - 1;
        let used = match unit.checked_sub(self.quota.count.into()) {
            None => account.at,
            Some(unit) => account.at.max(mark(log.used_at(self.limit, unit)?)),
        };
        Ok(since.max(end_of_window(used, self.quota.period)))
    }

    /// Charges a release. Returns the units to note.
    pub(super) fn charge(&self, account: &mut Account, cost: u64) -> Range<u128> {
        let group = u128::from(self.quota.count.div_ceil(MOST).max(1));
        let first = account.used - account.used % group;
        account.used += u128::from(cost);
        first..account.used
    }
}

/// Units that are not noted yet: those used at one instant are noted as one.
#[derive(Default)]
pub(super) struct Unnoted(Vec<(usize, Range<u128>, Time)>);

impl Unnoted {
    pub(super) fn add(&mut self, limit: usize, units: Range<u128>, at: Time) {
        let last = self.0.iter_mut().rev().find(|(known, ..)| *known == limit);
        match last {
            Some((_, known, then)) if *then == at && units.start <= known.end => known.end = units.end,
            _ => self.0.push((limit, units, at)),
        }
    }

    pub(super) fn note<L: Log>(&mut self, log: &mut L) -> Result<(), L::Error> {
        self.0.drain(..).try_for_each(|(limit, units, at)| log.note(limit, units, at))
    }
}
