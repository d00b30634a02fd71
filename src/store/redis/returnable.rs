//! The slots that may be given back, with the instants by which the server knows them.

use std::sync::Arc;

use super::clock::Micros;
use super::nodes::NodeId;
use crate::store::{Order, Slot};
use crate::time::Time;

/// A slot by the clock of the node that booked it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeSlot {
    pub(super) node: NodeId,
    pub(super) micros: Micros,
}

#[derive(Default)]
pub(super) struct Returnable(Vec<(Arc<Order>, Slot, NodeSlot)>);

impl Returnable {
    /// Adds slots that `node` gave for an order, and forgets those that are over by `now`.
    pub(super) fn add(&mut self, order: &Order, node: NodeId, slots: &[(Slot, Micros)], now: Time) {
        self.0.retain(|(_, slot, _)| slot.until >= now);
        let order = Arc::new(order.clone());
        let returnable = |&(slot, micros)| (Arc::clone(&order), slot, NodeSlot { node, micros });
        self.0.extend(slots.iter().map(returnable));
    }

    /// Takes the slots of an order, each once: there may be several at one instant, only some of which are given back.
    pub(super) fn take(&mut self, order: &Order, slots: &[Slot]) -> Vec<NodeSlot> {
        let mut take = |slot: &Slot| {
            let is_it = |(of, known, _): &(Arc<Order>, Slot, NodeSlot)| {
                known == slot && (&of.key, &of.costs) == (&order.key, &order.costs)
            };
            let at = self.0.iter().position(is_it)?;
            Some(self.0.swap_remove(at).2)
        };
        slots.iter().filter_map(&mut take).collect()
    }
}
