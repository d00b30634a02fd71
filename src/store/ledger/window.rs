//! A sliding window: when each of the last N units of cost was used.

use super::account::{end_of_window, mark};
use super::{Account, Log};
use crate::store::{Quota, StoreError};
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
    pub(super) fn earliest(
        &self,
        account: &Account,
        since: Time,
        cost: u64,
        log: &mut impl Log,
    ) -> Result<Time, StoreError> {
        // The last unit that is asked for must be a period later than the one that is N before it.
        let unit = account.used + u128::from(cost) - 1;
        let used = match unit.checked_sub(self.quota.count.into()) {
            None => account.at,
            Some(unit) => account.at.max(mark(log.used_at(self.limit, unit)?)),
        };
        Ok(since.max(end_of_window(used, self.quota.period)))
    }

    /// Charges a release at an instant that was allowed.
    pub(super) fn charge(
        &self,
        account: &mut Account,
        at: Time,
        cost: u64,
        log: &mut impl Log,
    ) -> Result<(), StoreError> {
        let group = u128::from(self.quota.count.div_ceil(MOST).max(1));
        let first = account.used - account.used % group;
        account.used += u128::from(cost);
        log.note(self.limit, first..account.used, at)
    }
}
