//! The slots that lanes need.

use std::rc::Rc;

use anyhow::{Result, ensure};

use super::by_claim::ByClaim;
use super::lease::Needed;
use super::{Wanted, charged_key};
use crate::charge::Key;

/// Slots that some lanes need, all for the same claim.
pub(super) struct Demand {
    pub(super) key: Key,
    pub(super) costs: Rc<[u64]>,
    pub(super) needed: Needed,
    /// More might join some of the releases.
    pub(super) is_open: bool,
}

/// The demands of all lanes, gathered by claim.
#[derive(Default)]
pub(super) struct Demands {
    /// In the order of the lanes.
    all: Vec<Demand>,
    /// The index in `all` of each claim.
    places: ByClaim<usize>,
}

impl Demands {
    /// Gathers what lanes want, of which some is charged nothing.
    ///
    /// # Errors
    /// An item costs more than the store ever grants, which is `dearest` under each limit.
    pub(super) fn gather<'a>(
        wanted: impl Iterator<Item = Wanted<'a>>,
        by_key: bool,
        dearest: &[u64],
    ) -> Result<Self> {
        let mut demands = Demands::default();
        for wanted in wanted.filter(|wanted| wanted.costs.iter().any(|&cost| cost > 0)) {
            check_ever_admitted(&wanted, dearest)?;
            demands.add(&wanted, by_key);
        }
        Ok(demands)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Demand> {
        self.all.iter()
    }

    /// The slots for a claim that are of use.
    pub(super) fn needed(&self, key: &[u8], costs: &[u64]) -> Needed {
        self.places.get(key, costs).map_or(Needed::default(), |place| self.all[*place].needed)
    }

    fn add(&mut self, wanted: &Wanted, by_key: bool) {
        let &Wanted { since, costs, keys, count, is_open, .. } = wanted;
        let key: Key = charged_key(keys, by_key).into();
        let place = *self.places.get_or_insert_with(&key, costs, || self.all.len());
        if place == self.all.len() {
            let needed = Needed { count: 0, since };
            self.all.push(Demand { key, costs: Rc::clone(costs), needed, is_open });
        }
        let Demand { needed, is_open: is_any_open, .. } = &mut self.all[place];
        needed.count += count;
        needed.since = needed.since.min(since);
        *is_any_open |= is_open;
    }
}

fn check_ever_admitted(wanted: &Wanted, dearest: &[u64]) -> Result<()> {
    for (most, cost) in dearest.iter().zip(wanted.costs.iter()) {
        ensure!(
            cost <= most,
            "item {}: its cost of {cost} is more than the shared limit ever admits, {most}",
            wanted.first
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn lanes_that_are_charged_the_same_need_slots_together() {
        let [zero, one, two] = [0, 1, 2].map(Time);
        let mut demands = Demands::default();
        let (cheap, dear): (Rc<[u64]>, Rc<[u64]>) = ([1].into(), [2].into());
        for (costs, count, since) in [(&cheap, 3, two), (&dear, 1, zero), (&cheap, 2, one)] {
            demands.add(&Wanted { since, costs, keys: &[], count, is_open: false, first: 1 }, false);
        }
        assert_eq!(demands.needed(&[], &cheap), Needed { count: 5, since: one });
        assert_eq!(demands.needed(&[], &dear), Needed { count: 1, since: zero });
        assert_eq!(demands.needed(b"a", &dear), Needed::default());
    }
}
