//! What is told of one key only, when several are booked together.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use throttle::charge::Key;
use throttle::store::vault::{Loaded, Reading, Suspicion, Swap, Value, Vault, Write};
use throttle::store::{Answer, Order, Policy, Reserve, Store, StoreError, Task, VaultStore, Wanted};
use throttle::time::{SECOND, Time, Wall};

use crate::memory_store::MemoryVault;

/// A vault in memory, which does something to a key once.
#[derive(Clone)]
struct Probe {
    inner: MemoryVault,
    clock: Arc<AtomicU64>,
    /// Values of b that were written before its next load may be lost.
    is_suspicious: Arc<AtomicBool>,
    /// The next swap of a key takes long.
    is_slow: Arc<AtomicBool>,
    /// Others were about to swap the value of a.
    is_contended: Arc<AtomicBool>,
}

impl Vault for Probe {
    fn load(&mut self, keys: &[&[u8]], may_be_old: bool) -> Result<Loaded, StoreError> {
        let loaded = self.inner.load(keys, may_be_old)?;
        let suspicion =
            Suspicion { why: "another node has taken over", good_from: Some(loaded.reading.shown) };
        let is_told = keys.ends_with(&[b"b"]) && self.is_suspicious.swap(false, Relaxed);
        Ok(Loaded { suspicion: is_told.then_some(suspicion), ..loaded })
    }

    fn swap(&mut self, write: &Write) -> Result<Swap, StoreError> {
        if write.value.is_empty() {
            // It has the turn at once.
            let loaded = self.inner.load(&[&write.key], false)?;
            return Ok(Swap::Refused(Loaded { waiting: Some(Vec::new()), ..loaded }));
        }
        Ok(match self.inner.swap(write)? {
            Swap::Done(reading) if !write.key.is_empty() && self.is_slow.swap(false, Relaxed) => {
                Swap::Done(Reading { asked: Time(reading.asked.0 - 20 * SECOND), ..reading })
            }
            swap => swap,
        })
    }

    fn at_once(&self) -> usize {
        usize::MAX
    }

    fn is_contended(&self, key: &[u8]) -> bool {
        key == b"a" && self.is_contended.load(Relaxed)
    }

    fn keys(&mut self) -> Result<Vec<Value>, StoreError> {
        self.inner.keys()
    }

    fn forget(&mut self) -> Result<bool, StoreError> {
        self.inner.forget()
    }

    fn keeps_for(&self) -> u64 {
        u64::MAX
    }

    fn loss(&self) -> &'static str {
        "it was lost"
    }

    fn name(&self) -> Cow<'_, str> {
        "probe".into()
    }
}

impl Probe {
    fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(1000 * SECOND));
        let shown = Arc::clone(&clock);
        let inner = MemoryVault::new(move || Time(shown.load(Relaxed)), || Wall::EPOCH);
        let [is_suspicious, is_slow, is_contended] = [(); 3].map(|()| Arc::default());
        Probe { inner, clock, is_suspicious, is_slow, is_contended }
    }

    fn open(&self, rate: &str) -> VaultStore {
        let policy = Policy::new(&[rate.parse().expect("a rate")], Reserve::LOCAL);
        VaultStore::over(self.clone(), policy).expect("a state")
    }

    fn pass(&self, time: u64) {
        self.clock.fetch_add(time, Relaxed);
    }
}

fn book(store: &mut impl Store, keys: &[&str], count: u64, within: u64) -> Vec<Answer> {
    let task = Task::Book(Wanted { count, within, ..Wanted::default() });
    let order = |key: &&str| Order::new(Key::from_slice(key.as_bytes()), [1], 0).with(task.clone());
    store.book_some(&keys.iter().map(order).collect::<Vec<_>>()).expect("booked")
}

/// Whether slots were lost, and how many there are now.
fn outcome(answer: &Answer) -> (bool, usize) {
    (answer.lost, answer.slots.len())
}

/// At some instants, booking for a first writes the state's own record.
#[test]
fn a_suspicion_is_not_forgotten() {
    let last = |keys: &[&str], wait: u64| {
        let probe = Probe::new();
        let mut store = probe.open("4/10s,key=col:1");
        book(&mut store, &["a", "b"], 1, u64::MAX);
        probe.pass(wait);
        book(&mut store, &["b"], 3, u64::MAX);
        probe.pass(SECOND / 4);
        probe.is_suspicious.store(true, Relaxed);
        outcome(book(&mut store, keys, 1, SECOND).last().expect("one for each"))
    };
    for wait in (8..400).map(|quarters| quarters * SECOND / 4) {
        assert_eq!(last(&["a", "b"], wait), last(&["b"], wait), "{wait}");
    }
}

#[test]
fn what_waits_for_its_turn_takes_no_new_record_for_a_loss() {
    for wait in (8..400).map(|quarters| quarters * SECOND / 4) {
        let probe = Probe::new();
        let mut store = probe.open("4/10s,key=col:1");
        book(&mut store, &["a", "b"], 1, u64::MAX);
        probe.pass(wait);
        probe.is_contended.store(true, Relaxed);
        let answers = book(&mut store, &["a", "b"], 1, SECOND);
        assert!(answers.iter().all(|answer| !answer.lost && answer.warning.is_none()), "{wait}: {answers:?}");
    }
}

#[test]
fn a_loss_is_told_with_the_slots_that_come_in_time() {
    for is_slow in [false, true] {
        let probe = Probe::new();
        let [mut store, mut other] = [(); 2].map(|()| probe.open("4/10ms,key=col:1"));
        for store in [&mut other, &mut store] {
            book(store, &["k"], 1, u64::MAX);
        }
        // Lost, and found to be so by the other one.
        probe.inner.values().clear();
        probe.pass(SECOND / 100);
        book(&mut other, &["k"], 1, u64::MAX);
        probe.pass(2 * SECOND);
        probe.is_slow.store(is_slow, Relaxed);
        assert_eq!(outcome(&book(&mut store, &["k"], 1, u64::MAX)[0]), (true, 1), "slow: {is_slow}");
    }
}
