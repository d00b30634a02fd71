//! The numbers of one limit, and the rules that need no more than them.

use super::later;
use crate::config::Algorithm;
use crate::store::Quota;
use crate::time::Time;

/// What is known of the past of one limit. What the numbers mean is up to its algorithm.
///
/// | algorithm | `at` | `used` |
/// |---|---|---|
/// | sliding | the mark of when all of it counts as used, if ever | cost of all slots since then |
/// | bucket | when it was last charged | grains that were then lacking from a full bucket |
/// | interval | the first instant that is allowed | |
/// | fixed | when the window started | cost of the slots in it; 0: there was none yet |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// An instant, in nanoseconds.
    pub at: u64,
    /// An amount.
    pub used: u128,
}

/// A mark tells an instant from no instant at all, which is 0.
pub(super) fn mark(at: Time) -> u64 {
    at.0.saturating_add(1)
}

/// The end of the window of length `period` that began at the instant of a mark.
pub(super) fn end_of_window(mark: u64, period: u64) -> Time {
    mark.checked_sub(1).map_or(Time::ZERO, |at| later(Time(at), period))
}

/// When nothing is left of all having been used at `last`.
pub(super) fn end_of_silence(quota: &Quota, last: Time) -> Time {
    match quota.algorithm {
        Algorithm::Bucket => later(last, gap(quota, quota.burst)),
        Algorithm::Sliding | Algorithm::Interval | Algorithm::Fixed => later(last, quota.period),
    }
}

impl Account {
    /// Just used up at `at`, as by [`Limiter::drain`](crate::limiter::Limiter::drain).
    pub(super) fn drained(quota: &Quota, at: Time) -> Account {
        match quota.algorithm {
            Algorithm::Interval => Account { at: later(at, gap(quota, 1)).0, used: 0 },
            _ => Self::silent(quota, at),
        }
    }

    /// Used up at `at`, by releases of any cost.
    pub(super) fn silent(quota: &Quota, at: Time) -> Account {
        match quota.algorithm {
            Algorithm::Sliding => Account { at: mark(at), used: 0 },
            Algorithm::Bucket => Account { at: at.0, used: grains(quota, quota.burst) },
            Algorithm::Interval => Account { at: later(at, quota.period).0, used: 0 },
            Algorithm::Fixed => Account { at: at.0, used: quota.count.into() },
        }
    }

    /// From when on the limit cannot be told from one that was never used, if its newest slot was at `newest`.
    pub(super) fn idle_at(&self, quota: &Quota, newest: Time) -> Time {
        match quota.algorithm {
            Algorithm::Sliding => {
                let last = later(newest, if self.used > 0 { quota.period } else { 0 });
                last.max(end_of_window(self.at, quota.period))
            }
            Algorithm::Bucket => {
                let short = self.used.div_ceil(u128::from(quota.count).max(1));
                later(Time(self.at), u64::try_from(short).unwrap_or(u64::MAX))
            }
            Algorithm::Interval => Time(self.at),
            Algorithm::Fixed => later(Time(self.at), if self.used > 0 { quota.period } else { 0 }),
        }
    }

    /// Once the clock has begun anew at 0: what was used counts as used then. `newest` is when the last of it was, if that
    /// is known.
    pub(super) fn restart(&self, quota: &Quota, newest: Option<Time>) -> Account {
        match quota.algorithm {
            Algorithm::Sliding => Account { at: self.at.min(mark(Time::ZERO)), ..*self },
            Algorithm::Bucket | Algorithm::Fixed => Account { at: 0, ..*self },
            // What the last one cost shows in how much later the next one may be.
            Algorithm::Interval => match newest {
                _ if *self == Account::default() => *self,
                Some(newest) => Account { at: self.at.saturating_sub(newest.0), used: 0 },
                None => Self::silent(quota, Time::ZERO),
            },
        }
    }

    /// The first instant at or after `since` that allows a release, which may be up to `late` nanoseconds late.
    ///
    /// Not for sliding windows.
    pub(super) fn earliest(&self, quota: &Quota, late: u64, since: Time, cost: u64) -> Time {
        match quota.algorithm {
            Algorithm::Interval => since.max(Time(self.at)),
            Algorithm::Bucket => {
                let since = since.max(Time(self.at));
                let short = (self.lacking(quota, since).saturating_add(grains(quota, cost)))
                    .saturating_sub(grains(quota, quota.burst))
                    .div_ceil(u128::from(quota.count).max(1));
                later(since, u64::try_from(short).unwrap_or(u64::MAX))
            }
            Algorithm::Fixed | Algorithm::Sliding => {
                let end = later(Time(self.at), quota.period);
                let is_over = self.used == 0 || since >= end;
                let fits = self.used.saturating_add(cost.into()) <= quota.count.into();
                // What is released as late as it may be must still be in its window.
                let is_in_time = later(since, late) < end;
                if is_over || (fits && is_in_time) { since } else { end }
            }
        }
    }

    /// Charges a release at an instant that was allowed. Not for sliding windows.
    pub(super) fn charge(&mut self, quota: &Quota, at: Time, cost: u64) {
        *self = match quota.algorithm {
            Algorithm::Interval => Account { at: later(at, gap(quota, cost)).0, used: 0 },
            Algorithm::Bucket => {
                Account { at: at.0, used: self.lacking(quota, at).saturating_add(grains(quota, cost)) }
            }
            Algorithm::Fixed | Algorithm::Sliding => {
                let is_over = self.used == 0 || at >= later(Time(self.at), quota.period);
                let window = if is_over { Account { at: at.0, used: 0 } } else { *self };
                Account { used: window.used.saturating_add(cost.into()), ..window }
            }
        };
    }

    /// Grains that are lacking from a full bucket at `now`.
    fn lacking(&self, quota: &Quota, now: Time) -> u128 {
        let accrued = u128::from(quota.count) * u128::from(now.since(Time(self.at)));
        self.used.saturating_sub(accrued)
    }
}

/// A unit of cost is `period` grains, and `count` grains accrue each nanosecond, so no fraction is ever lost.
fn grains(quota: &Quota, cost: u64) -> u128 {
    u128::from(cost) * u128::from(quota.period)
}

/// How long nothing is allowed after a release, rounded up.
fn gap(quota: &Quota, cost: u64) -> u64 {
    let gap = grains(quota, cost).div_ceil(u128::from(quota.count).max(1));
    u64::try_from(gap).unwrap_or(u64::MAX)
}
