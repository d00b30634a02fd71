//! An instant for each of many keys, for as long as it matters.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::time::Time;

/// The number of instants that are kept before those which are over are evicted.
pub(super) const FEW: usize = 64;

/// Those that are over are evicted once there are many.
#[derive(Clone, Debug)]
pub(super) struct Instants<K> {
    by_key: HashMap<K, Time, RandomState>,
    evict_beyond: usize,
}

impl<K> Default for Instants<K> {
    fn default() -> Self {
        Instants { by_key: HashMap::default(), evict_beyond: FEW }
    }
}

impl<K: Hash + Eq> Instants<K> {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Time>
    where
        K: Borrow<Q>,
    {
        self.by_key.get(key).copied()
    }

    /// May evict what is not after `now`.
    pub(super) fn set(&mut self, now: Time, key: K, at: Time) {
        self.by_key.insert(key, at);
        if self.by_key.len() > self.evict_beyond {
            self.by_key.retain(|_, at| *at > now);
            self.evict_beyond = FEW.max(2 * self.by_key.len());
        }
    }

    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.by_key.remove(key);
    }

    /// Takes out all of them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Time> {
        self.by_key.drain().map(|(_, at)| at)
    }
}
