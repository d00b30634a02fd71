//! The lanes as the gate sees them.

use super::Lanes;
use crate::gate::{Waiting, Wanted};

/// All lanes, for the gate. `may_grow`: more may arrive at this very instant that has to be there.
pub(crate) struct View<'a> {
    pub(crate) lanes: &'a Lanes,
    pub(crate) may_grow: bool,
}

impl Waiting for View<'_> {
    fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    fn may_grow(&self) -> bool {
        self.may_grow
    }

    fn tell(&self, most: u64, each: &mut dyn FnMut(Wanted)) {
        let batcher = &self.lanes.batcher;
        for lane in self.lanes.occupied() {
            let Some((front, since)) = lane.front().zip(lane.since()) else { continue };
            let first = front.segment.first();
            if first >= batcher.capacity.before {
                continue;
            }
            let sums = batcher.sums_costs();
            // What the batch after this one will cost is not known yet.
            let next = if sums { lane.composed() } else { lane.open.as_ref() };
            let Some(open) = next else { continue };
            let batch = batcher.most_items();
            let count = if sums { 1 } else { lane.alike(most.saturating_mul(batch)).div_ceil(batch) };
            let (costs, keys, is_open) = (&open.costs, &*front.charge.keys, sums && !lane.is_fixed());
            each(Wanted { since, costs, keys, count, is_open, first });
        }
    }
}
