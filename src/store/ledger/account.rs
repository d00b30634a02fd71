//! The numbers of one limit, and the rules that need no more than them.

use serde::{Deserialize, Serialize};

use super::later;
use crate::config::Algorithm;
use crate::limiter::{Algorithm as _, Ask, Bucket, Fixed, Interval, Lacking, Terms, Verdict, Window};
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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

/// From when on no slot is too close to a release of this cost that was over at `over`.
pub(super) fn overrun_until(quota: &Quota, over: Time, cost: u64) -> Time {
    match quota.algorithm {
        Algorithm::Interval => later(over, gap(quota, cost)),
        _ => end_of_silence(quota, over),
    }
}

impl Account {
    /// Just used up at `at`, as by [`Limiter::exhaust`](crate::limiter::Limiter::exhaust).
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
            Algorithm::Bucket => {
                Account { at: at.0, used: u128::from(quota.burst) * u128::from(quota.period) }
            }
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
        let ask = Ask { since, cost };
        match quota.algorithm {
            Algorithm::Interval => since.max(Time(self.at)),
            Algorithm::Bucket => instant(Bucket::new(terms(quota)).earliest(&self.lacking(), ask)),
            Algorithm::Fixed | Algorithm::Sliding => {
                let end = later(Time(self.at), quota.period);
                // What is released as late as it may be must still be in its window.
                let is_too_late = self.used > 0 && since < end && later(since, late) >= end;
                let answer = instant(Fixed::new(terms(quota)).earliest(&self.window(), ask));
                if is_too_late { end } else { answer }
            }
        }
    }

    /// Charges a release at an instant that was allowed. Not for sliding windows.
    pub(super) fn charge(&mut self, quota: &Quota, at: Time, cost: u64) {
        let ask = Ask { since: at, cost };
        *self = match quota.algorithm {
            Algorithm::Interval => Account { at: later(at, gap(quota, cost)).0, used: 0 },
            Algorithm::Bucket => {
                let mut lacking = self.lacking();
                Bucket::new(terms(quota)).commit(&mut lacking, at, ask);
                Account { at: lacking.at.0, used: lacking.grains }
            }
            Algorithm::Fixed | Algorithm::Sliding => {
                let mut window = self.window();
                Fixed::new(terms(quota)).commit(&mut window, at, ask);
                Account { at: window.start.0, used: window.used.into() }
            }
        };
    }

    /// Charges what was released before, and was over only at an instant, which is not before the newest slot. Not for
    /// sliding windows.
    pub(super) fn overrun(&mut self, quota: &Quota, at: Time, cost: u64) {
        match quota.algorithm {
            Algorithm::Interval => self.at = self.at.max(later(at, gap(quota, cost)).0),
            _ => self.charge(quota, at, cost),
        }
    }

    fn lacking(&self) -> Lacking {
        Lacking { grains: self.used, at: Time(self.at) }
    }

    fn window(&self) -> Window {
        Window { start: Time(self.at), used: u64::try_from(self.used).unwrap_or(u64::MAX) }
    }
}

fn terms(quota: &Quota) -> Terms {
    Terms { count: quota.count, period: quota.period, burst: quota.burst }
}

/// Never is the end of time.
fn instant(verdict: Verdict) -> Time {
    if let Verdict::At(at) = verdict { at } else { Time(u64::MAX) }
}

/// How long nothing is allowed after a release, rounded up.
pub(super) fn gap(quota: &Quota, cost: u64) -> u64 {
    u64::try_from(Interval::new(terms(quota)).gap(cost)).unwrap_or(u64::MAX)
}
