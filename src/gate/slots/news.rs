//! Answers that may have become more lenient.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::charge::Key;
use crate::rule::Verdict;
use crate::time::Time;

/// Answers that may have become more lenient: those later than an instant, for some keys or for all.
#[derive(Clone, Debug)]
pub struct News {
    later_than: Time,
    /// `None` for all keys.
    keys: Option<HashSet<Key, RandomState>>,
}

impl News {
    /// News for all keys; or, if `are_keyed`, for the keys that are added.
    pub(in crate::gate) fn new(later_than: Time, are_keyed: bool) -> Self {
        News { later_than, keys: are_keyed.then(HashSet::default) }
    }

    /// Adds the answers for a key that are later than `at`.
    pub(super) fn add(&mut self, at: Time, key: &Key) {
        self.later_than = self.later_than.min(at);
        self.keys.iter_mut().for_each(|keys| _ = keys.insert(key.clone()));
    }

    /// The latest answer that cannot have changed.
    pub fn later_than(&self) -> Verdict {
        Verdict::At(self.later_than)
    }

    /// True if it concerns releases with these keys.
    pub fn concerns(&self, keys: &[Key]) -> bool {
        self.keys.as_ref().is_none_or(|known| keys.first().is_some_and(|key| known.contains(key)))
    }
}
