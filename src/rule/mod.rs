//! The algorithms, each with everything about it in one file. To add one, add its file, and name it below.
//!
//! A [`Rule`] is arithmetic on its terms and a small state, which is all zeros until something is released.
//!
//! Asking never changes what a rule allows. Only a commit charges, with the instant at which the release really
//! happened. All arithmetic is in integers, and a computed instant is rounded up to the next nanosecond, so no answer
//! is ever early.
#![doc = include_str!("earliest.md")]

mod any;
mod bucket;
mod calendar;
mod cubic;
mod fixed;
mod in_hours;
mod interval;
mod packed;
mod release_log;
mod sliding;
mod spec;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
mod window;

pub use any::{Algorithm, AnyRule, AnyState};
pub use bucket::Bucket;
pub use calendar::Calendar;
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use in_hours::{InHours, RuleInHours};
pub use interval::Interval;
pub(crate) use packed::{pack, pack_instants, unpack, unpack_instants};
pub use sliding::Sliding;
pub use spec::{Extra, Spec, Stairs};
pub use terms::{Ask, Terms, Usage};
pub(crate) use window::Window;

use std::fmt::{self, Debug};
use std::str::FromStr;

use anyhow::{Context, Error, Result};

use crate::time::Time;

impl Algorithm {
    /// The names, as they are typed.
    pub fn names() -> [&'static str; Self::ALL.len()] {
        Self::ALL.map(|algorithm| algorithm.spec().name)
    }

    /// The names of the algorithms that take an option, joined by `separator`.
    pub fn taking(option: Extra, separator: &str) -> String {
        let spec = Self::ALL.map(Algorithm::spec).into_iter().filter(|spec| spec.takes(option));
        spec.map(|spec| spec.name).collect::<Vec<_>>().join(separator)
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.spec().name == text);
        known.with_context(|| format!("use {}", Self::names().join(", ")))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().name)
    }
}

/// The arithmetic of an algorithm under given terms.
///
/// For each state, the caller must pass `commit` instants that do not decrease.
pub trait Rule: Clone + Debug + Send + Sync + 'static {
    /// Its name, options and numbers.
    const SPEC: Spec;

    /// The memory of past releases. The default is the state of an unused limit.
    type State: Clone + Default + PartialEq + Debug + Send + Sync;

    /// The rule under these terms.
    fn new(terms: Terms) -> Self;

    /// The first instant, at or after `ask.since`, at which the release is allowed.
    fn earliest(&self, state: &Self::State, ask: Ask) -> Time;

    /// The first instant, at or after `ask.since`, at which the release is allowed while others that cost `running`
    /// have not ended, if none of them ends before; never if it has to wait for an end. They count as made at any
    /// later instant.
    fn earliest_during(&self, state: &Self::State, ask: Ask, running: u64) -> Time {
        let sum = ask.cost.checked_add(running);
        sum.map_or(Time::NEVER, |cost| self.earliest(state, Ask { cost, ..ask }))
    }

    /// The number of releases like `ask` that are allowed at `now`, after releases that cost `pending` and also leave
    /// at `now`.
    ///
    /// Asking and committing one at a time at `now` would give the same number.
    fn available(&self, state: &Self::State, now: Time, ask: Ask, pending: u64) -> u64;

    /// A quick check, independent of the instant: true only if a release of this cost is allowed after others that cost
    /// `pending`.
    fn is_plenty(&self, _state: &Self::State, _cost: u64, _pending: u64) -> bool {
        false
    }

    /// The instant of the last of `count` releases like `ask`, if each goes as soon as this rule alone allows it.
    fn last_of(&self, state: &Self::State, ask: Ask, count: u64) -> Time;

    /// Charges a release, or several with the sum of their costs, that happened at `now`.
    fn commit(&self, state: &mut Self::State, now: Time, ask: Ask);

    /// Charges a release again that was over only at `at`. Nothing was charged after `at`.
    fn overrun(&self, state: &mut Self::State, at: Time, ask: Ask) {
        self.commit(state, at, ask);
    }

    /// Waives what was charged beyond what was available. Only a bucket can owe anything.
    fn waive_debt(&self, _state: &mut Self::State) {}

    /// Forgets what no answer from `now` on depends on, to make the next one faster.
    fn expire(&self, _state: &mut Self::State, _now: Time) {}

    /// The instant from which the state equals a fresh one, unless something is committed.
    fn idle_at(&self, state: &Self::State) -> Time;

    /// Uses up the whole limit at `at`.
    fn exhaust(&self, state: &mut Self::State, at: Time);

    /// Uses up an unused limit at `at`, by releases of unknown cost.
    fn quarantine(&self, state: &mut Self::State, at: Time) {
        self.exhaust(state, at);
    }

    /// Forgets what was charged after `at`. What is no longer known before counts as used then.
    fn recede(&self, state: &mut Self::State, at: Time) {
        *state = Self::State::default();
        self.exhaust(state, at);
    }

    /// Follows a clock that has restarted at 0: all that is known of counts as released then.
    fn restart(&self, state: &mut Self::State);

    /// The nanoseconds for which a release is remembered at least; `None` if for ever, or if the
    /// state itself keeps what it has forgotten.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Converts a state of this rule to the terms of `new`, at `now`, keeping the releases it remembers. Whatever else
    /// may have been released up to `forgotten`, which may be after `now`, counts as used.
    fn carry_over(&self, state: &mut Self::State, new: &Self, now: Time, forgotten: Option<Time>);

    /// Makes `evicted`, the default at first, at least as strict as `state`, which is being evicted, under any terms;
    /// needed where the `forgotten` of [`Rule::carry_over`] does not cover the eviction.
    fn note_evicted(&self, _evicted: &mut Self::State, _state: &Self::State) {}

    /// Notes in `state` that its key may be one of those that were evicted, whose releases are no longer known.
    fn note_forgotten(&self, _state: &mut Self::State, _evicted: &Self::State) {}

    /// The instant at which an answer that allows a release at `at` ends: from then on it may be refused again, even if
    /// nothing is committed, so ask again. Never if the answer stands for ever; those of a rule that accrues do.
    fn closes(&self, _at: Time) -> Time {
        Time::NEVER
    }
}
