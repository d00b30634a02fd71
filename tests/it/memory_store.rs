//! A store in memory that lasts as long as the process: the rules of booking, with nothing in between. The library's
//! unit tests use it too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use throttle::charge::Key;
use throttle::store::ledger::{BookingRules, Ledger, Owner};
use throttle::store::{Answer, Order, Policy, Slot, Store, StoreError};
use throttle::time::{Time, Wall};

/// The owner of all slots that someone holds.
const USERS: Owner = 1;

/// Users share a store by cloning it. It keeps every key that it has seen.
#[derive(Clone)]
pub(crate) struct MemoryStore(Arc<Mutex<MemoryBooks>>);

struct MemoryBooks {
    rules: BookingRules,
    clock: Box<dyn Fn() -> Time + Send>,
    wall: Box<dyn Fn() -> Wall + Send>,
    began: Time,
    states: HashMap<Key, Ledger>,
}

impl MemoryStore {
    /// A store whose limits begin now.
    #[cfg_attr(not(all(feature = "redis", feature = "sqlite")), allow(dead_code))]
    pub(crate) fn new(policy: Policy, clock: impl Fn() -> Time + Send + 'static) -> Self {
        Self::with_wall(policy, clock, || Wall::EPOCH)
    }

    /// A store whose limits begin now, with a wall clock that may be set.
    pub(crate) fn with_wall(
        policy: Policy,
        clock: impl Fn() -> Time + Send + 'static,
        wall: impl Fn() -> Wall + Send + 'static,
    ) -> Self {
        let (rules, began, states) = (BookingRules::new(policy), clock(), HashMap::new());
        let books = MemoryBooks { rules, clock: Box::new(clock), wall: Box::new(wall), began, states };
        MemoryStore(Arc::new(Mutex::new(books)))
    }
}

impl Store for MemoryStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let MemoryBooks { rules, clock, wall, began, states } = &mut *books;
        rules.follow_wall(rules.wall(), wall());
        let ledger = states.entry(order.key.clone()).or_insert_with(|| rules.begin(*began));
        let now = clock();
        let answer = rules.book(ledger, now, order);
        let ahead = answer.slots.iter().map(|slot| slot.at).filter(|at| *at > now);
        ledger.owned.add(USERS, &order.costs, rules.wall(), ahead);
        Ok(answer)
    }

    fn give_back(&mut self, order: &Order, slots: &[Slot]) -> Result<(), StoreError> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let MemoryBooks { rules, clock, states, .. } = &mut *books;
        if let Some(ledger) = states.get_mut(&order.key) {
            let slots: Vec<_> = slots.iter().map(|slot| slot.at).collect();
            let slots = ledger.owned.remove(USERS, &order.costs, &slots);
            rules.give_back(ledger, clock(), &order.costs, slots);
        }
        Ok(())
    }
}
