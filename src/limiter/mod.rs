//! The rules, one a file. A limiter is pure: it never reads a clock, it is told the time.
//!
//! An [`Algorithm`] is arithmetic over its terms and a small state, which is all zeros as long as nothing was released.
//! [`Single`] keeps one such state for all items, [`Keyed`] one for each key, and [`Limits`] is several limits at once.
//!
//! Asking never changes what a limit allows; only a commit charges, and it is told the instant at which the release
//! really happened. All arithmetic is in integers, and a computed instant is rounded up to the next nanosecond, so no
//! answer is ever early.
#![doc = include_str!("earliest.md")]

mod accounts;
mod admitted;
mod booked;
mod bucket;
mod by_claim;
mod fixed;
mod from_exit;
mod interval;
mod keyed;
mod limits;
mod memory;
mod order;
mod single;
mod sliding;
mod slots;

pub(crate) use accounts::Accounts;
pub use booked::Booked;
pub use bucket::{Bucket, Lacking};
pub(crate) use by_claim::ByClaim;
pub use fixed::{Fixed, Window};
pub use from_exit::FromExit;
pub use interval::Interval;
pub use keyed::Keyed;
pub use limits::{Blocked, Charged, Limit, Limits, Refusal, Request};
pub use order::{Answer, Order, Overruns, Slot, Turn};
pub use single::Single;
pub use sliding::Sliding;
pub use slots::{Held, Needed};

use crate::time::Time;

/// What a release asks of one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// When the item became next in line: its arrival, or the release before it in its lane if that was later.
    pub since: Time,
    /// What it is charged. Never 0: an item that costs nothing does not ask.
    pub cost: u64,
}

/// A limiter's answer. The order is by strictness, so the answer of several limits is their `max`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// At this instant and, as long as nothing else is committed, at any later one.
    At(Time),
    /// At no instant, however long the wait.
    Never,
}

impl Verdict {
    /// `nanos` later; never, if that is past the end of the time line.
    pub(crate) fn plus(self, nanos: u128) -> Verdict {
        match self {
            Verdict::At(at) => Verdict::after(at, nanos),
            Verdict::Never => Verdict::Never,
        }
    }

    /// `nanos` after `from`; never, if that is past the end of the time line.
    pub(crate) fn after(from: Time, nanos: impl Into<u128>) -> Verdict {
        from.checked_add(nanos.into()).map_or(Verdict::Never, Verdict::At)
    }

    /// Whether a release at `now` would be allowed.
    pub fn allows(self, now: Time) -> bool {
        self <= Verdict::At(now)
    }
}

/// The numbers of a limit: so much cost per so many nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// N. With 0 nothing is ever released.
    pub count: u64,
    /// P in nanoseconds. Not 0.
    pub period: u64,
    /// B. Only [`Bucket`] looks at it.
    pub burst: u64,
}

/// The arithmetic of one rule.
///
/// The instants given to `commit` must not decrease for a state; that is the caller's duty.
pub trait Algorithm {
    /// What has to be remembered of past releases. The default is that of a limit that was never used.
    type State: Clone + Default;

    /// The first instant, at or after `ask.since`, at which the release is allowed.
    fn earliest(&self, state: &Self::State, ask: Ask) -> Verdict;

    /// How many releases like `ask` are allowed at `now`, after others that cost `pending` and leave at `now` as well.
    ///
    /// The same number as asking and committing one at a time at `now` would give.
    fn available(&self, state: &Self::State, now: Time, ask: Ask, pending: u64) -> u64;

    /// Whether it is known at a glance that a release of this cost is allowed, after others that cost `pending`.
    fn is_plenty(&self, _state: &Self::State, _cost: u64, _pending: u64) -> bool {
        false
    }

    /// When the last of `count` releases like `ask` would happen, each as soon as this rule alone allows it.
    fn last_of(&self, state: &Self::State, ask: Ask, count: u64) -> Verdict;

    /// Charges a release, or several with the sum of their costs, that happened at `now`.
    fn commit(&self, state: &mut Self::State, now: Time, ask: Ask);

