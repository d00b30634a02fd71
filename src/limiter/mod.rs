//! The rules, one a file. A limiter is pure: it never reads a clock, it is told the time.
//!
//! Asking ([`Limiter::earliest`], [`Limiter::room`]) never changes state; only [`Limiter::commit`] charges,
//! and it is told the instant at which the release really happened. All arithmetic is in integers, and a
//! computed instant is rounded up to the next nanosecond, so that no answer is ever early.

mod all;
mod bucket;
mod fixed;
mod interval;
mod sliding;

pub use all::All;
pub use bucket::Bucket;
pub use fixed::Fixed;
pub use interval::Interval;
pub use sliding::Sliding;

use crate::time::Time;

/// What a release asks of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// When the item became next in line: its arrival, or the release before it in its lane if that was later.
    pub since: Time,
    /// What it is charged. Never 0: an item that costs nothing does not ask.
    pub cost: u64,
}

/// A limiter's answer. The order is by strictness, so the answer of several limits is their `max`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// At this instant and, as long as nothing else is committed, at any later one.
    At(Time),
    /// At no instant, whatever is waited for.
    Never,
}

impl Verdict {
    /// `nanos` after `from`; never, if that is past the end of the time line.
    pub(crate) fn after(from: Time, nanos: impl Into<u128>) -> Verdict {
        from.checked_add(nanos.into()).map_or(Verdict::Never, Verdict::At)
    }

    /// Whether a release at `now` would be allowed.
    pub fn allows(self, now: Time) -> bool {
        self <= Verdict::At(now)
    }
}

/// One rule with its history.
///
/// Instants given to `commit` must not decrease; that is the caller's duty.
pub trait Limiter {
    /// The first instant, at or after `ask.since`, at which the release is allowed.
    fn earliest(&self, ask: &Ask) -> Verdict;

    /// How many releases like `ask` are allowed at `now` in one go, each charged as by [`Limiter::commit`].
    ///
    /// The same number as asking and committing one at a time at `now` would give.
    fn room(&self, now: Time, ask: &Ask) -> u64;

    /// Charges a release, or several with the sum of their costs, that happened at `now`.
    fn commit(&mut self, now: Time, ask: &Ask);

    /// Behaves from `at` on as though the limit had just been used up.
    fn drain(&mut self, at: Time);
}

#[cfg(test)]
pub(crate) mod table {
    //! The helper that the tables of all rules run through.

    use super::{Ask, Limiter, Verdict};
    use crate::time::Time;

    /// Feeds `(arrival, cost)` in order and returns the instant of each release, `None` for never.
    pub(crate) fn releases(limiter: &mut dyn Limiter, items: &[(u64, u64)]) -> Vec<Option<u64>> {
        let mut previous = Time::ZERO;
        let release = |&(arrival, cost): &(u64, u64)| {
            let ask = Ask { since: previous.max(Time(arrival)), cost };
            let Verdict::At(at) = limiter.earliest(&ask) else { return None };
            assert!(at >= ask.since, "an answer before the question");
            assert!(limiter.room(at, &ask) >= 1, "no room at the promised instant");
            if at > ask.since {
                assert_eq!(limiter.room(Time(at.0 - 1), &ask), 0, "room before the promised instant");
            }
            limiter.commit(at, &ask);
            previous = at;
            Some(at.0)
        };
        items.iter().map(release).collect()
    }

    /// As [`releases`], for items of cost 1 that all can be released.
    pub(crate) fn instants(limiter: &mut dyn Limiter, arrivals: &[u64]) -> Vec<u64> {
        let items: Vec<_> = arrivals.iter().map(|&at| (at, 1)).collect();
        releases(limiter, &items).into_iter().map(|at| at.expect("an instant")).collect()
    }
}
