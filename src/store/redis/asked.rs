//! A question to a node, with its answer.

use super::nodes::NodeId;
use super::returnable::NodeSlot;
use super::script::{BookedSlots, ScriptCharge, Seen};

/// A question to a node, with its answer.
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) charges: Vec<ScriptCharge>,
    pub(super) booked: BookedSlots,
}

impl Asked {
    /// True if the server has another history than was seen before, of a limit whose past still matters.
    pub(super) fn is_of_another_history(&self) -> bool {
        let is_another = |(charge, seen): (&ScriptCharge, &Seen)| {
            let known = charge.seen;
            known.epoch > 0 && known.epoch != seen.epoch && known.matters_until > self.booked.exchange.server
        };
        self.charges.iter().zip(&self.booked.seen).any(is_another)
    }

    pub(super) fn slots(&self) -> Vec<NodeSlot> {
        self.booked.slots.iter().map(|&micros| NodeSlot { node: self.node, micros }).collect()
    }
}
