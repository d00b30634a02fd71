//! A store in memory, for as long as the process lives: what a store does, with nothing in between.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::ledger::{BookingRules, Ledger, Marks};
use super::{Answer, Order, Policy, Store, StoreError};
use crate::charge::Key;
use crate::time::Time;

/// Several users share one by cloning it. It keeps every key that it has seen.
#[derive(Clone)]
pub struct Memory(Arc<Mutex<Books>>);

struct Books {
    rules: BookingRules,
    clock: Box<dyn Fn() -> Time + Send>,
    began: Time,
    /// The state of each key.
    states: HashMap<Key, (Ledger, Vec<u64>)>,
}

impl Memory {
    /// Limits that begin now. Slots are on the time line of `clock`, which must not go back.
    pub fn new(policy: Policy, clock: impl Fn() -> Time + Send + 'static) -> Self {
        let began = clock();
        let (rules, clock) = (BookingRules::new(policy), Box::new(clock));
        Memory(Arc::new(Mutex::new(Books { rules, clock, began, states: HashMap::new() })))
    }
}

impl Store for Memory {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Books { rules, clock, began, states } = &mut *books;
        let fresh = || (rules.begin(*began), Vec::new());
        let (ledger, marks) = states.entry(order.key.clone()).or_insert_with(fresh);
        rules.book(ledger, marks, clock(), order)
    }
}

impl Marks for Vec<u64> {
    fn get(&mut self, place: u64) -> Result<u64, StoreError> {
        Ok(self.as_slice().get(index(place)).copied().unwrap_or(0))
    }

    fn fill(&mut self, places: Range<u64>, mark: u64) -> Result<(), StoreError> {
        let (start, end) = (index(places.start), index(places.end));
        self.resize(self.len().max(end), 0);
        self[start..end].fill(mark);
        Ok(())
    }
}

fn index(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}
