//! The number of distinct keys, in bounded memory.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

/// The number of hashes that are kept: the least ones, from the largest of which the number of all can be told to
/// within 1%. See Bar-Yossef et al., "Counting distinct elements in a data stream" (2002).
const MOST: usize = 1 << 16;

/// Keys, of which the number is to be told.
#[derive(Clone, Default)]
pub(super) struct Distinct {
    hashes: BTreeSet<u64>,
    hasher: RandomState,
}

/// The number of distinct keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    /// Exactly.
    Exactly(u64),
    /// To within 1%.
    About(u64),
}

impl Distinct {
    pub(super) fn insert(&mut self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        if self.hashes.len() < MOST {
            self.hashes.insert(hash);
        } else if self.hashes.last().is_some_and(|last| hash < *last) && self.hashes.insert(hash) {
            self.hashes.pop_last();
        }
    }

    pub(super) fn number(&self) -> Number {
        match self.hashes.last() {
            Some(&last) if self.hashes.len() >= MOST => {
                let estimate = (MOST as u128) << 64;
                Number::About(u64::try_from(estimate / u128::from(last).max(1)).unwrap_or(u64::MAX))
            }
            _ => Number::Exactly(self.hashes.len() as u64),
        }
    }
}

impl Number {
    pub(crate) fn value(self) -> u64 {
        match self {
            Number::Exactly(number) | Number::About(number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(distinct: u32) -> Number {
        let mut keys = Distinct::default();
        for _ in 0..2 {
            (0..distinct).for_each(|key| keys.insert(&key.to_le_bytes()));
        }
        keys.number()
    }

    #[test]
    fn few_are_counted_and_many_estimated() {
        assert_eq!(number(0), Number::Exactly(0));
        assert_eq!(number(65_000), Number::Exactly(65_000));
        let Number::About(many) = number(300_000) else { panic!("exactly") };
        // Five times the standard error.
        assert!((294_000..306_000).contains(&many), "{many}");
    }
}
