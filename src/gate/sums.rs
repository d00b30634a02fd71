//! Sums of costs.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// A sum of costs: one for all items, or one for each key, or for each account of a key.
#[derive(Clone, Debug)]
pub(super) enum Sums<K> {
    /// Of a limit that all items share.
    Common(u64),
    /// Of a limit by key.
    Keyed(HashMap<K, u64, RandomState>),
}

impl<K: Eq + Hash> Sums<K> {
    pub(super) fn new(is_keyed: bool) -> Self {
        if is_keyed { Sums::Keyed(HashMap::default()) } else { Sums::Common(0) }
    }

    #[inline]
    pub(super) fn of<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> u64
    where
        K: Borrow<Q>,
    {
        match self {
            Sums::Common(sum) => *sum,
            Sums::Keyed(sums) if sums.is_empty() => 0,
            Sums::Keyed(sums) => sums.get(key).copied().unwrap_or(0),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, key: impl Into<K>, cost: u64) {
        let sum = match self {
            Sums::Common(sum) => sum,
            Sums::Keyed(sums) => sums.entry(key.into()).or_default(),
        };
        *sum = sum.saturating_add(cost);
    }

    #[inline]
    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, cost: u64)
    where
        K: Borrow<Q>,
    {
        match self {
            Sums::Common(sum) => *sum = sum.saturating_sub(cost),
            Sums::Keyed(sums) => remove_of_key(sums, key, cost),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Sums::Common(sum) => *sum = 0,
            Sums::Keyed(sums) => sums.clear(),
        }
    }
}

fn remove_of_key<K: Eq + Hash + Borrow<Q>, Q: Eq + Hash + ?Sized>(
    sums: &mut HashMap<K, u64, RandomState>,
    key: &Q,
    cost: u64,
) {
    match sums.get_mut(key) {
        Some(sum) if *sum > cost => *sum -= cost,
        _ => _ = sums.remove(key),
    }
}
