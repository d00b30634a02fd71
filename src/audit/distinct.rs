//! Counts distinct keys, in bounded memory.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

/// The number of hashes that are kept: the smallest ones. The largest of these gives the number of keys, with a
/// standard error of 0.4%. See Bar-Yossef et al., "Counting distinct elements in a data stream" (2002).
const MAX_HASHES: usize = 1 << 16;

/// A set of keys that can only be counted.
#[derive(Clone, Default)]
pub(super) struct Distinct {
    hashes: BTreeSet<u64>,
    hasher: RandomState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyCount {
    pub(crate) number: u64,
    /// If false, the number is an estimate, nearly always within 1%.
    pub(crate) is_exact: bool,
}

impl Distinct {
    pub(super) fn insert(&mut self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        if self.hashes.len() < MAX_HASHES {
            self.hashes.insert(hash);
        } else if self.hashes.last().is_some_and(|last| hash < *last) && self.hashes.insert(hash) {
            self.hashes.pop_last();
        }
    }

    pub(super) fn count(&self) -> KeyCount {
        let (number, is_exact) = (self.hashes.len() as u64, self.hashes.len() < MAX_HASHES);
        let Some(&last) = self.hashes.last().filter(|_| !is_exact) else {
            return KeyCount { number, is_exact };
        };
        let estimate = ((MAX_HASHES as u128) << 64) / u128::from(last).max(1);
        KeyCount { number: u64::try_from(estimate).unwrap_or(u64::MAX), is_exact }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(distinct: u32) -> (u64, bool) {
        let mut keys = Distinct::default();
        for _ in 0..2 {
            (0..distinct).for_each(|key| keys.insert(&key.to_le_bytes()));
        }
        let KeyCount { number, is_exact } = keys.count();
        (number, is_exact)
    }

    #[test]
    fn few_are_counted_and_many_estimated() {
        assert_eq!(count(0), (0, true));
        assert_eq!(count(65_000), (65_000, true));
        let (many, is_exact) = count(300_000);
        // Five times the standard error.
        assert!((294_000..306_000).contains(&many) && !is_exact, "{many}");
    }
}
