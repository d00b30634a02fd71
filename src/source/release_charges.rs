//! The charges of records that are released together.

use std::collections::HashMap;

use super::Charger;
use crate::charge::{Draft, Key};

/// The charges of one release. A limit with `cost=` is charged the sum of the costs, any other limit 1; a limit with a
/// key, separately for each key.
#[derive(Default)]
pub(crate) struct ReleaseCharges {
    /// One, if all keys are the same.
    pub(crate) charges: Vec<Draft>,
    /// The index of the charge for a limit and a key, unless it is the first.
    places: HashMap<(usize, Key), usize>,
}

impl ReleaseCharges {
    /// Adds a record that `charger` has charged.
    pub(crate) fn add(&mut self, charger: &Charger, mut record: Draft) {
        let Some(first) = self.charges.first() else { return self.charges.push(record) };
        let has_same_keys = first.keys == record.keys;
        for (limit, rule) in charger.limits.iter().enumerate() {
            let place = if has_same_keys { 0 } else { self.place(limit, rule.key, &record) };
            if let Some(charge) = self.charges.get_mut(place) {
                let (cost, added) = (&mut charge.costs[limit], std::mem::take(&mut record.costs[limit]));
                *cost = if rule.sums { cost.saturating_add(added) } else { added.max(*cost) };
            }
        }
        if record.costs.iter().any(|cost| *cost > 0) {
            self.charges.push(record);
        }
    }

    /// The index of the charge to which a limit adds a record; the next index if there is none yet.
    fn place(&mut self, limit: usize, key: Option<usize>, record: &Draft) -> usize {
        if let Some(key) = key
            && record.costs[limit] > 0
            && record.keys[key] != self.charges[0].keys[key]
        {
            return *self.places.entry((limit, record.keys[key].clone())).or_insert(self.charges.len());
        }
        0
    }
}
