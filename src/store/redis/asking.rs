//! Questions to a server: for slots, and before any are booked, whether it is near enough for these limits, and whether
//! all who use the name mean them.

use super::distance::{CHOOSING, ROUND_TRIPS, required_margin, round_trip, too_long};
use super::failure::ServerFailure;
use super::nodes::{NodeId, Nodes};
use super::observations::Observations;
use super::returnable::NodeSlot;
use super::script::{BookedSlots, BookingRequest, ScriptCharge, Seen, redis_key, with_rules};
use super::shared_policy::{SharedPolicy, Stage};
use super::stored_script::StoredScript;
use crate::charge::Key;
use crate::store::hold::LOOK;
use crate::store::{Answer, BootClock, Hold, Order};
use crate::time::Time;

/// If slots are good for less than this, the tenths of a millisecond matter that a server takes to wake up.
pub(super) const SHORT: u64 = 5_000_000;

/// Asks, over connections that are kept.
pub(super) struct Asker {
    /// The clock that slots are told by.
    pub(super) now: BootClock,
    booking: StoredScript,
    pub(super) nodes: Nodes,
    pub(super) shared: SharedPolicy,
    pub(super) observations: Observations,
    /// The instant of the last question about the name, and the end of the hold of all keys as of then.
    held: Option<(Time, Option<Time>)>,
}

/// A question to a node, with its answer.
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) charges: Vec<ScriptCharge>,
    pub(super) booked: BookedSlots,
}

impl Asker {
    pub(super) fn new(nodes: Nodes, shared: SharedPolicy, now: BootClock) -> Self {
        let (booking, observations) = (with_rules(include_str!("scripts/book.lua")), Observations::default());
        Asker { now, booking, nodes, shared, observations, held: None }
    }

    /// Checks, before anything is booked, that the server is near enough for these limits; and before keys are charged,
    /// and now and then, that all who use the name mean these limits.
    pub(super) fn check(&mut self, order: &Order) -> Result<(), ServerFailure> {
        if self.shared.stage < Stage::Near {
            self.check_distance()?;
        }
        let now = (self.now)();
        let is_known = self.held.is_some_and(|(asked, _)| now.since(asked) < LOOK);
        // As long as a key is held, it is on record that it belongs to the name.
        let hold = order.hold.map_or(0, |until| until.since(now) / 1_000_000);
        if !order.key.is_empty() && (!is_known || hold > 0) {
            // A claim lasts longer than it takes to ask again.
            let booked = self.look(self.shared.claim().saturating_add(hold))?;
            self.held = Some((now, booked.held_until()));
        }
        Ok(())
    }

    fn check_distance(&mut self) -> Result<(), ServerFailure> {
        let enough = self.shared.policy.deadline / ROUND_TRIPS;
        let longest = if self.shared.stage == Stage::Open { CHOOSING } else { u64::MAX };
        let (round_trip, is_kept) = round_trip(enough, longest, || self.look(0))?;
        match is_kept {
            true => self.shared.stage = Stage::Agreed,
            false => self.shared.choose_margins(required_margin(round_trip)),
        }
        let deadline = self.shared.policy.deadline;
        if round_trip > deadline / ROUND_TRIPS {
            let why = too_long(round_trip, deadline, is_kept);
            return Err(if is_kept { ServerFailure::away(why) } else { ServerFailure::refused(why) });
        }
        self.shared.stage = Stage::Near;
        Ok(())
    }

    /// Asks if the limits are those of the name, which is on record for `keep` milliseconds then at least.
    fn look(&mut self, keep: u64) -> Result<BookedSlots, ServerFailure> {
        let (key, nothing) = (self.key(b""), Order::new(Key::new(), [], 0));
        let request = BookingRequest { keep, ..BookingRequest::new(&key, &self.shared, &nothing) };
        self.nodes.ask(&key, |_, connection| request.ask(&self.booking, connection, &*self.now))
    }

    /// Books what an order asks for, and gives back slots of whichever node is asked.
    pub(super) fn ask(&mut self, order: &Order, given: &[NodeSlot]) -> Result<Asked, ServerFailure> {
        self.shared.prepare(order)?;
        let (key, nothing) = (self.key(&order.key), Order::new(Key::new(), [], 0));
        let Asker { now, booking, nodes, shared, observations, .. } = self;
        let replicas = nodes.server.replicas;
        nodes.ask(&key, |node, connection| {
            connection.replicate(replicas, false)?;
            if shared.policy.deadline < SHORT {
                BookingRequest::new(&key, shared, &nothing).ask(booking, connection, now)?;
            }
            let charges = observations.charges(order, &shared.policy, node, now);
            // If the key has moved, the others are by another clock.
            let given: Vec<_> =
                given.iter().filter(|slot| slot.node == node).map(|slot| slot.micros).collect();
            let all = BookingRequest::new(&key, shared, order);
            let request = BookingRequest { charges: &charges, given: &given, ..all };
            let booked = request.ask(booking, connection, now)?;
            connection.replicate(replicas, true)?;
            Ok(Asked { node, charges, booked })
        })
    }

    /// The end of the hold of all keys, if it concerns an order.
    pub(super) fn held(&self, order: &Order) -> Option<Time> {
        let (_, held) = self.held.filter(|_| !order.key.is_empty() && order.is_for_slots())?;
        held.filter(|until| *until > (self.now)())
    }

    /// The answer to an order, if all keys are held.
    pub(super) fn heed(&self, order: &Order, answer: Answer) -> Answer {
        let Some(until) = self.held(order).max(answer.held) else { return answer };
        let ask_again = (order.count > 0).then(|| Hold::ask_again((self.now)(), until));
        Answer { ask_again, turn: order.turn, held: Some(until), ..answer }
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        redis_key(&self.nodes.server.name, key)
    }
}

impl Asked {
    /// The server has another history than was seen before, of a limit whose past still matters.
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
