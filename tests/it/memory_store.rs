//! A store whose vault is a map. The library's unit tests use it too.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use throttle::charge::Key;
use throttle::store::vault::{Loaded, Reading, Swap, Value, Vault, Waiting, Write};
use throttle::store::{Answer, Order, Policy, Store, StoreError, VaultStore};
use throttle::time::{Time, Wall};

pub(crate) type Values = BTreeMap<Value, Value>;

type Clock<T> = Arc<Mutex<dyn Fn() -> T + Send>>;

fn shared<T>(clock: impl Fn() -> T + Send + 'static) -> Clock<T> {
    Arc::new(Mutex::new(clock))
}

fn read<T>(clock: &Clock<T>) -> T {
    (clock.lock().unwrap_or_else(PoisonError::into_inner))()
}

/// Values in memory. Users share them by cloning it.
#[derive(Clone)]
pub(crate) struct MemoryVault {
    values: Arc<Mutex<Values>>,
    queue: Arc<Mutex<Queue>>,
    /// Another process, which now and then decides for all others.
    other: Option<Arc<Mutex<Other>>>,
    /// If it evicts, the instant from which each value is idle.
    idle: Option<Arc<Mutex<BTreeMap<Value, Time>>>>,
    /// It evicts only when it is asked to.
    is_lazy: bool,
    clock: Clock<Time>,
    wall: Clock<Wall>,
}

/// What the process that has the turn is told, and what it replies.
#[derive(Default)]
struct Queue {
    key: Value,
    waiting: Vec<Waiting>,
    replies: Vec<Waiting>,
}

struct Other {
    store: VaultStore,
    limits: usize,
    random: fastrand::Rng,
}

impl MemoryVault {
    /// Lets another process decide on about half of all requests. It knows only of what it has seen itself.
    #[allow(dead_code, reason = "the library's tests do without")]
    pub(crate) fn contended(self, policy: &Policy, seed: u64) -> Self {
        let store = VaultStore::over(self.clone(), policy.clone()).expect("a state");
        let other = Other { store, limits: policy.quotas.len(), random: fastrand::Rng::with_seed(seed) };
        MemoryVault { other: Some(Arc::new(Mutex::new(other))), ..self }
    }

    /// Evicts the value of each key as soon as it is idle.
    #[allow(dead_code, reason = "the library's tests do without")]
    pub(crate) fn evicting(self) -> Self {
        MemoryVault { idle: Some(Arc::default()), ..self }
    }

    /// As [`MemoryVault::evicting`], but only when it is asked to, as a file is.
    #[allow(dead_code, reason = "the library's tests do without")]
    pub(crate) fn evicting_lazily(self) -> Self {
        MemoryVault { is_lazy: true, ..self.evicting() }
    }

    /// Evicts what is idle at `now`.
    fn evict_idle(&self, now: Time) {
        let Some(idle) = &self.idle else { return };
        let idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.values().retain(|key, _| idle.get(key).is_none_or(|at| *at > now));
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply of the other process to a request, if it decides on it.
    fn reply(&self, key: &[u8], request: &[u8]) -> Option<Value> {
        let mut other = self.other.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        if request.is_empty() || other.random.bool() {
            return None;
        }
        let waiting = vec![(b"1".to_vec(), request.to_owned())];
        *self.queue() = Queue { key: key.to_owned(), waiting, replies: Vec::new() };
        let nothing = Order::new(Key::from_slice(key), vec![1; other.limits], 0);
        let done = other.store.book(&nothing);
        let queue = std::mem::take(&mut *self.queue());
        done.ok().and_then(|_| queue.replies.into_iter().next()).map(|(_, reply)| reply)
    }

    pub(crate) fn new(
        clock: impl Fn() -> Time + Send + 'static,
        wall: impl Fn() -> Wall + Send + 'static,
    ) -> Self {
        MemoryVault {
            values: Arc::default(),
            queue: Arc::default(),
            other: None,
            idle: None,
            is_lazy: false,
            clock: shared(clock),
            wall: shared(wall),
        }
    }

    pub(crate) fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> Reading {
        Reading::own(read(&self.clock), read(&self.wall))
    }
}

impl Vault for MemoryVault {
    fn load(&mut self, keys: &[&[u8]], _: bool) -> Result<Loaded, StoreError> {
        if !self.is_lazy {
            self.evict_idle(read(&self.clock));
        }
        let queue = self.queue();
        let has_turn = self.other.is_none() && keys.last() == Some(&&*queue.key);
        let waiting = (has_turn && !queue.waiting.is_empty()).then(|| queue.waiting.clone());
        drop(queue);
        let values = self.values();
        let values = keys.iter().map(|key| values.get(*key).cloned()).collect();
        Ok(Loaded { waiting, ..Loaded::new(values, self.reading(), None) })
    }

