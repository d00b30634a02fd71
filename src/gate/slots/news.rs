//! Answers that may have become more lenient.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::charge::Key;
use crate::rule::Verdict;
use crate::time::Time;

/// Answers that may have become more lenient: those that were later than an instant, of some keys or of all.
#[derive(Clone, Debug)]
pub struct News {
    later_than: Time,
    /// `None` for all.
    keys: Option<HashSet<Key, RandomState>>,
}

impl News {
    /// Of all; or, if `are_keyed`, of the keys that are added.
    pub(in crate::gate) fn new(later_than: Time, are_keyed: bool) -> Self {
        News { later_than, keys: are_keyed.then(HashSet::default) }
    }

    /// Adds answers later than `at`, of a key.
    pub(super) fn add(&mut self, at: Time, key: &Key) {
        self.later_than = self.later_than.min(at);
        self.keys.iter_mut().for_each(|keys| _ = keys.insert(key.clone()));
    }

    /// The latest answer that stands as it is.
    pub fn later_than(&self) -> Verdict {
        Verdict::At(self.later_than)
    }

    /// True if releases with these keys are concerned.
    pub fn concerns(&self, keys: &[Key]) -> bool {
        self.keys.as_ref().is_none_or(|known| keys.first().is_some_and(|key| known.contains(key)))
    }
}
