//! Checks the name that limits are kept under: the server is near enough, and all who use the name mean these limits.

use super::asking::Asker;
use super::distance::{CHOOSING, ROUND_TRIPS, required_margin, too_long};
use super::failure::ServerFailure;
use super::script::BookedSlots;
use super::shared_policy::{SharedPolicy, Stage};
use crate::store::hold::LOOK;
use crate::store::{Answer, Hold, Order};
use crate::time::Time;

#[derive(Default)]
pub(super) struct NameCheck {
    /// The instant of the last question, and the end of the hold of all keys as of then.
    held: Option<(Time, Option<Time>)>,
}

impl NameCheck {
    /// Checks, before anything is booked, that the server is near enough for these limits; and before keys are charged,
    /// and now and then, that all who use the name mean these limits.
    pub(super) fn check(
        &mut self,
        asker: &mut Asker,
        shared: &mut SharedPolicy,
        order: &Order,
    ) -> Result<(), ServerFailure> {
        if shared.stage < Stage::Near {
            let enough = shared.policy.deadline / ROUND_TRIPS;
            let longest = if shared.stage == Stage::Open { CHOOSING } else { u64::MAX };
            let (round_trip, BookedSlots { is_kept, .. }) =
                asker.probe(shared, order, 0, (enough, longest))?;
            match is_kept {
                true => shared.stage = Stage::Agreed,
                false => shared.choose_margins(required_margin(round_trip)),
            }
            let deadline = shared.policy.deadline;
            if round_trip > deadline / ROUND_TRIPS {
                let why = too_long(round_trip, deadline, is_kept);
                return Err(if is_kept { ServerFailure::away(why) } else { ServerFailure::refused(why) });
            }
            shared.stage = Stage::Near;
        }
        let now = (asker.now)();
        let is_known = self.held.is_some_and(|(asked, _)| now.since(asked) < LOOK);
        // As long as a key is held, it is on record that it belongs to the name.
        let hold = order.hold.map_or(0, |until| until.since(now) / 1_000_000);
        if !order.key.is_empty() && (!is_known || hold > 0) {
            // A claim lasts longer than it takes to ask again.
            let keep = shared.claim().saturating_add(hold);
            let (_, booked) = asker.probe(shared, order, keep, (u64::MAX, 0))?;
            self.held = Some((now, booked.held_until()));
        }
        Ok(())
    }

    /// The end of the hold of all keys, if it concerns an order.
    pub(super) fn held(&self, order: &Order, now: impl Fn() -> Time) -> Option<Time> {
        let (_, held) = self.held.filter(|_| !order.key.is_empty() && order.is_for_slots())?;
        held.filter(|until| *until > now())
    }

    /// The answer to an order, if all keys are held.
    pub(super) fn heed(&self, order: &Order, answer: Answer, now: impl Fn() -> Time) -> Answer {
        let Some(until) = self.held(order, &now).max(answer.held) else { return answer };
        let ask_again = (order.count > 0).then(|| Hold::ask_again(now(), until));
        Answer { ask_again, turn: order.turn, held: Some(until), ..answer }
    }
}
