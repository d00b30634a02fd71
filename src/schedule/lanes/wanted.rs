//! The lanes as a store that books slots is told of them.

use super::Lanes;
use crate::gate::Wanted;
use crate::time::Time;

impl Lanes {
    /// The next release of each lane, and the number of such releases that it has, up to `most`. None waits beyond
    /// `latest`.
    pub(crate) fn wanted(
        &self,
        now: Time,
        latest: Option<Time>,
        most: u64,
    ) -> impl Iterator<Item = Wanted<'_>> {
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
            let latest = latest.into_iter().chain(self.discipline.deadline(front)).min();
            let within = latest.map_or(u64::MAX, |latest| latest.since(now));
            Some(Wanted { since, costs, keys, count, is_open, first, within })
        })
    }
}
