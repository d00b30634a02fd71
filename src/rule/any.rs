//! The algorithms, in one list, and a rule of any of them.

use super::{Ask, Bucket, Calendar, Fixed, Interval, Rule, Sliding, Spec, Terms};
use crate::time::Time;

macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident),*) => {
        /// The rule by which a limit decides.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum Algorithm {
            $($(#[$doc])* $name),*
        }

        impl Algorithm {
            /// All algorithms, in the order in which help lists them.
            pub const ALL: [Algorithm; [$(stringify!($name)),*].len()] = [$(Algorithm::$name),*];

            /// Its [`Rule::SPEC`].
            pub fn spec(self) -> &'static Spec {
                match self {
                    $(Algorithm::$name => &$name::SPEC),*
                }
            }
        }

        /// A rule, whatever its algorithm.
        #[derive(Clone, Debug)]
        pub enum AnyRule {
            $(#[doc = stringify!($name)] $name($name)),*
        }

        /// The state of a rule, whatever its algorithm.
        #[derive(Clone, PartialEq, Debug)]
        #[cfg_attr(feature = "cli", derive(serde::Serialize, serde::Deserialize))]
        pub enum AnyState {
            $(#[doc = stringify!($name)] $name(<$name as Rule>::State)),*
        }

        impl AnyRule {
            /// The rule of an algorithm under these terms.
            pub fn new(algorithm: Algorithm, terms: Terms) -> Self {
                match algorithm {
                    $(Algorithm::$name => AnyRule::$name($name::new(terms))),*
                }
            }

            /// The state of an unused limit.
            pub fn unused(&self) -> AnyState {
                match self {
                    $(AnyRule::$name(_) => AnyState::$name(Default::default())),*
                }
            }

            /// Its [`Rule::SPEC`].
            pub fn spec(&self) -> &'static Spec {
                match self {
                    $(AnyRule::$name(_) => &$name::SPEC),*
                }
            }

            /// As [`Rule::memory`].
            pub fn memory(&self) -> Option<u64> {
                match self {
                    $(AnyRule::$name(rule) => rule.memory()),*
                }
            }

            /// As [`Rule::closes`].
            pub fn closes(&self, at: Time) -> Time {
                match self {
                    $(AnyRule::$name(rule) => rule.closes(at)),*
                }
            }

            /// As [`Rule::carry_over`], to a rule of the same algorithm.
            pub fn carry_over(&self, state: &mut AnyState, new: &Self, now: Time, forgotten: Option<Time>) {
                match (self, state, new) {
                    $((AnyRule::$name(rule), AnyState::$name(state), AnyRule::$name(new)) => {
                        rule.carry_over(state, new, now, forgotten);
                    })*
                    (rule, state, new) => unreachable!("{rule:?}, {state:?}, {new:?}"),
                }
            }

            /// As [`Rule::note_evicted`].
            pub fn note_evicted(&self, evicted: &mut AnyState, state: &AnyState) {
                match (self, evicted, state) {
                    $((AnyRule::$name(rule), AnyState::$name(evicted), AnyState::$name(state)) => {
                        rule.note_evicted(evicted, state);
                    })*
                    (rule, _, state) => unreachable!("{state:?} is no state of {rule:?}"),
                }
            }

            /// As [`Rule::note_forgotten`].
            pub fn note_forgotten(&self, state: &mut AnyState, evicted: &AnyState) {
                match (self, state, evicted) {
                    $((AnyRule::$name(rule), AnyState::$name(state), AnyState::$name(evicted)) => {
                        rule.note_forgotten(state, evicted);
                    })*
                    (rule, state, _) => unreachable!("{state:?} is no state of {rule:?}"),
                }
            }
        }

        /// Evaluates an expression with a rule and its state.
        macro_rules! with {
            ($both:expr, $rule:ident, $state:ident => $result:expr) => {
                match $both {
                    $((AnyRule::$name($rule), AnyState::$name($state)) => $result,)*
                    (rule, state) => unreachable!("{state:?} is no state of {rule:?}"),
                }
            };
        }
    };
}

algorithms!(
    /// At most N in any window of length P.
    #[default]
    Sliding,
    /// Bursts up to B, then N per P on average.
    Bucket,
    /// At least P/N between two releases.
    Interval,
    /// At most N in each of its own windows of length P.
    Fixed,
    /// At most N in each day, week, month or year.
    Calendar
);

macro_rules! forward {
    ($(get $ask:ident($($of:ident: $with:ty),*) -> $answer:ty;)* $(set $change:ident($($by:ident: $to:ty),*);)*) => {
        /// As the methods of [`Rule`].
        ///
        /// # Panics
        /// The state is that of another algorithm.
        impl AnyRule {
            $(#[doc = concat!("As [`Rule::", stringify!($ask), "`].")]
            #[inline]
            pub fn $ask(&self, state: &AnyState, $($of: $with),*) -> $answer {
                with!((self, state), rule, state => rule.$ask(state, $($of),*))
            })*

            $(#[doc = concat!("As [`Rule::", stringify!($change), "`].")]
            #[inline]
            pub fn $change(&self, state: &mut AnyState, $($by: $to),*) {
                with!((self, state), rule, state => rule.$change(state, $($by),*));
            })*
        }
    };
}

forward! {
    get earliest(ask: Ask) -> Time;
    get earliest_during(ask: Ask, running: u64) -> Time;
    get available(now: Time, ask: Ask, pending: u64) -> u64;
    get is_plenty(cost: u64, pending: u64) -> bool;
    get last_of(ask: Ask, count: u64) -> Time;
    get idle_at() -> Time;
    set commit(now: Time, ask: Ask);
    set overrun(at: Time, ask: Ask);
    set waive_debt();
    set expire(now: Time);
    set exhaust(at: Time);
    set quarantine(at: Time);
    set recede(at: Time);
    set restart();
}

impl AnyRule {
    /// True if it is a state of this rule.
    pub fn is_of(&self, state: &AnyState) -> bool {
        std::mem::discriminant(&self.unused()) == std::mem::discriminant(state)
    }
}
