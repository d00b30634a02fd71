//! Checks a server's answers, and turns them into those of a store.

use super::RedisStore;
use super::asked::Asked;
use super::asking::Asker;
use super::clock::Micros;
use super::distance::too_long;
use super::failure::ServerFailure;
use super::script::Found;
use crate::store::ledger::PAUSE;
use crate::store::{Answer, BookedBy, Order, Slot};

const LOST: &str = "it has lost earlier bookings";

impl RedisStore {
    /// Why an answer cannot be trusted, if it cannot. The next question says so.
    pub(super) fn check_clock(&mut self, order: &Order, asked: &Asked) -> Option<&'static str> {
        let terms = &self.asker.shared.terms;
        let memories = asked.charges.iter().map(|charge| terms[charge.index].memory(charge.cost));
        // The nanoseconds for which a slot may matter.
        let memory = memories.max().unwrap_or(0).saturating_mul(1000).saturating_add(self.policy().horizon);
        let deadline = self.policy().deadline;
        self.asker.observations.check_clock(&order.key, asked, deadline, memory)
    }

    pub(super) fn observe(&mut self, order: &Order, asked: &Asked) {
        match asked.booked.found {
            Found::SetBack => self.warn("its clock was set back"),
            Found::Lost => self.warn(LOST),
            // Another process has noticed already.
            Found::Nothing if asked.is_of_another_history() => self.warn(LOST),
            Found::Nothing | Found::Distrusted | Found::NotCovered => {}
        }
        let Asker { shared, observations, .. } = &mut self.asker;
        if shared.began == 0 {
            shared.began = asked.booked.exchange.server;
        }
        observations.add(&order.key, asked, shared.policy.quotas.len());
    }

    pub(super) fn warn(&mut self, what: &str) {
        let server = &self.asker.nodes.server;
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
        let turn = booked.turn.map(|turn| exchange.not_before(turn.0));
        let first = slots.first().map(|slot| slot.at).or(turn);
        let silent_until = first.filter(|_| warning.is_some());
        let overruns = self.asker.observations.overruns(&order.key, self.policy().quotas.len(), exchange);
        let (turn, held) = (booked.turn, booked.held_until());
        let times_set = self.asker.observations.times_set();
        let booked_by = self.policy().goes_by_wall().then_some(BookedBy::Server(times_set));
        Ok(Answer { slots, ask_again, next, turn, warning, silent_until, held, overruns, booked_by })
    }
}
