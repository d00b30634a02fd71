//! Questions to a server: for slots; and, before any are booked, whether it is near enough for these limits, and
//! whether all processes that use the name mean these limits.

use super::asked::Asked;
use super::distance::{CHOOSING, ROUND_TRIPS, required_margin, round_trip, too_long};
use super::failure::ServerFailure;
use super::nodes::Nodes;
use super::observations::Observations;
use super::returnable::NodeSlot;
use super::script::{BookedSlots, BookingRequest, redis_key, with_rules};
use super::shared_policy::{SharedPolicy, Stage};
use super::stored_script::StoredScript;
use crate::charge::Key;
use crate::store::hold::LOOK;
use crate::store::{Answer, BootClock, Hold, Order};
use crate::time::Time;

/// If slots are valid for less than this, in nanoseconds, it matters that a server takes tenths of a millisecond to
/// wake up.
pub(super) const SHORT: u64 = 5_000_000;

/// Asks over connections that are kept open.
pub(super) struct Asker {
    /// The clock on which slots are given.
    pub(super) now: BootClock,
    booking: StoredScript,
    pub(super) nodes: Nodes,
    pub(super) shared: SharedPolicy,
    pub(super) observations: Observations,
    /// The instant of the last question about the name, and the end of the hold of all keys as of then.
    held: Option<(Time, Option<Time>)>,
}

impl Asker {
    pub(super) fn new(nodes: Nodes, shared: SharedPolicy, now: BootClock) -> Self {
        let (booking, observations) = (with_rules(include_str!("scripts/book.lua")), Observations::default());
        Asker { now, booking, nodes, shared, observations, held: None }
    }

    /// Checks, before anything is booked, that the server is near enough for these limits; and, before keys are charged
    /// and now and then, that all processes that use the name mean these limits.
    pub(super) fn check(&mut self, order: &Order) -> Result<(), ServerFailure> {
        if self.shared.stage < Stage::Near {
            self.check_distance()?;
        }
        let now = (self.now)();
        let is_known = self.held.is_some_and(|(asked, _)| now.since(asked) < LOOK);
        // While a key is held, the record of the name is kept, too.
        let hold = order.hold.map_or(0, |until| until.since(now) / 1_000_000);
        if !order.key.is_empty() && (!is_known || hold > 0) {
            // A claim lasts longer than the time until the next question.
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

    /// Asks whether the limits are those of the name, and keeps them on record for at least `keep` milliseconds.
    fn look(&mut self, keep: u64) -> Result<BookedSlots, ServerFailure> {
        let (key, nothing) = (self.key(b""), Order::new(Key::new(), [], 0));
        let request = BookingRequest { keep, ..BookingRequest::new(&key, &self.shared, &nothing) };
        self.nodes.ask(&key, |_, connection| request.ask(&self.booking, connection, &*self.now))
    }

    /// Books what an order asks for, and gives back those `given` slots that are from the node that is asked.
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
            // If the key has moved, the other slots are on another node's clock.
            let given: Vec<_> =
                given.iter().filter(|slot| slot.node == node).map(|slot| slot.micros).collect();
            let all = BookingRequest::new(&key, shared, order);
            let request = BookingRequest { charges: &charges, given: &given, ..all };
            let booked = request.ask(booking, connection, now)?;
            connection.replicate(replicas, true)?;
            Ok(Asked { node, charges, booked })
        })
    }

    /// The end of the hold of all keys, if it applies to an order.
    pub(super) fn held(&self, order: &Order) -> Option<Time> {
        let (_, held) = self.held.filter(|_| !order.key.is_empty() && order.is_for_slots())?;
        held.filter(|until| *until > (self.now)())
    }

    /// The answer to an order, with the hold of all keys if there is one.
    pub(super) fn heed(&self, order: &Order, answer: Answer) -> Answer {
        let Some(until) = self.held(order).max(answer.held) else { return answer };
        let ask_again = (order.count > 0).then(|| Hold::ask_again((self.now)(), until));
        Answer { ask_again, turn: order.turn, held: Some(until), ..answer }
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        redis_key(&self.nodes.server.name, key)
    }
}
