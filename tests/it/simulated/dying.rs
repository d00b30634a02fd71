//! A process that dies between two swaps.

use std::borrow::Cow;

use anyhow::anyhow;
use throttle::exit::Exit;
use throttle::store::StoreError;
use throttle::store::vault::{Loaded, Origin, Swap, Value, Vault, Write};

/// A vault that fails after this number of swaps.
pub(crate) struct Dying<V> {
    pub(crate) vault: V,
    pub(crate) swaps: usize,
}

impl<V: Vault> Vault for Dying<V> {
    fn load(&mut self, keys: &[&[u8]], may_be_old: bool) -> Result<Loaded, StoreError> {
        self.vault.load(keys, may_be_old)
    }

    fn swap(&mut self, write: &Write) -> Result<Swap, StoreError> {
        if self.swaps == 0 {
            return Err(StoreError { exit: Exit::Error, error: anyhow!("it has died") });
        }
        self.swaps -= 1;
        self.vault.swap(write)
    }

    fn has_turn(&self, key: &[u8]) -> bool {
        self.vault.has_turn(key)
    }

    fn release(&mut self) {
        self.vault.release();
    }

    fn keys(&mut self) -> Result<Vec<Value>, StoreError> {
        self.vault.keys()
    }

    fn forget(&mut self) -> Result<bool, StoreError> {
        self.vault.forget()
    }

    fn evict(&mut self, is_idle: &mut dyn FnMut(&[u8]) -> bool) -> Result<usize, StoreError> {
        self.vault.evict(is_idle)
    }

    fn keeps_for(&self) -> u64 {
        self.vault.keeps_for()
    }

    fn lags_by(&self) -> u64 {
        self.vault.lags_by()
    }

    fn expect(&mut self, deadline: u64, memory: u64) {
        self.vault.expect(deadline, memory);
    }

    fn good_for(&self, deadline: u64) -> u64 {
        self.vault.good_for(deadline)
    }

    fn least_validity(&mut self, given: Option<u64>) -> Result<u64, StoreError> {
        self.vault.least_validity(given)
    }

    fn origin(&self) -> Origin {
        self.vault.origin()
    }

    fn loss(&self) -> &'static str {
        self.vault.loss()
    }

    fn name(&self) -> Cow<'_, str> {
        self.vault.name()
    }
}
