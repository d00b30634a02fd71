//! A state for each key, as compact as possible: with a million keys, only memory and cache misses matter.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::compact_key::CompactKey;

/// States by key, or one that all keys share. An account is the index of a key's state, valid until the next
/// [`Accounts::retain`]. The account of a shared state is 0.
#[derive(Clone)]
pub(crate) struct Accounts<S> {
    /// The state of keys without an account, or the shared state.
    pub(crate) fresh: S,
    entries: Vec<(CompactKey, S)>,
    /// The index of a key's entry, by its hash: 4 bytes, where an index map takes 16. `None` if all share a state.
    index: Option<HashTable<u32>>,
    hasher: RandomState,
}

impl<S: Clone> Accounts<S> {
    pub(crate) fn new(fresh: S, are_keyed: bool) -> Self {
        let index = are_keyed.then(HashTable::new);
        Accounts { fresh, entries: Vec::new(), index, hasher: RandomState::default() }
    }

    pub(crate) fn are_keyed(&self) -> bool {
        self.index.is_some()
    }

    /// The number of keys with an account.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The state of a key.
    pub(crate) fn of(&self, key: &[u8]) -> &S {
        let is_it = |&account: &u32| self.entries[account as usize].0.as_slice() == key;
        let account = self.index.as_ref().and_then(|index| index.find(self.hasher.hash_one(key), is_it));
        account.map_or(&self.fresh, |&account| &self.entries[account as usize].1)
    }

    /// The account of a key, opened if it has none.
    ///
    /// # Panics
    /// If there are 2^32 keys.
    pub(crate) fn account(&mut self, key: &[u8]) -> usize {
        let Accounts { fresh, entries, index: Some(index), hasher } = self else { return 0 };
        let known = |&account: &u32| entries[account as usize].0.as_slice();
        let hash = |key: &[u8]| hasher.hash_one(key);
        match index.entry(hash(key), |account| known(account) == key, |account| hash(known(account))) {
            Entry::Occupied(account) => *account.get() as usize,
            Entry::Vacant(place) => {
                let account = entries.len();
                place.insert(u32::try_from(account).expect("memory is used up by fewer keys"));
                if account == entries.capacity() {
                    entries.reserve_exact(growth(account));
                }
                entries.push((CompactKey::from(key), fresh.clone()));
                account
            }
        }
    }

    /// The key of an account; empty if all share a state.
    pub(crate) fn key(&self, account: usize) -> &[u8] {
        if self.are_keyed() { self.entries[account].0.as_slice() } else { &[] }
    }

    /// The key of an account, empty if all share a state, and its state.
    pub(crate) fn entry(&mut self, account: usize) -> (&[u8], &mut S) {
        match self.index {
            Some(_) => {
                let (key, state) = &mut self.entries[account];
                (key.as_slice(), state)
            }
            None => (&[], &mut self.fresh),
        }
    }

    pub(crate) fn get(&self, account: usize) -> &S {
        if self.are_keyed() { &self.entries[account].1 } else { &self.fresh }
    }

    pub(crate) fn get_mut(&mut self, account: usize) -> &mut S {
        if self.are_keyed() { &mut self.entries[account].1 } else { &mut self.fresh }
    }

    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entries.iter().map(|(key, _)| key.as_slice())
    }

    /// All states, including that of keys without an account.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        std::iter::once(&mut self.fresh).chain(self.entries.iter_mut().map(|(_, state)| state))
    }

    /// Keeps only these accounts, and frees memory if few are left.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&[u8], &S) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|(key, state)| is_kept(key.as_slice(), state));
        if self.entries.len() == before {
            return;
        }
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to_fit();
        }
        let Accounts { entries, hasher, .. } = self;
        let hash = |key: &CompactKey| hasher.hash_one(key.as_slice());
        let mut index = HashTable::with_capacity(entries.len());
        for (account, (key, _)) in (0..).zip(entries.iter()) {
            index.insert_unique(hash(key), account, |&other: &u32| hash(&entries[other as usize].0));
        }
        self.index = Some(index);
    }
}

/// The number of entries to add to this many: a large vector wastes less of its memory, as it can be moved at low cost.
fn growth(entries: usize) -> usize {
    if entries < 4096 { entries.max(4) } else { entries / 32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_state_until_its_account_is_closed() {
        let mut accounts = Accounts::new(0, true);
        for number in 0..1000u32 {
            let account = accounts.account(&number.to_le_bytes());
            *accounts.get_mut(account) += number;
        }
        assert_eq!(accounts.account(&7u32.to_le_bytes()), 7);
        accounts.retain(|_, state| state % 100 == 7);
        assert_eq!((accounts.len(), accounts.entries.capacity()), (10, 10));
        for number in 0..1000u32 {
            let state = *accounts.of(&number.to_le_bytes());
            assert_eq!(state, if number % 100 == 7 { number } else { 0 });
        }
        accounts.retain(|_, _| false);
        assert_eq!((accounts.len(), accounts.entries.capacity()), (0, 0));
    }
}
