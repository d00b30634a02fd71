//! What a limit allows in the long run, to be drawn.

use crate::config::Algorithm;
use crate::limiter::Terms;

/// What a limit allows of a run that never stops: `first` at once, then `height` after each `length` nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stairs {
    /// What may go at once.
    pub first: u64,
    /// What may go after each length.
    pub height: u64,
    /// In nanoseconds.
    pub length: u64,
}

/// Stairs of one that are shorter than this, in nanoseconds, are not drawn, and would not be whole numbers.
const SHORTEST: u64 = 1000;

impl Stairs {
    pub(super) fn new(algorithm: Algorithm, terms: &Terms) -> Self {
        let one = terms.period / terms.count.max(1);
        let (height, length) = if one < SHORTEST { (terms.count, terms.period) } else { (1, one) };
        match algorithm {
            Algorithm::Sliding | Algorithm::Fixed => {
                Stairs { first: terms.count, height: terms.count, length: terms.period }
            }
            Algorithm::Interval => Stairs { first: 1, height, length },
            Algorithm::Bucket => Stairs { first: terms.burst, height, length },
        }
    }
}
