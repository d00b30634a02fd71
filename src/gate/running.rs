//! The costs of releases that have begun and have not ended.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::charge::Key;

/// The sum of these costs: one for all items, or one for each key.
#[derive(Clone, Debug)]
pub(super) enum Running {
    /// Of a limit that all items share.
    Common(u64),
    /// Of a limit by key.
    Keyed(HashMap<Key, u64, RandomState>),
}

impl Running {
    pub(super) fn new(is_keyed: bool) -> Self {
        if is_keyed { Running::Keyed(HashMap::default()) } else { Running::Common(0) }
    }

    pub(super) fn of(&self, key: &[u8]) -> u64 {
        match self {
            Running::Common(sum) => *sum,
            Running::Keyed(sums) if sums.is_empty() => 0,
            Running::Keyed(sums) => sums.get(key).copied().unwrap_or(0),
        }
    }

    pub(super) fn add(&mut self, key: &[u8], cost: u64) {
        let sum = match self {
            Running::Common(sum) => sum,
            Running::Keyed(sums) => sums.entry(key.into()).or_default(),
        };
        *sum = sum.saturating_add(cost);
    }

    pub(super) fn remove(&mut self, key: &[u8], cost: u64) {
        match self {
            Running::Common(sum) => *sum = sum.saturating_sub(cost),
            Running::Keyed(sums) => match sums.get_mut(key) {
                Some(sum) if *sum > cost => *sum -= cost,
                _ => _ = sums.remove(key),
            },
        }
    }
}
