//! The slots that may be given back, with the instants by which the vault knows them.

use std::sync::Arc;

use crate::store::{Order, Slot, Task};
use crate::time::{Time, Wall};

/// The history, the revision of the limits, and the wall clock by which slots were booked.
pub(super) type BookedIn = (u64, u64, Wall);

/// A slot by the clock of the vault that booked it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Returned {
    pub(super) booked_in: BookedIn,
    pub(super) at: Time,
}

#[derive(Default)]
pub(super) struct Returnable(Vec<(Arc<Order>, Slot, Returned)>);

impl Returnable {
    /// Adds slots that were booked for an order, and forgets those that are over by `now`.
    pub(super) fn add(&mut self, order: &Order, booked_in: BookedIn, slots: &[(Slot, Time)], now: Time) {
        self.0.retain(|(_, slot, _)| slot.until >= now);
        let order = Arc::new(order.clone());
        let returned = |&(slot, at)| (Arc::clone(&order), slot, Returned { booked_in, at });
        self.0.extend(slots.iter().map(returned));
    }

    /// Takes the slots that an order gives back, each once: there may be several at one instant, only some of which are
    /// given back.
    pub(super) fn take(&mut self, order: &Order) -> Vec<Returned> {
        let Task::GiveBack(slots, _) = &order.task else { return Vec::new() };
        let mut take = |slot: &Slot| {
            let is_it = |(of, known, _): &(Arc<Order>, Slot, Returned)| {
                known == slot && (&of.key, &of.costs) == (&order.key, &order.costs)
            };
            let at = self.0.iter().position(is_it)?;
            Some(self.0.swap_remove(at).2)
        };
        slots.iter().filter_map(&mut take).collect()
    }
}
