//! What the gate needs so that what waits can be released in time.

use super::batch::Batcher;
use super::lane::Lane;
use super::queue::Queue;
use super::{Action, Schedule};
use crate::exit::Exit;
use crate::gate::{Closed, Needs, Waiting, Wanted};
use crate::source::Capacity;
use crate::time::Time;

/// What waits, as the gate is told of it.
struct View<'a> {
    queue: &'a Queue,
    batcher: &'a Batcher,
    may_grow: bool,
}

impl Waiting for View<'_> {
    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn may_grow(&self) -> bool {
        self.may_grow
    }

    fn tell(&self, most: u64, each: &mut dyn FnMut(Wanted)) {
        for lane in self.queue.occupied() {
            let Some((front, since)) = lane.front().zip(lane.since()) else { continue };
            let first = front.segment.first();
            if first >= self.batcher.before() {
                continue;
            }
            let sums = self.batcher.sums_costs();
            // What the batch after this one will cost is not known yet.
            let next = if sums { lane.composed() } else { lane.open() };
            let Some(open) = next else { continue };
            let batch = self.batcher.most_items();
            let count = if sums { 1 } else { lane.alike(most.saturating_mul(batch)).div_ceil(batch) };
            let (costs, keys, is_open) = (&open.costs, &*front.charge.keys, sums && !lane.is_fixed());
            each(Wanted { since, costs, keys, count, is_open, first });
        }
    }
}

impl Schedule {
    /// Provides for what waits. Returns when to look again.
    pub(super) fn provide(&mut self, now: Time, capacity: Capacity, gathers: bool) -> Option<Time> {
        let is_over = self.stopping || self.has_released_all();
        let (gate, view) = (
            &mut self.rules.gate,
            View { queue: &self.queue, batcher: &self.rules.batcher, may_grow: gathers },
        );
        let needs = if is_over { Ok(gate.close(now)) } else { gate.prepare(now, &view, capacity.vacancies) };
        let Needs { orders, returned, closed, again } = needs.unwrap_or_else(|error| {
            self.give_up(Exit::Error, error);
            Needs::default()
        });
        self.actions.extend(returned.into_iter().map(|(order, slots)| Action::GiveBack(order, slots)));
        self.actions.extend(orders.into_iter().map(Action::Book));
        let changed = closed.iter().filter(|closed| self.fix(closed) && closed.has_slot).count();
        if changed > 0 { Some(now) } else { again }
    }

    /// Lets nothing more join releases. Returns whether something might have.
    fn fix(&mut self, closed: &Closed) -> bool {
        let is_meant = |lane: &Lane| {
            let key = lane.front().and_then(|front| front.charge.keys.first());
            closed.key.as_ref().is_none_or(|meant| key == Some(meant))
        };
        self.queue.fix(&closed.costs, is_meant, &self.rules)
    }
}
