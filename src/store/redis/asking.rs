//! What a server is asked: whether it is one for these limits, and for slots.

use super::RedisStore;
use super::calendar::Calendar;
use super::clock::Exchange;
use super::distance::{CHOOSING, ROUND_TRIPS, required_margin, round_trip, too_far, too_slow};
use super::failure::Failure;
use super::nodes::NodeId;
use super::returnable::NodeSlot;
use super::script::{BookedSlots, Charge, Request, Seen, redis_key};
use super::socket::Patience;
use crate::store::hold::LOOK;
use crate::store::{Answer, Hold, Order};
use crate::time::Time;

/// If slots are good for less than this, it matters that a server that has slept takes some tenths of a millisecond longer.
pub(super) const SHORT: u64 = 5_000_000;

/// What is told of a name when nothing is booked.
#[derive(Clone, Copy, Default)]
struct Probed {
    /// Whether the policy is in force.
    is_kept: bool,
    /// Until when all keys are held.
    held: Option<Time>,
}

/// A booking: who was asked for what, and what came of it.
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) charges: Vec<Charge>,
    pub(super) exchange: Exchange,
    pub(super) booked: BookedSlots,
}

impl Asked {
    /// Whether what is kept does not follow from what was seen before, of what still matters.
    pub(super) fn is_of_another_history(&self) -> bool {
        let is_another = |(charge, seen): (&Charge, &Seen)| {
            let known = charge.seen;
            known.epoch > 0 && known.epoch != seen.epoch && known.settled > self.booked.now
        };
        self.charges.iter().zip(&self.booked.seen).any(is_another)
    }

    pub(super) fn slots(&self) -> Vec<NodeSlot> {
        self.booked.slots.iter().map(|&micros| NodeSlot { node: self.node, micros }).collect()
    }
}

impl RedisStore {
    /// Before anything is booked: whether the server is near enough for these limits. Before keys are charged, and now and
    /// then: whether all who use the name mean these limits.
    pub(super) fn meet(&mut self, order: &Order, patience: Patience) -> Result<(), Failure> {
        if !self.is_near {
            let enough = self.policy().deadline / ROUND_TRIPS;
            let longest = if self.shared_policy.is_settled { u64::MAX } else { CHOOSING };
            let (round_trip, Probed { is_kept, .. }) = self.probe(order, 0, (enough, longest), patience)?;
            match is_kept {
                true => self.shared_policy.is_settled = true,
                false => self.shared_policy.settle(required_margin(round_trip)),
            }
            let deadline = self.policy().deadline;
            if round_trip > deadline / ROUND_TRIPS {
                return Err(match is_kept {
                    true => Failure::away(too_slow(round_trip, deadline)),
                    false => Failure::refused(too_far(round_trip, deadline)),
                });
            }
            self.is_near = true;
        }
        let now = (self.now)();
        let is_claimed = self.claimed_until.is_some_and(|until| until > now);
        let is_known = self.name_held.is_some_and(|(asked, _)| now.since(asked) < LOOK);
        let is_asked = is_claimed && is_known;
        if !order.key.is_empty() && !is_asked {
            let millis = if is_claimed { 0 } else { self.shared_policy.claim() };
            let (_, Probed { held, .. }) = self.probe(order, millis, (u64::MAX, 0), patience)?;
            self.name_held = Some((now, held));
            if !is_claimed {
                self.claimed_until = now.checked_add((millis.saturating_mul(1_000_000 / 2)).into());
            }
        }
        Ok(())
    }

    /// Until when an order for a key gets nothing, as all keys are held.
    pub(super) fn held_by_name(&self, order: &Order) -> Option<Time> {
        let (_, held) = self.name_held.filter(|_| !order.key.is_empty() && order.is_for_slots())?;
        held.filter(|until| *until > (self.now)())
    }

    /// What is said to an order, if all keys are held.
    pub(super) fn heed_name(&self, order: &Order, answer: Answer) -> Answer {
        let Some(until) = self.held_by_name(order).max(answer.held) else { return answer };
        let ask_again = (order.count > 0).then(|| Hold::ask_again((self.now)(), until));
        Answer { ask_again, turn: order.turn, held: Some(until), ..answer }
    }

    /// How long an answer takes that says whether the limits are those of the name, and whether they are in force.
    fn probe(
        &mut self,
        order: &Order,
        keep: u64,
        enough: (u64, u64),
        patience: Patience,
    ) -> Result<(u64, Probed), Failure> {
        let key = redis_key(self.server.name(), b"");
        let nothing = Request { keep, ..self.shared_policy.request(&key, order, self.began) };
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
        order: &Order,
        given: &[NodeSlot],
        patience: Patience,
    ) -> Result<Asked, Failure> {
        self.shared_policy.prepare(order)?;
        let key = redis_key(self.server.name(), &order.key);
        let nothing = self.shared_policy.request(&key, order, self.began);
        let (now, booking, observations, replicas) =
            (&self.now, &self.booking, &self.observations, self.server.replicas);
        self.nodes.ask(&key, patience, |node, connection| {
            connection.replicate(replicas, false)?;
            if nothing.policy.deadline < SHORT {
                booking.ask(connection, &nothing)?;
            }
            let mut charges = observations.charges(order, nothing.terms, node);
            let by_calendar = |charge: &&mut Charge| nothing.policy.quotas[charge.index].hours.is_some();
            for charge in charges.iter_mut().filter(by_calendar) {
                let shown = observations.shown_by(node, now());
                let quota = &nothing.policy.quotas[charge.index];
                charge.calendar = Calendar::around(shown, quota, nothing.policy);
            }
            // If the key has moved, the others are by another clock.
            let given: Vec<_> =
                given.iter().filter(|slot| slot.node == node).map(|slot| slot.micros).collect();
            let asked = now();
            // The script runs later than this, so it takes it to be later than it was.
            let ago = order.overrun.map_or(0, |over| asked.since(over) / 1000);
            let pause = order.hold.map_or(0, |until| until.since(asked).div_ceil(1000));
            let request = Request { charges: &charges, given: &given, ago, pause, ..nothing };
            let booked = booking.ask(connection, &request)?;
            let answered = now();
            connection.replicate(replicas, true)?;
            let exchange = Exchange { asked, server: booked.now, answered };
            Ok(Asked { node, charges, exchange, booked })
        })
    }
}
