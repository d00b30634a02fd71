//! The rules, one a file: all that is known of an algorithm. To add one, add its file and script, and name it below.
//!
//! A [`Rule`] is arithmetic over its terms and a small state, which is all zeros as long as nothing was released.
//!
//! Asking never changes what a rule allows; only a commit charges, and it is told the instant at which the release
//! really happened. All arithmetic is in integers, and a computed instant is rounded up to the next nanosecond, so no
//! answer is ever early.
#![doc = include_str!("earliest.md")]

mod bucket;
mod calendar;
mod facts;
mod fixed;
mod from_exit;
mod in_hours;
mod interval;
mod sliding;
mod slots;
mod terms;
#[cfg(test)]
pub(crate) mod tests;

pub use bucket::Bucket;
pub use calendar::Calendar;
pub use facts::{Extra, Facts, Stairs};
pub use fixed::Fixed;
pub use from_exit::FromExit;
pub use in_hours::{InHours, SlotsInHours};
pub use interval::Interval;
pub use sliding::Sliding;
pub use slots::{SlotAccount, SlotRule};
pub use terms::{Ask, Terms, Verdict};

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

use crate::time::Time;

/// The rule by which a limit decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// At most N in any window of length P.
    #[default]
    Sliding,
    /// Bursts up to B, then N per P on average.
    Bucket,
    /// At least P/N between two releases.
    Interval,
    /// At most N in each of a row of windows.
    Fixed,
    /// At most N in each day, week, month or year.
    Calendar,
}

/// Does something with the rule of an algorithm, as its type.
pub trait Visitor {
    /// The result.
    type Output;

    /// Visits the algorithm whose rule is `R`.
    fn visit<R: NamedRule>(self) -> Self::Output;
}

impl Algorithm {
    /// In the order in which they are told.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Sliding, Algorithm::Bucket, Algorithm::Interval, Algorithm::Fixed, Algorithm::Calendar];

    /// The one match over the algorithms.
    pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
        match self {
            Algorithm::Sliding => visitor.visit::<Sliding>(),
            Algorithm::Bucket => visitor.visit::<Bucket>(),
            Algorithm::Interval => visitor.visit::<Interval>(),
            Algorithm::Fixed => visitor.visit::<Fixed>(),
            Algorithm::Calendar => visitor.visit::<Calendar>(),
        }
    }

    /// Its [`NamedRule::FACTS`].
    pub fn facts(self) -> &'static Facts {
        struct TheFacts;
        impl Visitor for TheFacts {
            type Output = &'static Facts;

            fn visit<R: NamedRule>(self) -> &'static Facts {
                &R::FACTS
            }
        }
        self.visit(TheFacts)
    }

    /// The names, as they are typed.
    pub fn names() -> [&'static str; Self::ALL.len()] {
        Self::ALL.map(|algorithm| algorithm.facts().name)
    }

    /// The names of those that take an option, joined by `separator`.
    pub fn taking(option: Extra, separator: &str) -> String {
        let facts = Self::ALL.map(Algorithm::facts).into_iter().filter(|facts| facts.takes(option));
        facts.map(|facts| facts.name).collect::<Vec<_>>().join(separator)
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.facts().name == text);
        known.with_context(|| format!("there are {}", Self::names().join(", ")))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

/// The arithmetic of an algorithm under some terms.
///
/// The instants given to `commit` must not decrease for a state; that is the caller's duty.
pub trait Rule: Clone + 'static {
    /// The memory of past releases. The default is that of a limit that was never used.
    type State: Clone + Default;

    /// The rule under some terms.
    fn new(terms: Terms) -> Self;

    /// The first instant, at or after `ask.since`, at which the release is allowed.
    fn earliest(&self, state: &Self::State, ask: Ask) -> Verdict;

    /// The number of releases like `ask` that are allowed at `now`, after others that cost `pending` and leave at `now`
    /// as well.
    ///
    /// The same number as asking and committing one at a time at `now` would give.
    fn available(&self, state: &Self::State, now: Time, ask: Ask, pending: u64) -> u64;

    /// True if it is known at a glance, without an instant, that a release of this cost is allowed after others that
    /// cost `pending`.
    fn is_plenty(&self, _state: &Self::State, _cost: u64, _pending: u64) -> bool {
        false
    }

    /// The instant of the last of `count` releases like `ask`, each as soon as this rule alone allows it.
    fn last_of(&self, state: &Self::State, ask: Ask, count: u64) -> Verdict;

    /// Charges a release, or several with the sum of their costs, that happened at `now`.
    fn commit(&self, state: &mut Self::State, now: Time, ask: Ask);

    /// Forgives a charge beyond what was available. Only a bucket owes anything.
    fn waive_debt(&self, _state: &mut Self::State) {}

    /// A committed release completed at `now`. Only [`FromExit`] uses this.
    fn finish(&self, _state: &mut Self::State, _now: Time, _ask: Ask) {}

    /// Forgets what no question about an instant from `now` on depends on, to answer the next one faster.
    fn expire(&self, _state: &mut Self::State, _now: Time) {}

    /// From then on, unless something is committed, the state equals a fresh one.
    fn idle_at(&self, state: &Self::State) -> Verdict;

    /// Behaves from `at` on as though the limit had just been used up.
    fn exhaust(&self, state: &mut Self::State, at: Time);

    /// The nanoseconds for which a release is remembered at least; `None` without end.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Has a state of this rule go on under `new` terms from `now`, with the releases that it remembers. Whatever else
    /// may have been released up to `forgotten` counts as used.
    fn carry_over(&self, state: &mut Self::State, new: &Self, now: Time, forgotten: Option<Time>);

    /// Makes up for the eviction of `state`, if `forgotten` is not enough for that: has `evicted`, which is the default
    /// at first, be no more lenient under any terms.
    fn note_evicted(&self, _evicted: &mut Self::State, _state: &Self::State) {}

    /// `state` may be that of a key that was evicted before: whatever those had that were is forgotten of it, too.
    fn recall(&self, _state: &mut Self::State, _evicted: &Self::State) {}

    /// The end of an answer that allows a release at `at`, as long as nothing is committed: from then on it may be
    /// refused again, so it is asked again. `None` if the answer stands for ever, as those of a rule that accrues do.
    fn closes(&self, _at: Time) -> Option<Time> {
        None
    }
}

/// A rule that has a name, and so can be typed.
pub trait NamedRule: Rule {
    /// Its name, options and numbers.
    const FACTS: Facts;
}