    /// A committed release completed at `now`. Only [`FromExit`] uses this.
    fn finish(&self, _state: &mut Self::State, _now: Time, _ask: Ask) {}

    /// Forgets what no question about an instant from `now` on depends on, to answer the next one faster.
    fn expire(&self, _state: &mut Self::State, _now: Time) {}

    /// From then on, unless something is committed, the state equals a fresh one.
    fn idle_at(&self, state: &Self::State) -> Verdict;

    /// Behaves from `at` on as though the limit had just been used up.
    fn exhaust(&self, state: &mut Self::State, at: Time);

    /// The same rule under other terms.
    fn with_terms(&self, terms: Terms) -> Self;

    /// For how many nanoseconds a release is remembered at least; without end, unless it is said.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Has a state of this rule go on under `new` terms from `now`, with what it knows of past releases. What it does not
    /// know, which is of no time after `forgotten`, counts as used.
    fn carry_over(&self, state: &mut Self::State, new: &Self, now: Time, forgotten: Option<Time>);

    /// Makes up for the eviction of `state`, if `forgotten` is not enough for that: has `evicted`, which is the default at
    /// first, be no more lenient under any terms.
    fn note_evicted(&self, _evicted: &mut Self::State, _state: &Self::State) {}

    /// Whether the answer to an ask of this cost depends on its `since` in more than being no earlier.
    fn depends_on_since(&self, _cost: u64) -> bool {
        false
    }
}

/// How a limit stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// All items share it: so many releases of cost 1 are allowed now.
    Common {
        /// How many.
        available: u64,
    },
    /// Each key has one of its own.
    Keyed {
        /// How many keys have a history.
        keys: usize,
    },
}

/// One limit with its history, for all items or for each key.
///
/// The state of a key is its *account*: where it is found once the key has been looked up.
pub trait Limiter {
    /// The answer of [`Algorithm::earliest`] for a key. What all items share takes no notice of the key.
    fn earliest(&self, key: &[u8], ask: Ask) -> Verdict;

    /// The account of a key, which is opened at `now` if there is none. Valid until the next [`Limiter::evict`].
    fn account(&mut self, key: &[u8], now: Time) -> usize;

    /// The answer of [`Algorithm::available`], or `most` if that is less.
    fn available(&mut self, account: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64;

    /// How it stands at `now`.
    fn standing(&self, now: Time) -> Standing;

    /// The answer of [`Algorithm::last_of`] for a key.
    fn last_of(&self, key: &[u8], ask: Ask, count: u64) -> Verdict;

    /// A copy with the same history.
    fn copied(&self) -> Box<dyn Limiter>;

    /// Charges as [`Algorithm::commit`] does.
    fn commit(&mut self, account: usize, now: Time, ask: Ask);

    /// Something that was committed has come to its end at `now`.
    fn finish(&mut self, account: usize, now: Time, ask: Ask);

    /// Behaves from `at` on as though the limit had just been used up, for every key.
    fn exhaust(&mut self, at: Time);

    /// Goes on under other terms from `now`, with what it knows of past releases. What it does not know counts as used.
    fn retune(&mut self, now: Time, terms: Terms);

    /// The answer of [`Algorithm::depends_on_since`].
    fn depends_on_since(&self, cost: u64) -> bool;

    /// When to look for accounts that can be evicted.
    fn evict_at(&self) -> Option<Time> {
        None
    }

    /// Gives back, at `now`, the memory of accounts that were idle by `horizon`. No later ask may be of a time before
    /// that.
    fn evict(&mut self, _now: Time, _horizon: Time) {}
}

impl Clone for Box<dyn Limiter> {
    fn clone(&self) -> Self {
        self.copied()
    }
}

#[cfg(test)]
pub(crate) mod table {
    //! The helper that the tables of all rules run through.

    use super::{Algorithm, Ask, Terms, Verdict};
    use crate::time::Time;

    /// `count` per `period`, with the default burst.
    pub(crate) fn terms(count: u64, period: u64) -> Terms {
        Terms { count, period, burst: count }
    }

    /// An ask of one.
    pub(crate) fn one(since: u64) -> Ask {
        Ask { since: Time(since), cost: 1 }
    }

