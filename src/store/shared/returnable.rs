//! The slots that may be given back, with the instants by which the vault knows them.

use std::collections::HashMap;

use crate::charge::Key;
use crate::gate::Eviction;
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

/// The key and the costs that slots are for.
type Kind = (Key, Box<[u64]>);

#[derive(Default)]
pub(super) struct Returnable {
    by_kind: HashMap<Kind, Vec<(Slot, Returned)>>,
    eviction: Eviction,
}

impl Returnable {
    /// Adds slots that were booked for an order, and forgets such that are over by `now`.
    pub(super) fn add(&mut self, order: &Order, slots: &[(Slot, Returned)], now: Time) {
        let forget_past = |slots: &mut Vec<(Slot, Returned)>| slots.retain(|(slot, _)| slot.until >= now);
        let alike = self.by_kind.entry(kind(order)).or_default();
        forget_past(alike);
        alike.extend_from_slice(slots);
        self.eviction.retain(&mut self.by_kind, |_, slots| {
            forget_past(slots);
            !slots.is_empty()
        });
    }

    /// Takes the slots that an order gives back, each once: there may be several at one instant, only some of which are
    /// given back.
    pub(super) fn take(&mut self, order: &Order) -> Vec<Returned> {
        let Task::GiveBack(slots, _) = &order.task else { return Vec::new() };
        let Some(alike) = self.by_kind.get_mut(&kind(order)) else { return Vec::new() };
        let mut take = |slot: &Slot| {
            let at = alike.iter().position(|(known, _)| known == slot)?;
            Some(alike.swap_remove(at).1)
        };
        slots.iter().filter_map(&mut take).collect()
    }
}

fn kind(order: &Order) -> Kind {
    (order.key.clone(), order.costs.clone())
}
