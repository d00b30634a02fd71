//! The rules, one a file. A limiter is pure: it never reads a clock, it is told the time.
//!
//! Asking ([`Limiter::earliest`], [`Limiter::room`]) never changes state; only [`Limiter::commit`] charges,
//! and it is told the instant at which the release really happened. All arithmetic is in integers, and a
//! computed instant is rounded up to the next nanosecond, so that no answer is ever early.
#![doc = include_str!("earliest.md")]

mod all;
mod booked;
mod bucket;
mod fixed;
mod from_exit;
mod interval;
mod keyed;
mod sliding;

pub use all::{All, Claim, Limit};
pub use booked::{Booked, Slot};
pub use bucket::Bucket;
pub use fixed::Fixed;
pub use from_exit::FromExit;
pub use interval::Interval;
pub use keyed::Keyed;
pub use sliding::Sliding;

use crate::time::Time;

/// What a release asks of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask<'a> {
    /// When the item became next in line: its arrival, or the release before it in its lane if that was later.
    pub since: Time,
    /// What it is charged. Never 0: an item that costs nothing does not ask.
    pub cost: u64,
    /// Whom it is charged to. Only [`Keyed`] looks at it.
    pub key: &'a [u8],
}

/// A limiter's answer. The order is by strictness, so the answer of several limits is their `max`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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

/// What a rule is told of a limit: so much cost per so many nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// N. With 0 nothing is ever released.
    pub count: u64,
    /// P in nanoseconds. Not 0.
    pub period: u64,
    /// B. Only [`Bucket`] looks at it.
    pub burst: u64,
}

/// One rule with its history.
///
/// The instants given to `commit` must not decrease; that is the caller's duty.
pub trait Limiter {
    /// The first instant, at or after `ask.since`, at which the release is allowed.
    fn earliest(&self, ask: &Ask) -> Verdict;

    /// How many releases like `ask` are allowed at `now` in one go, each charged as by [`Limiter::commit`].
    ///
    /// The same number as asking and committing one at a time at `now` would give.
    fn room(&self, now: Time, ask: &Ask) -> u64;

    /// Charges a release, or several with the sum of their costs, that happened at `now`.
    fn commit(&mut self, now: Time, ask: &Ask);

    /// Something that was committed has come to its end at `now`. Only [`FromExit`] minds.
    fn finish(&mut self, _now: Time, _ask: &Ask) {}

    /// From then on, unless something is committed, it cannot be told from one without history.
    fn settled(&self) -> Verdict;

    /// Behaves from `at` on as though the limit had just been used up.
    fn drain(&mut self, at: Time);

    /// Goes on under other terms from `now`, with what it knows of past releases.
    fn retune(&mut self, now: Time, terms: Terms);

    /// Whether the answer to an ask of this cost depends on its `since` in more than being no earlier.
    fn minds_since(&self, _cost: u64) -> bool {
        false
    }

    /// When it would like to be tidied, to give memory back.
    fn tidy_at(&self) -> Option<Time> {
        None
    }

    /// Gives back, at `now`, the memory of what had settled by `horizon`. No later ask may be of a time before that.
    fn tidy(&mut self, _now: Time, _horizon: Time) {}
}

#[cfg(test)]
pub(crate) mod table {
    //! The helper that the tables of all rules run through.

    use super::{Ask, Limiter, Terms, Verdict};
    use crate::time::Time;

    /// `count` per `period`, with the default burst.
    pub(crate) fn terms(count: u64, period: u64) -> Terms {
        Terms { count, period, burst: count }
    }

    /// An ask of one.
    pub(crate) fn one(since: u64) -> Ask<'static> {
        Ask { since: Time(since), cost: 1, key: b"" }
    }

    /// Feeds `(arrival, cost)` in order and returns the instant of each release, `None` for never.
    pub(crate) fn releases(limiter: &mut dyn Limiter, items: &[(u64, u64)]) -> Vec<Option<u64>> {
        let mut previous = Time::ZERO;
        let release = |&(arrival, cost): &(u64, u64)| {
            let ask = Ask { since: previous.max(Time(arrival)), cost, key: b"" };
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
