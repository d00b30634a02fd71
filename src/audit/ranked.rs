//! Keeps the keys that matter most, in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::charge::Key;

/// The number of keys that are kept when some are dropped; there may be up to twice as many until then.
const MAX_KEYS: usize = 512;

/// The entries of the keys with the highest rank.
///
/// A key that was dropped starts afresh when it comes back.
pub(super) struct Ranked<V> {
    entries: HashMap<Key, V, RandomState>,
    rank: fn(&V) -> u128,
}

impl<V> Ranked<V> {
    pub(super) fn by(rank: fn(&V) -> u128) -> Self {
        Ranked { entries: HashMap::default(), rank }
    }

    /// The entry of a key, made if there is none.
    pub(super) fn entry(&mut self, key: &[u8], make: impl FnOnce() -> V) -> &mut V {
        if self.entries.len() >= 2 * MAX_KEYS && !self.entries.contains_key(key) {
            self.keep_highest();
        }
        self.entries.entry(Key::from_slice(key)).or_insert_with(make)
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    /// The `most` entries of the highest rank, the highest first; at the same rank, those with the least `tie` first.
    pub(super) fn highest<T: Ord>(&self, most: usize, tie: impl Fn(&[u8], &V) -> T) -> Vec<(&[u8], &V)> {
        let mut all: Vec<_> = self.entries.iter().map(|(key, entry)| (key.as_slice(), entry)).collect();
        all.sort_by_cached_key(|(key, entry)| (Reverse((self.rank)(entry)), tie(key, entry), *key));
        all.truncate(most);
        all
    }

    fn keep_highest(&mut self) {
        let rank = self.rank;
        let place = |key: &Key, entry: &V| (Reverse(rank(entry)), key.clone());
        let mut places: Vec<_> = self.entries.iter().map(|(key, entry)| place(key, entry)).collect();
        let last = places.select_nth_unstable(MAX_KEYS - 1).1.clone();
        self.entries.retain(|key, entry| place(key, entry) <= last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_many_are_known_in_bounded_memory() {
        let mut ranked = Ranked::by(|rank: &u64| (*rank).into());
        for number in 0..100_000u64 {
            let key = (number * 7919 % 100_000).to_be_bytes();
            *ranked.entry(&key, || 0) += number % 1000;
            assert!(ranked.entries.len() <= 2 * MAX_KEYS);
        }
        let highest = ranked.highest(200, |_, _| ());
        let mut wanted: Vec<_> =
            (0..100_000u64).map(|number| (Reverse(number % 1000), number * 7919 % 100_000)).collect();
        wanted.sort_unstable();
        let wanted: Vec<_> =
            wanted.iter().take(200).map(|(Reverse(rank), key)| (key.to_be_bytes(), *rank)).collect();
        assert!(
            highest
                .iter()
                .map(|(key, rank)| (*key, **rank))
                .eq(wanted.iter().map(|(key, rank)| (&key[..], *rank)))
        );
    }
}
