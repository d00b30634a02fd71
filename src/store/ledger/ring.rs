//! The ring of a sliding window: when each of the last N units of cost was used.

use super::account::{end_of_window, mark};
use super::{Account, Marks};
use crate::store::{Quota, StoreError};
use crate::time::Time;

/// Of a larger count, several units share a mark.
const MOST: u64 = 1 << 16;

/// Which places belong to a ring, and how.
///
/// Units of cost are numbered in the order of their use. A mark stands for a group of them and tells when the latest of
/// them was used: so an answer may be later than need be, by as much as lies between the first and the last of a group,
/// but never earlier. With a count of up to 65 536 a group is one unit, and answers are exact.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    first: u64,
    group: u64,
    places: u64,
}

impl Ring {
    /// For a limit of `count`, in the places from `first` on.
    pub(super) fn new(first: u64, count: u64) -> Self {
        let group = count.div_ceil(MOST).max(1);
        // Twice what is looked at: as much again can be written before that is forgotten.
        Ring { first, group, places: 2 * (count.div_ceil(group) + 1) }
    }

    pub(super) fn places(&self) -> u64 {
        self.places
    }

    fn group_of(&self, unit: u128) -> u128 {
        unit / u128::from(self.group)
    }

    #[expect(clippy::cast_possible_truncation)]
    fn place(&self, group: u128) -> u64 {
        // What is left over from dividing by a u64 fits in one.
        self.first + (group % u128::from(self.places)) as u64
    }

    /// The first instant at or after `since` that allows a release.
    pub(super) fn earliest(
        &self,
        quota: &Quota,
        account: &Account,
        newest: Time,
        since: Time,
        cost: u64,
        marks: &mut impl Marks,
    ) -> Result<Time, StoreError> {
        // The last unit that is asked for must be a period later than the one that is N before it.
        let unit = account.used + u128::from(cost) - 1;
        let used = match unit.checked_sub(quota.count.into()) {
            None => account.at,
            Some(unit) => {
                let used = marks.get(self.place(self.group_of(unit)))?;
                // Whoever was killed may have marked a group with what he never got.
                let is_known = (1..=mark(newest)).contains(&used);
                account.at.max(if is_known { used } else { mark(newest) })
            }
        };
        Ok(since.max(end_of_window(used, quota.period)))
    }

    /// Whether charging up to `after` units overwrites no mark that is looked at with `before` units charged.
    pub(super) fn spares(&self, quota: &Quota, before: u128, after: u128) -> bool {
        let oldest = self.group_of(before.saturating_sub(quota.count.into()));
        self.group_of(after) - oldest < u128::from(self.places)
    }

    /// Whatever was used counts as used at 0.
    pub(super) fn restart(&self, marks: &mut impl Marks) -> Result<(), StoreError> {
        marks.fill(self.first..self.first + self.places, mark(Time::ZERO))
    }

    /// Charges a release at an instant that was allowed.
    pub(super) fn charge(
        &self,
        account: &mut Account,
        at: Time,
        cost: u64,
        marks: &mut impl Marks,
    ) -> Result<(), StoreError> {
        let after = account.used + u128::from(cost);
        let (first, last) = (self.place(self.group_of(account.used)), self.place(self.group_of(after - 1)));
        account.used = after;
        if first <= last {
            return marks.fill(first..last + 1, mark(at));
        }
        marks.fill(first..self.first + self.places, mark(at))?;
        marks.fill(self.first..last + 1, mark(at))
    }
}
