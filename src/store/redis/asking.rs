//! Questions to a server: for slots; and, before any are booked, whether it is near enough for these limits, and
//! whether all processes that use the name mean these limits. Checks the answers, and turns them into those of a store.

use std::mem;

use super::RedisStore;
use super::clock::Micros;
use super::distance::{CHOOSING, ROUND_TRIPS, required_margin, round_trip, too_long};
use super::failure::ServerFailure;
use super::returnable::NodeSlot;
use super::script::{Asked, BookedSlots, BookingRequest, Found, redis_key};
use super::shared_policy::Stage;
use crate::charge::Key;
use crate::store::hold::LOOK;
use crate::store::ledger::PAUSE;
use crate::store::{Answer, BookedBy, Hold, Order, Slot};
use crate::time::Time;

/// If slots are valid for less than this, in nanoseconds, it matters that a server takes tenths of a millisecond to
/// wake up.
pub(super) const SHORT: u64 = 5_000_000;

const LOST: &str = "it has lost earlier bookings";

impl RedisStore {
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
        let RedisStore { now, booking, nodes, shared, observations, .. } = self;
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

    /// Why an answer cannot be trusted, if it cannot. The next question says so.
    pub(super) fn check_clock(&mut self, order: &Order, asked: &Asked) -> Option<&'static str> {
        let terms = &self.shared.terms;
        let memories = asked.charges.iter().map(|charge| terms[charge.index].memory(charge.cost));
        // The nanoseconds for which a slot may matter.
        let memory = memories.max().unwrap_or(0).saturating_mul(1000).saturating_add(self.policy().horizon);
        let deadline = self.policy().deadline;
        self.observations.check_clock(&order.key, asked, deadline, memory)
    }

    pub(super) fn observe(&mut self, order: &Order, asked: &Asked) {
        self.is_lost |= asked.is_after_loss();
        match asked.booked.found {
            Found::SetBack => self.warn("its clock was set back"),
            Found::Distrusted => {}
            // Perhaps another process has noticed already.
            _ if asked.is_after_loss() => self.warn(LOST),
            Found::Nothing | Found::Lost | Found::NotCovered => {}
        }
        if self.shared.began == 0 {
            self.shared.began = asked.booked.exchange.server;
        }
        self.observations.add(&order.key, asked, self.shared.policy.quotas.len());
    }

    pub(super) fn warn(&mut self, what: &str) {
        let server = &self.nodes.server;
        self.warning.get_or_insert_with(|| format!("{server}: {what}"));
    }

    pub(super) fn answer(&mut self, order: &Order, asked: &Asked) -> Result<Answer, ServerFailure> {
        let Asked { node, booked, .. } = asked;
        let exchange = &booked.exchange;
        let deadline = self.policy().deadline;
        let slot = |&micros: &Micros| exchange.slot(micros, deadline).map(|slot| (slot, micros));
        let slots: Vec<_> = booked.slots.iter().filter_map(slot).collect();
        if slots.is_empty() && !booked.slots.is_empty() {
            return Err(ServerFailure::away(too_long(exchange.round_trip(), deadline, true)));
        }
        self.returnable.add(order, *node, &slots, exchange.answered);
        let slots: Vec<Slot> = slots.into_iter().map(|(slot, _)| slot).collect();
        let not_before = |at| exchange.not_before(at).saturating_add(PAUSE);
        let ask_again = booked.ask_again.map(not_before);
        let next = booked.next.map(|at| exchange.not_before(at));
        let warning = self.warning.take();
        let overruns = self.observations.overruns(&order.key, self.policy().quotas.len(), exchange);
        let (turn, held) = (booked.turn, booked.held_until());
        let times_set = self.observations.times_set();
        let booked_by = self.policy().goes_by_wall().then_some(BookedBy::Server(times_set));
        let lost = mem::take(&mut self.is_lost);
        Ok(Answer { slots, ask_again, next, turn, warning, lost, held, overruns, booked_by })
    }
}
