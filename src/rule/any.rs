//! A rule of any algorithm, and its state as a value that can be kept.

use serde::{Deserialize, Serialize};

use super::{Algorithm, Ask, Bucket, Calendar, Fixed, Interval, Rule, Sliding, Terms, Verdict};
use crate::time::Time;

macro_rules! algorithms {
    ($($name:ident),*) => {
        /// A rule, whatever its algorithm.
        #[derive(Clone, Debug)]
        pub enum AnyRule {
            $(#[doc = stringify!($name)] $name($name)),*
        }

        /// The state of a rule, whatever its algorithm.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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

            /// As [`Rule::carry_over`]; both must be of the same algorithm.
            pub fn carry_over(&self, state: &mut AnyState, new: &AnyRule, now: Time, forgotten: Option<Time>) {
                match (self, new, state) {
                    $((AnyRule::$name(rule), AnyRule::$name(new), AnyState::$name(state)) => {
                        rule.carry_over(state, new, now, forgotten);
                    })*
                    (rule, new, state) => unreachable!("{state:?} of {rule:?} cannot be one of {new:?}"),
                }
            }

            /// The state of an unused limit.
            pub fn unused(&self) -> AnyState {
                match self {
                    $(AnyRule::$name(_) => AnyState::$name(Default::default())),*
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

algorithms!(Sliding, Bucket, Interval, Fixed, Calendar);

/// As the methods of [`Rule`].
///
/// # Panics
/// The state is that of another algorithm.
impl AnyRule {
    /// True if it is a state of this rule.
    pub fn is_of(&self, state: &AnyState) -> bool {
        std::mem::discriminant(&self.unused()) == std::mem::discriminant(state)
    }

    /// As [`Rule::earliest`].
    pub fn earliest(&self, state: &AnyState, ask: Ask) -> Verdict {
        with!((self, state), rule, state => rule.earliest(state, ask))
    }

    /// As [`Rule::commit`].
    pub fn commit(&self, state: &mut AnyState, now: Time, ask: Ask) {
        with!((self, state), rule, state => rule.commit(state, now, ask));
    }

    /// As [`Rule::overrun`].
    pub fn overrun(&self, state: &mut AnyState, at: Time, ask: Ask) {
        with!((self, state), rule, state => rule.overrun(state, at, ask));
    }

    /// As [`Rule::waive_debt`].
    pub fn waive_debt(&self, state: &mut AnyState) {
        with!((self, state), rule, state => rule.waive_debt(state));
    }

    /// As [`Rule::expire`].
    pub fn expire(&self, state: &mut AnyState, now: Time) {
        with!((self, state), rule, state => rule.expire(state, now));
    }

    /// As [`Rule::idle_at`].
    pub fn idle_at(&self, state: &AnyState) -> Verdict {
        with!((self, state), rule, state => rule.idle_at(state))
    }

    /// As [`Rule::exhaust`].
    pub fn exhaust(&self, state: &mut AnyState, at: Time) {
        with!((self, state), rule, state => rule.exhaust(state, at));
    }

    /// As [`Rule::silence`].
    pub fn silence(&self, state: &mut AnyState, at: Time) {
        with!((self, state), rule, state => rule.silence(state, at));
    }

    /// As [`Rule::recede`].
    pub fn recede(&self, state: &mut AnyState, at: Time) {
        with!((self, state), rule, state => rule.recede(state, at));
    }

    /// As [`Rule::restart`].
    pub fn restart(&self, state: &mut AnyState) {
        with!((self, state), rule, state => rule.restart(state));
    }
}
