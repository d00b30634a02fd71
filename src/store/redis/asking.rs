//! Questions to a server: for slots, and to measure how long it takes to answer.

use super::asked::Asked;
use super::connection::Connection;
use super::distance::round_trip;
use super::failure::ServerFailure;
use super::nodes::Nodes;
use super::observations::Observations;
use super::returnable::NodeSlot;
use super::script::{BookedSlots, BookingRequest, BookingScript, redis_key};
use super::shared_policy::SharedPolicy;
use crate::config::Server;
use crate::store::{BootClock, Order};
use crate::time::Time;

/// If slots are good for less than this, the tenths of a millisecond matter that a server takes to wake up.
pub(super) const SHORT: u64 = 5_000_000;

/// Asks, over connections that are kept.
pub(super) struct Asker {
    /// The clock that slots are told by.
    pub(super) now: BootClock,
    booking: BookingScript,
    pub(super) nodes: Nodes,
}

impl Asker {
    pub(super) fn new(server: Server, now: impl Fn() -> Time + Send + 'static) -> Self {
        Asker { now: Box::new(now), booking: BookingScript::new(), nodes: Nodes::new(server) }
    }

    /// Checks if the limits are those of the name. Returns the nanoseconds of the fastest answer, and the last answer.
    pub(super) fn probe(
        &mut self,
        shared: &SharedPolicy,
        order: &Order,
        keep: u64,
        enough: (u64, u64),
    ) -> Result<(u64, BookedSlots), ServerFailure> {
        let key = self.key(b"");
        let nothing = BookingRequest { keep, ..BookingRequest::new(&key, shared, order) };
        let probe = |connection: &mut Connection| self.booking.ask(connection, &nothing, &*self.now);
        self.nodes.ask(&key, |_, connection| round_trip(enough, || probe(connection)))
    }

    /// Books what an order asks for, and gives back slots of whichever node is asked.
    pub(super) fn ask(
        &mut self,
        shared: &mut SharedPolicy,
        observations: &Observations,
        (order, given): (&Order, &[NodeSlot]),
    ) -> Result<Asked, ServerFailure> {
        shared.prepare(order)?;
        let key = self.key(&order.key);
        let nothing = BookingRequest::new(&key, shared, order);
        let (now, booking, replicas) = (&*self.now, &self.booking, self.nodes.server.replicas);
        self.nodes.ask(&key, |node, connection| {
            connection.replicate(replicas, false)?;
            if shared.policy.deadline < SHORT {
                booking.ask(connection, &nothing, now)?;
            }
            let charges = observations.charges(order, shared, node, now);
            // If the key has moved, the others are by another clock.
            let given: Vec<_> =
                given.iter().filter(|slot| slot.node == node).map(|slot| slot.micros).collect();
            let request = BookingRequest { charges: &charges, given: &given, ..nothing };
            let booked = booking.ask(connection, &request, now)?;
            connection.replicate(replicas, true)?;
            Ok(Asked { node, charges, booked })
        })
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        redis_key(&self.nodes.server.name, key)
    }
}
