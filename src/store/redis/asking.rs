//! Questions to a server: for slots, and to measure how long it takes to answer.

use super::asked::Asked;
use super::clock::Exchange;
use super::distance::round_trip;
use super::failure::ServerFailure;
use super::nodes::Nodes;
use super::observations::Observations;
use super::returnable::NodeSlot;
use super::script::{BookingRequest, BookingScript, redis_key};
use super::shared_policy::SharedPolicy;
use crate::config::Server;
use crate::store::Order;
use crate::time::Time;

/// If slots are good for less than this, the tenths of a millisecond matter that a server takes to wake up.
pub(super) const SHORT: u64 = 5_000_000;

/// The answer for a name when nothing is booked.
#[derive(Clone, Copy)]
pub(super) struct Probed {
    /// The nanoseconds of the fastest answer.
    pub(super) round_trip: u64,
    /// The policy is in force.
    pub(super) is_kept: bool,
    /// The end of a hold of all keys.
    pub(super) held: Option<Time>,
}

/// Asks, over connections that are kept.
pub(super) struct Asker {
    /// The clock that slots are told by.
    pub(super) now: Box<dyn Fn() -> Time + Send>,
    booking: BookingScript,
    pub(super) nodes: Nodes,
}

impl Asker {
    pub(super) fn new(server: Server, now: impl Fn() -> Time + Send + 'static) -> Self {
        Asker { now: Box::new(now), booking: BookingScript::new(), nodes: Nodes::new(server) }
    }

    /// Checks if the limits are those of the name, and how long the answer takes.
    pub(super) fn probe(
        &mut self,
        shared: &SharedPolicy,
        order: &Order,
        keep: u64,
        enough: (u64, u64),
    ) -> Result<Probed, ServerFailure> {
        let key = self.key(b"");
        let nothing = BookingRequest { keep, ..BookingRequest::new(&key, shared, order) };
        let (now, booking) = (&self.now, &self.booking);
        self.nodes.ask(&key, |_, connection| {
            let probe = || {
                let asked = now();
                let booked = booking.ask(connection, &nothing)?;
                Ok((Exchange { asked, server: booked.now, answered: now() }, booked))
            };
            let (round_trip, (exchange, booked)) = round_trip(now, enough, probe)?;
            let held = booked.held.map(|until| exchange.not_before(until));
            Ok(Probed { round_trip, is_kept: booked.is_kept, held })
        })
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
        let (now, booking, replicas) = (&self.now, &self.booking, self.nodes.server.replicas);
        self.nodes.ask(&key, |node, connection| {
            connection.replicate(replicas, false)?;
            if shared.policy.deadline < SHORT {
                booking.ask(connection, &nothing)?;
            }
            let charges = observations.charges(order, shared, node, now);
            // If the key has moved, the others are by another clock.
            let given: Vec<_> =
                given.iter().filter(|slot| slot.node == node).map(|slot| slot.micros).collect();
            let asked = now();
            let request = BookingRequest { charges: &charges, given: &given, asked, ..nothing };
            let booked = booking.ask(connection, &request)?;
            let answered = now();
            connection.replicate(replicas, true)?;
            let exchange = Exchange { asked, server: booked.now, answered };
            Ok(Asked { node, charges, exchange, booked })
        })
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        redis_key(&self.nodes.server.name, key)
    }
}
