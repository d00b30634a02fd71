//! A map by claim: the key and costs that slots are booked for.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::charge::Key;

/// A map by claim: a key, and the costs of one release. A key is seldom charged in more than one way.
#[derive(Clone, Debug)]
pub(super) struct ByClaim<T>(HashMap<Key, SmallVec<[(Rc<[u64]>, T); 1]>, RandomState>);

impl<T> Default for ByClaim<T> {
    fn default() -> Self {
        ByClaim(HashMap::default())
    }
}

impl<T> ByClaim<T> {
    pub(super) fn get(&self, key: &[u8], costs: &[u64]) -> Option<&T> {
        let found = self.0.get(key)?.iter().find(|(known, _)| **known == *costs);
        found.map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &[u8], costs: &[u64]) -> Option<&mut T> {
        let found = self.0.get_mut(key)?.iter_mut().find(|(known, _)| **known == *costs);
        found.map(|(_, value)| value)
    }

    pub(super) fn get_or_insert_with(
        &mut self,
        key: &Key,
        costs: &Rc<[u64]>,
        value: impl FnOnce() -> T,
    ) -> &mut T {
        let all = self.0.entry(key.clone()).or_default();
        let at = all.iter().position(|(known, _)| known == costs).unwrap_or_else(|| {
            all.push((Rc::clone(costs), value()));
            all.len() - 1
        });
        &mut all[at].1
    }

    pub(super) fn insert(&mut self, key: &Key, costs: &Rc<[u64]>, value: T) {
        self.remove(key, costs);
        self.get_or_insert_with(key, costs, || value);
    }

    pub(super) fn remove(&mut self, key: &[u8], costs: &[u64]) -> Option<T> {
        let all = self.0.get_mut(key)?;
        let at = all.iter().position(|(known, _)| **known == *costs)?;
        let (_, value) = all.swap_remove(at);
        if all.is_empty() {
            self.0.remove(key);
        }
        Some(value)
    }

    /// The values of a key, for all costs.
    pub(super) fn of_key_mut(&mut self, key: &[u8]) -> &mut [(Rc<[u64]>, T)] {
        self.0.get_mut(key).map_or(&mut [], SmallVec::as_mut_slice)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values().flatten().map(|(_, value)| value)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Key, &Rc<[u64]>, &mut T)> {
        self.0
            .iter_mut()
            .flat_map(|(key, all)| all.iter_mut().map(move |(costs, value)| (key, &*costs, value)))
    }

    /// Keeps the values for which `is_kept` holds.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.0.retain(|_, all| {
            all.retain(|(_, value)| is_kept(value));
            !all.is_empty()
        });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
