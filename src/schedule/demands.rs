//! What slots are needed for.

use std::rc::Rc;

use anyhow::{Result, ensure};

use super::batch::Batcher;
use super::lane::Lane;
use crate::charge::Key;
use crate::limiter::{ByClaim, Needed};
use crate::source::Items;

/// Slots that some lanes need, all for the same claim.
pub(super) struct Demand {
    pub(super) key: Key,
    pub(super) costs: Rc<[u64]>,
    pub(super) needed: Needed,
}

/// What the lanes need, gathered by claim.
pub(super) struct Demands {
    /// Whether each key has slots of its own.
    by_key: bool,
    /// The most that a release may cost under each limit.
    most: Vec<u64>,
    /// In the order of the lanes.
    all: Vec<Demand>,
    /// Where in `all` each claim stands.
    places: ByClaim<usize>,
}

impl Demands {
    pub(super) fn new(by_key: bool, most: Vec<u64>) -> Self {
        Demands { by_key, most, all: Vec::new(), places: ByClaim::default() }
    }

    /// Gathers what the lanes need. Of each, no more releases are looked at than `most`.
    ///
    /// # Errors
    /// An item costs more than the store ever grants.
    pub(super) fn gather<'a>(
        &mut self,
        lanes: impl Iterator<Item = &'a Lane>,
        batcher: &Batcher,
        most: u64,
    ) -> Result<()> {
        self.all.clear();
        self.places.clear();
        let batch = batcher.most_items();
        let most = most.saturating_mul(batch);
        for lane in lanes {
            let Some((front, since)) = lane.front().zip(lane.since()) else { continue };
            let (costs, count) = match batcher.sums_costs() {
                // What the batch after this one will cost is not known yet.
                true => (lane.composed().map(|open| Rc::clone(&open.costs)), 1),
                false => (lane.open().map(|open| Rc::clone(&open.costs)), lane.alike(most).div_ceil(batch)),
            };
            let Some(costs) = costs.filter(|costs| costs.iter().any(|&cost| cost > 0)) else { continue };
            self.check_ever_admitted(front, &costs)?;
            let key = self.key(lane).into();
            self.add(key, &costs, Needed { count, since });
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Demand> {
        self.all.iter()
    }

    /// How many slots for a claim are of use.
    pub(super) fn needed(&self, key: &[u8], costs: &[u64]) -> Needed {
        self.places.get(key, costs).map_or(Needed::default(), |place| self.all[*place].needed)
    }

    /// The key that a lane is charged to.
    pub(super) fn key<'a>(&self, lane: &'a Lane) -> &'a [u8] {
        let keys = lane.front().map(|front| &front.charge.keys).filter(|_| self.by_key);
        keys.and_then(|keys| keys.first()).map_or(&[], |key| key.as_slice())
    }

    fn add(&mut self, key: Key, costs: &Rc<[u64]>, needed: Needed) {
        let place = *self.places.get_or_insert_with(&key, costs, || self.all.len());
        match self.all.get_mut(place) {
            Some(Demand { needed: sum, .. }) => {
                sum.count += needed.count;
                sum.since = sum.since.min(needed.since);
            }
            None => self.all.push(Demand { key, costs: Rc::clone(costs), needed }),
        }
    }

    fn check_ever_admitted(&self, front: &Items, costs: &[u64]) -> Result<()> {
        for (most, cost) in self.most.iter().zip(costs) {
            ensure!(
                cost <= most,
                "item {}: its cost of {cost} is more than the shared limit ever admits, {most}",
                front.segment.first()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn lanes_that_are_charged_the_same_need_slots_together() {
        let [zero, one, two] = [0, 1, 2].map(Time);
        let mut demands = Demands::new(false, vec![9]);
        let (cheap, dear): (Rc<[u64]>, Rc<[u64]>) = ([1].into(), [2].into());
        for (costs, count, since) in [(&cheap, 3, two), (&dear, 1, zero), (&cheap, 2, one)] {
            demands.add(Key::new(), costs, Needed { count, since });
        }
        assert_eq!(demands.needed(&[], &cheap), Needed { count: 5, since: one });
        assert_eq!(demands.needed(&[], &dear), Needed { count: 1, since: zero });
        assert_eq!(demands.needed(b"a", &dear), Needed::default());
    }
}