    fn swap(&mut self, write: &Write) -> Result<Swap, StoreError> {
        let key = &write.key;
        if let Some(reply) = self.reply(key, write.request.as_deref().unwrap_or_default()) {
            return Ok(Swap::Replied(reply, self.load(&[key], false)?));
        }
        let mut values = self.values();
        if values.get(key) != write.old.as_ref() {
            drop(values);
            return self.load(&[key], false).map(Swap::Refused);
        }
        values.insert(key.clone(), write.value.clone());
        drop(values);
        if let Some(idle) = self.idle.as_ref().filter(|_| !key.is_empty()) {
            idle.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), write.idle);
        }
        self.queue().replies.extend_from_slice(&write.replies);
        Ok(Swap::Done(self.reading()))
    }

    fn at_once(&self) -> usize {
        usize::MAX
    }

    fn keys(&mut self) -> Result<Vec<Value>, StoreError> {
        Ok(self.values().keys().cloned().collect())
    }

    fn forget(&mut self) -> Result<bool, StoreError> {
        Ok(!std::mem::take(&mut *self.values()).is_empty())
    }

    fn evict(&mut self, is_idle: &mut dyn FnMut(&[u8]) -> bool) -> Result<usize, StoreError> {
        if self.is_lazy {
            self.values().retain(|key, value| key.is_empty() || !is_idle(value));
        }
        Ok(0)
    }

    fn keeps_for(&self) -> u64 {
        if self.idle.is_some() { 0 } else { u64::MAX }
    }

    fn loss(&self) -> &'static str {
        "it was lost"
    }

    fn name(&self) -> Cow<'_, str> {
        "memory".into()
    }
}

/// A store in memory. Users share it by cloning it.
pub(crate) struct MemoryStore {
    store: VaultStore,
    vault: MemoryVault,
    policy: Policy,
}

impl MemoryStore {
    #[cfg_attr(not(all(feature = "redis", feature = "sqlite")), allow(dead_code))]
    pub(crate) fn new(policy: Policy, clock: impl Fn() -> Time + Send + 'static) -> Self {
        Self::with_wall(policy, clock, || Wall::EPOCH)
    }

    /// A store with a wall clock that may be set.
    pub(crate) fn with_wall(
        policy: Policy,
        clock: impl Fn() -> Time + Send + 'static,
        wall: impl Fn() -> Wall + Send + 'static,
    ) -> Self {
        Self::over(MemoryVault::new(clock, wall), policy)
    }

    pub(crate) fn over(vault: MemoryVault, policy: Policy) -> Self {
        let store = VaultStore::over(vault.clone(), policy.clone()).expect("a state");
        MemoryStore { store, vault, policy }
    }
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        Self::over(self.vault.clone(), self.policy.clone())
    }
}

impl Store for MemoryStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        self.store.book(order)
    }

    fn book_some(&mut self, orders: &[Order]) -> Result<Vec<Answer>, StoreError> {
        self.store.book_some(orders)
    }

    fn give_back(&mut self, order: &Order) -> Result<(), StoreError> {
        self.store.give_back(order)
    }
}
