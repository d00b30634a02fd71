//! Answers that may have become more lenient.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::charge::Key;
use crate::time::Time;

/// Answers that may have become more lenient: those from an instant on, for some keys or for all.
#[derive(Clone, Debug)]
pub struct News {
    from: Time,
    /// `None` for all keys.
    keys: Option<HashSet<Key, RandomState>>,
}

impl News {
    /// News for all keys; or, if `are_keyed`, for the keys that are added.
    pub(in crate::gate) fn new(from: Time, are_keyed: bool) -> Self {
        News { from, keys: are_keyed.then(HashSet::default) }
    }

    /// Adds the answers for a key from `at` on.
    pub(super) fn add(&mut self, at: Time, key: &Key) {
        self.from = self.from.min(at);
        self.keys.iter_mut().for_each(|keys| _ = keys.insert(key.clone()));
    }

    /// The earliest answer that may have changed.
    pub fn from(&self) -> Time {
        self.from
    }

    /// True if it concerns releases with these keys.
    pub fn concerns(&self, keys: &[Key]) -> bool {
        self.keys.as_ref().is_none_or(|known| keys.first().is_some_and(|key| known.contains(key)))
    }
}
