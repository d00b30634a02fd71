//! A state for each key, as compact as can be: with a million keys, memory and cache misses are all that matters.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::charge::Key;

/// States by key. An account is the index of a key's state; it is valid until the next [`Accounts::retain`].
#[derive(Clone)]
pub(crate) struct Accounts<S> {
    entries: Vec<(Key, S)>,
    /// The index of a key's entry, by its hash: 4 bytes, where an index map takes 16.
    index: HashTable<u32>,
    hasher: RandomState,
}

impl<S> Default for Accounts<S> {
    fn default() -> Self {
        Accounts { entries: Vec::new(), index: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<S> Accounts<S> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The account of a key, if it has one.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let is_it = |&account: &u32| self.entries[account as usize].0.as_slice() == key;
        self.index.find(self.hasher.hash_one(key), is_it).map(|&account| account as usize)
    }

    /// The account of a key, which is opened with `state` if it has none.
    ///
    /// # Panics
    /// With 2^32 keys.
    pub(crate) fn find_or_open(&mut self, key: &[u8], state: impl FnOnce() -> S) -> usize {
        if let Some(account) = self.find(key) {
            return account;
        }
        let account = self.entries.len();
        let number = u32::try_from(account).expect("memory is used up by fewer keys");
        let Accounts { entries, index, hasher } = self;
        entries.push((Key::from_slice(key), state()));
        let hash = |&account: &u32| hasher.hash_one(entries[account as usize].0.as_slice());
        index.insert_unique(hasher.hash_one(key), number, hash);
        account
    }

    pub(crate) fn get(&self, account: usize) -> &S {
        &self.entries[account].1
    }

    pub(crate) fn get_mut(&mut self, account: usize) -> &mut S {
        &mut self.entries[account].1
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|(key, _)| key.as_slice())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.entries.iter_mut().map(|(_, state)| state)
    }

    /// Closes all other accounts, and gives memory back if that leaves few.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&[u8], &S) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|(key, state)| is_kept(key, state));
        if self.entries.len() == before {
            return;
        }
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to_fit();
            self.index = HashTable::with_capacity(self.entries.len());
        }
        self.rebuild_index();
    }

    fn rebuild_index(&mut self) {
        let Accounts { entries, index, hasher } = self;
        index.clear();
        let hash = |key: &Key| hasher.hash_one(key.as_slice());
        for (account, (key, _)) in (0..).zip(entries.iter()) {
            index.insert_unique(hash(key), account, |&other: &u32| hash(&entries[other as usize].0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_state_until_its_account_is_closed() {
        let mut accounts = Accounts::default();
        for number in 0..1000u32 {
            let account = accounts.find_or_open(&number.to_le_bytes(), || 0);
            *accounts.get_mut(account) += number;
        }
        assert_eq!(accounts.find_or_open(&7u32.to_le_bytes(), || 99), 7);
        accounts.retain(|_, state| state % 100 == 7);
        assert_eq!((accounts.len(), accounts.entries.capacity()), (10, 10));
        for number in 0..1000u32 {
            let state = accounts.find(&number.to_le_bytes()).map(|account| *accounts.get(account));
            assert_eq!(state, (number % 100 == 7).then_some(number));
        }
        accounts.retain(|_, _| false);
        assert_eq!((accounts.len(), accounts.entries.capacity()), (0, 0));
    }
}
