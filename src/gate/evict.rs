//! When to evict what is idle.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// The number of entries that are kept before idle ones are evicted.
pub(super) const FEW: usize = 64;

/// Evicts idle entries of a map each time that it has doubled: it is searched seldom, and not filled by them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Eviction {
    beyond: usize,
}

impl Eviction {
    /// Keeps only these entries, if there are many.
    pub(crate) fn retain<K: Hash + Eq, V, S: BuildHasher>(
        &mut self,
        map: &mut HashMap<K, V, S>,
        is_kept: impl FnMut(&K, &mut V) -> bool,
    ) {
        if map.len() > self.beyond.max(FEW) {
            map.retain(is_kept);
            self.beyond = 2 * map.len();
        }
    }
}
