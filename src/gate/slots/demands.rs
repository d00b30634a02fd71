//! The slots that lanes need.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Result, ensure};
use foldhash::fast::RandomState;

use super::lease::Needed;
use super::{Order, Wanted, charged_key};
use crate::gate::charges::Claim;

/// The slots that some lanes need for one claim.
pub(super) struct Demand {
    pub(super) claim: Claim,
    pub(super) needed: Needed,
    /// More items might join some of the releases.
    pub(super) is_open: bool,
    /// Slots further ahead than this, in nanoseconds, are of no use.
    pub(super) within: u64,
}

/// The demands of all lanes, gathered by claim.
#[derive(Default)]
pub(super) struct Demands {
    /// In the order of the lanes.
    all: Vec<Demand>,
    /// The index in `all` of each claim.
    places: HashMap<Claim, usize, RandomState>,
}

impl Demand {
    /// An order for `count` slots.
    pub(super) fn order(&self, count: u64) -> Order {
        let (key, costs) = &self.claim;
        Order::new(key.clone(), &**costs, count)
    }
}

impl Demands {
    /// Gathers what the lanes want, except what costs nothing.
    ///
    /// # Errors
    /// An item costs more than the store ever grants: `dearest` under each limit.
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

    /// The slots that a claim needs.
    pub(super) fn needed(&self, claim: &Claim) -> Needed {
        self.places.get(claim).map_or(Needed::default(), |place| self.all[*place].needed)
    }

    fn add(&mut self, wanted: &Wanted, by_key: bool) {
        let &Wanted { since, costs, keys, count, is_open, within, .. } = wanted;
        let claim: Claim = (charged_key(keys, by_key).into(), Rc::clone(costs));
        let place = *self.places.entry(claim.clone()).or_insert(self.all.len());
        if place == self.all.len() {
            self.all.push(Demand { claim, needed: Needed { count: 0, since }, is_open, within });
        }
        let Demand { needed, is_open: is_any_open, within: longest, .. } = &mut self.all[place];
        needed.count += count;
        needed.since = needed.since.min(since);
        *is_any_open |= is_open;
        *longest = within.max(*longest);
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
            demands
                .add(&Wanted { since, costs, keys: &[], count, is_open: false, first: 1, within: 0 }, false);
        }
        let needed = |key: &[u8], costs: &Rc<[u64]>| demands.needed(&(key.into(), Rc::clone(costs)));
        assert_eq!(needed(&[], &cheap), Needed { count: 5, since: one });
        assert_eq!(needed(&[], &dear), Needed { count: 1, since: zero });
        assert_eq!(needed(b"a", &dear), Needed::default());
    }
}
