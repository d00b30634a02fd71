//! Counts the items that lack a part that limits go by: all of them share the empty key.

use super::Charger;
use crate::config::{Rate, Selector, keys};

/// The number of items, and of those without a key, for each key.
pub(crate) struct Keyless {
    items: u64,
    /// Its selector, and the numbers of items without it and of the first of them.
    keys: Vec<(Selector, u64, u64)>,
}

impl Keyless {
    pub(crate) fn new(rates: &[Rate]) -> Self {
        Keyless { items: 0, keys: keys(rates).into_iter().map(|key| (key.clone(), 0, 0)).collect() }
    }

    /// Counts the item that `charger` has just charged, and returns the first key that only it lacks so far.
    pub(crate) fn count(&mut self, charger: &Charger, item: u64) -> Option<&Selector> {
        self.items += 1;
        let mut new = None;
        for &key in charger.lacking() {
            let Some((_, count, first)) = self.keys.get_mut(key) else { continue };
            *count += 1;
            if *count == 1 {
                *first = item;
                new.get_or_insert(key);
            }
        }
        new.map(|key| &self.keys[key].0)
    }

    /// The number of items without the key with this index, and the number of the first of them.
    pub(crate) fn of(&self, key: usize) -> Option<(u64, u64)> {
        self.keys.get(key).map(|(_, count, first)| (*count, *first)).filter(|(count, _)| *count > 0)
    }

    /// The keys that several items lack, in words.
    pub(crate) fn told(&self) -> impl Iterator<Item = String> {
        self.keys.iter().filter(|(_, count, _)| *count > 1).map(|(key, count, _)| {
            format!("{count} of {} items have no {key}: they share the empty key", self.items)
        })
    }
}