    /// A rule with its state.
    pub(crate) struct Rule<A: Algorithm> {
        pub(crate) rule: A,
        pub(crate) state: A::State,
    }

    impl<A: Algorithm> Rule<A> {
        pub(crate) fn new(rule: A) -> Self {
            Rule { rule, state: A::State::default() }
        }

        pub(crate) fn earliest(&self, ask: Ask) -> Verdict {
            self.rule.earliest(&self.state, ask)
        }

        pub(crate) fn commit(&mut self, now: u64, ask: Ask) {
            self.rule.commit(&mut self.state, Time(now), ask);
        }

        pub(crate) fn exhaust(&mut self, at: u64) {
            self.rule.exhaust(&mut self.state, Time(at));
        }

        pub(crate) fn idle_at(&self) -> Verdict {
            self.rule.idle_at(&self.state)
        }

        pub(crate) fn retune(&mut self, now: u64, terms: Terms) {
            self.retune_after(None, now, terms);
        }

        /// As [`Rule::retune`], with nothing known of the time until `forgotten`.
        pub(crate) fn retune_after(&mut self, forgotten: Option<u64>, now: u64, terms: Terms) {
            let new = self.rule.with_terms(terms);
            self.rule.carry_over(&mut self.state, &new, Time(now), forgotten.map(Time));
            self.rule = new;
        }

        pub(crate) fn available(&self, now: Time, ask: Ask, pending: u64) -> u64 {
            self.rule.available(&self.state, now, ask, pending)
        }

        /// Feeds `(arrival, cost)` in order and returns the instant of each release, `None` for never.
        pub(crate) fn releases(&mut self, items: &[(u64, u64)]) -> Vec<Option<u64>> {
            let mut previous = Time::ZERO;
            let mut release = |&(arrival, cost): &(u64, u64)| {
                let ask = Ask { since: previous.max(Time(arrival)), cost };
                let Verdict::At(at) = self.earliest(ask) else { return None };
                assert!(at >= ask.since, "an answer before the question");
                self.check_available(at, ask);
                self.commit(at.0, ask);
                previous = at;
                Some(at.0)
            };
            items.iter().map(&mut release).collect()
        }

        /// When the last of `count` releases goes, as it is found by releasing them one by one; which is what the rule says.
        pub(crate) fn last_of(&mut self, since: u64, cost: u64, count: u64) -> Option<u64> {
            let ask = Ask { since: Time(since), cost };
            let forecast = match self.rule.last_of(&self.state, ask, count) {
                Verdict::At(at) => Some(at.0),
                Verdict::Never => None,
            };
            let before = self.state.clone();
            let items = vec![(since, cost); usize::try_from(count).expect("few")];
            let found = self.releases(&items).last().copied().unwrap_or(Some(since));
            self.state = before;
            assert_eq!(forecast, found, "{count} of cost {cost} from {since}");
            forecast
        }

        /// What is available agrees with the promised instant, and with asking and committing one at a time.
        fn check_available(&mut self, at: Time, ask: Ask) {
            let available = self.available(at, ask, 0);
            assert!(available >= 1, "nothing is available at the promised instant");
            if at > ask.since {
                assert_eq!(
                    self.available(Time(at.0 - 1), ask, 0),
                    0,
                    "available before the promised instant"
                );
            }
            assert_eq!(
                self.available(at, ask, ask.cost),
                available.saturating_sub(1),
                "after one is pending"
            );
            let before = self.state.clone();
            self.commit(at.0, ask);
            let next = Ask { since: at, ..ask };
            let after = self.available(at, next, 0);
            assert_eq!(after, available.saturating_sub(1), "after one is committed");
            assert_eq!(self.earliest(next).allows(at), after > 0);
            self.state = before;
        }

        /// As [`Rule::releases`], for items of cost 1 that all can be released.
        pub(crate) fn instants(&mut self, arrivals: &[u64]) -> Vec<u64> {
            let items: Vec<_> = arrivals.iter().map(|&at| (at, 1)).collect();
            self.releases(&items).into_iter().map(|at| at.expect("an instant")).collect()
        }
    }
}
