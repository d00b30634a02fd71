//! The lanes as a store that books slots is told of them.

use super::Lanes;
use crate::gate::Wanted;

impl Lanes {
    /// The next release of each lane, and the number of such releases that it has, up to `most`.
    pub(crate) fn wanted(&self, most: u64) -> impl Iterator<Item = Wanted<'_>> {
        let batcher = &self.batcher;
        self.occupied().filter_map(move |lane| {
            let (front, since) = lane.front().zip(lane.since())?;
            let first = Some(front.segment.first()).filter(|first| *first < batcher.capacity.before)?;
            let sums = batcher.sums_costs();
            // What the batch after this one will cost is not known yet.
            let open = if sums { lane.composed() } else { lane.open.as_ref() }?;
            let batch = batcher.most_items();
            let count = if sums { 1 } else { lane.alike(most.saturating_mul(batch)).div_ceil(batch) };
            let (costs, keys, is_open) = (&open.costs, &*front.charge.keys, sums && !lane.is_fixed());
            Some(Wanted { since, costs, keys, count, is_open, first })
        })
    }
}
