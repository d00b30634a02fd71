//! The eviction of idle entries from maps.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Maps up to this size are never searched for idle entries.
const FEW: usize = 64;

/// Evicts the idle entries of a map each time it has doubled, so it is searched rarely and never fills up with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Eviction {
    beyond: usize,
}

impl Eviction {
    /// Keeps only the entries for which `is_kept` is true, if the map has doubled.
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
