//! The list of the rules that have a name.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

use super::{Bucket, Facts, Fixed, Interval, Named, Sliding, SlotRule, Terms};

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
}

/// Does something with the rule of an algorithm, as its type.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it with `R`.
    fn visit<R: Named>(self) -> Self::Output;
}

impl Algorithm {
    /// In the order in which they are told.
    pub const ALL: [Algorithm; 4] =
        [Algorithm::Sliding, Algorithm::Bucket, Algorithm::Interval, Algorithm::Fixed];

    /// The one match over the algorithms.
    pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
        match self {
            Algorithm::Sliding => visitor.visit::<Sliding>(),
            Algorithm::Bucket => visitor.visit::<Bucket>(),
            Algorithm::Interval => visitor.visit::<Interval>(),
            Algorithm::Fixed => visitor.visit::<Fixed>(),
        }
    }

    /// What the rest of the program has to know of it.
    pub fn facts(self) -> &'static Facts {
        struct TheFacts;
        impl Visitor for TheFacts {
            type Output = &'static Facts;

            fn visit<R: Named>(self) -> &'static Facts {
                &R::FACTS
            }
        }
        self.visit(TheFacts)
    }

    /// How slots are booked by it.
    pub fn slots(self, terms: Terms) -> Box<dyn SlotRule> {
        struct Slots(Terms);
        impl Visitor for Slots {
            type Output = Box<dyn SlotRule>;

            fn visit<R: Named>(self) -> Box<dyn SlotRule> {
                Box::new(R::new(self.0))
            }
        }
        self.visit(Slots(terms))
    }

    /// The names, as they are typed.
    pub fn names() -> [&'static str; Self::ALL.len()] {
        Self::ALL.map(|algorithm| algorithm.facts().name)
    }

    /// The names of those of which something holds, as a text tells them.
    pub fn named(separator: &str, holds: impl Fn(&Facts) -> bool) -> String {
        let facts = Self::ALL.iter().map(|algorithm| algorithm.facts());
        facts.filter(|facts| holds(facts)).map(|facts| facts.name).collect::<Vec<_>>().join(separator)
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.facts().name == text);
        known.with_context(|| format!("there are {}", Self::named(", ", |_| true)))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}
