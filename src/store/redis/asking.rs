//! Questions to a server: for slots, and to measure how long it takes to answer.

use super::asked::Asked;
use super::calendar::ScriptCalendar;
use super::clock::Exchange;
use super::distance::round_trip;
use super::failure::ServerFailure;
use super::nodes::Nodes;
use super::observations::Observations;
use super::returnable::NodeSlot;
use super::script::{BookingRequest, BookingScript, ScriptCharge, redis_key};
use super::shared_policy::SharedPolicy;
use super::socket::Timeouts;
use crate::config::Server;
use crate::store::Order;
use crate::time::Time;

/// If slots are good for less than this, it matters that a server that has slept takes some tenths of a millisecond
/// longer.
pub(super) const SHORT: u64 = 5_000_000;

/// The answer for a name when nothing is booked.
#[derive(Clone, Copy, Default)]
pub(super) struct Probed {
    /// The policy is in force.
    pub(super) is_kept: bool,
    /// The end of a hold of all keys.
    pub(super) held: Option<Time>,
}

/// Asks, over connections that are kept.
pub(super) struct Asker {
    pub(super) server: Server,
    /// The clock that slots are told by.
    pub(super) now: Box<dyn Fn() -> Time + Send>,
    booking: BookingScript,
    pub(super) nodes: Nodes,
}

impl Asker {
    pub(super) fn new(server: Server, now: impl Fn() -> Time + Send + 'static) -> Self {
        Asker { now: Box::new(now), booking: BookingScript::new(), nodes: Nodes::new(server.clone()), server }
    }

    /// The nanoseconds of a round trip that checks if the limits are those of the name, and what it has found.
    pub(super) fn probe(
        &mut self,
        shared: &SharedPolicy,
        order: &Order,
        keep: u64,
        enough: (u64, u64),
        patience: Timeouts,
    ) -> Result<(u64, Probed), ServerFailure> {
        let key = redis_key(&self.server.name, b"");
        let nothing = BookingRequest { keep, ..shared.request(&key, order) };
        let (now, booking) = (&self.now, &self.booking);
        self.nodes.ask(&key, patience, |_, connection| {
            let mut probed = Probed::default();
            let mut probe = || {
                let asked = now();
                let booked = booking.ask(connection, &nothing)?;
                let exchange = Exchange { asked, server: booked.now, answered: now() };
                let held = booked.held.map(|until| exchange.not_before(until));
                probed = Probed { is_kept: booked.is_kept, held };
                Ok(())
            };
            Ok((round_trip(now, enough, &mut probe)?, probed))
        })
    }

    /// Books what an order asks for, and gives back slots of whichever node is asked.
    pub(super) fn ask(
        &mut self,
        shared: &mut SharedPolicy,
        observations: &Observations,
        (order, given): (&Order, &[NodeSlot]),
        patience: Timeouts,
    ) -> Result<Asked, ServerFailure> {
        shared.prepare(order)?;
        let key = redis_key(&self.server.name, &order.key);
        let nothing = shared.request(&key, order);
        let (now, booking, replicas) = (&self.now, &self.booking, self.server.replicas);
        self.nodes.ask(&key, patience, |node, connection| {
            connection.replicate(replicas, false)?;
            if nothing.policy.deadline < SHORT {
                booking.ask(connection, &nothing)?;
            }
            let mut charges = observations.charges(order, nothing.terms, node);
            let by_calendar =
                |charge: &&mut ScriptCharge| nothing.policy.quotas[charge.index].hours.is_some();
            for charge in charges.iter_mut().filter(by_calendar) {
                let shown = observations.shown_by(node, now());
                let quota = &nothing.policy.quotas[charge.index];
                charge.calendar = ScriptCalendar::around(shown, quota, nothing.policy);
            }
            // If the key has moved, the others are by another clock.
            let given: Vec<_> =
                given.iter().filter(|slot| slot.node == node).map(|slot| slot.micros).collect();
            let asked = now();
            // The script runs later than this, so it takes it to be later than it was.
            let ago = order.overrun.map_or(0, |over| asked.since(over) / 1000);
            let pause = order.hold.map_or(0, |until| until.since(asked).div_ceil(1000));
            let request = BookingRequest { charges: &charges, given: &given, ago, pause, ..nothing };
            let booked = booking.ask(connection, &request)?;
            let answered = now();
            connection.replicate(replicas, true)?;
            let exchange = Exchange { asked, server: booked.now, answered };
            Ok(Asked { node, charges, exchange, booked })
        })
    }
}
