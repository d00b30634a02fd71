//! How limits charge an item: by values that are given, or that are selected from its text.

use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use super::{Error, ErrorKind};
use crate::charge::Key;
use crate::config::{Rate, Selector, key_indices, keys};
use crate::source::{Fields, only_key, parse_cost};

/// The costs of an item under each limit, and its keys; memory is allocated only for many or long ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Charges {
    pub(super) costs: SmallVec<[u64; 2]>,
    pub(super) keys: SmallVec<[Key; 1]>,
}

/// The charges of a set of limits.
pub(super) struct Values {
    rules: Vec<LimitCharge>,
    /// If every limit charges each item the cost that is given, whatever its key: the most that all of them admit.
    plain: Option<u64>,
    /// The names of the selected keys, then of the selected costs.
    names: Vec<String>,
    keys: usize,
    selectors: Vec<Selector>,
    /// The same parts of a text. An extractor has buffers of its own.
    fields: Mutex<Fields>,
}

/// How one limit charges.
struct LimitCharge {
    limit: String,
    cost: CostSource,
    /// The limit applies only to items whose key with this index is this.
    only: Option<(usize, Vec<u8>)>,
    most: Option<u64>,
}

#[derive(Clone, Copy)]
enum CostSource {
    /// 1, or what is given for all limits.
    Each,
    Constant(u64),
    /// The index among the names.
    Selected(usize),
}

impl Values {
    pub(super) fn new(rates: &[Rate]) -> Self {
        let mut selectors: Vec<Selector> = keys(rates).into_iter().cloned().collect();
        let keys = selectors.len();
        let mut cost = |rate: &Rate| match &rate.cost {
            None => CostSource::Each,
            Some(Selector::Constant(cost)) => CostSource::Constant(*cost),
            Some(selector) => {
                let known = selectors[keys..].iter().position(|other| other == selector);
                let at = known.unwrap_or_else(|| {
                    selectors.push(selector.clone());
                    selectors.len() - keys - 1
                });
                CostSource::Selected(keys + at)
            }
        };
        let rules = rates.iter().zip(key_indices(rates)).map(|(rate, key)| LimitCharge {
            limit: rate.to_string(),
            cost: cost(rate),
            only: key.zip(only_key(rate)),
            most: rate.most(),
        });
        let rules: Vec<LimitCharge> = rules.collect();
        let names: Vec<_> = selectors.iter().map(Selector::to_string).collect();
        let are_plain = names.is_empty() && rules.iter().all(|rule| matches!(rule.cost, CostSource::Each));
        let most = rules.iter().filter_map(|rule| rule.most).min().unwrap_or(u64::MAX);
        Values {
            plain: are_plain.then_some(most),
            rules,
            names,
            keys,
            fields: Mutex::new(Fields::new(&selectors, None)),
            selectors,
        }
    }

    /// True if there is one limit, which charges each item the cost that is given, whatever its key.
    pub(super) fn is_plain_one(&self) -> bool {
        self.plain.is_some() && self.rules.len() == 1
    }

    /// The charges of an item with one key for all limits by key, and one cost for all limits without a constant one.
    #[inline]
    pub(super) fn of(&self, key: &[u8], cost: u64) -> Result<Charges, Error> {
        if self.plain.is_some_and(|most| cost <= most) {
            let costs = match self.rules.len() {
                1 => SmallVec::from_buf_and_len([cost; 2], 1),
                rules => SmallVec::from_elem(cost, rules),
            };
            return Ok(Charges { costs, keys: SmallVec::new() });
        }
        let keys = (0..self.keys).map(|_| Key::from_slice(key)).collect();
        self.charges(keys, cost, |_| Ok(cost))
    }

    /// The charges of an item whose keys and costs are given by the names of their selectors.
    pub(super) fn named(&self, keys: &[(&str, &[u8])], costs: &[(&str, u64)]) -> Result<Charges, Error> {
        let known = |name: &str, names: &[String]| names.iter().any(|known| known == name);
        let (of_keys, of_costs) = self.names.split_at(self.keys);
        let unknown = keys.iter().map(|(name, _)| *name).find(|name| !known(name, of_keys));
        let unknown = unknown.or(costs.iter().map(|(name, _)| *name).find(|name| !known(name, of_costs)));
        if let Some(name) = unknown {
            return Err(Error::new(ErrorKind::InvalidItem, format!("no limit selects {name}")));
        }
        let key = |name: &String| keys.iter().find(|(given, _)| given == name);
        let keys = of_keys.iter().map(|name| Key::from_slice(key(name).map_or(&[], |(_, key)| key)));
        self.charges(keys.collect(), 1, |index| {
            let name = &self.names[index];
            let cost = costs.iter().find(|(given, _)| given == name);
            cost.map(|(_, cost)| *cost).ok_or_else(|| lacks_cost(name))
        })
    }

    /// The charges of an item as its text says.
    pub(super) fn selected(&self, text: &[u8]) -> Result<Charges, Error> {
        if self.names.is_empty() {
            return self.charges(SmallVec::new(), 1, |_| Ok(1));
        }
        let fields = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: SmallVec<[_; 4]> = fields.select(text, text.len()).collect();
        let keys = parts[..self.keys].iter().map(|part| Key::from_slice(part.as_deref().unwrap_or_default()));
        self.charges(keys.collect(), 1, |index| {
            let name = &self.names[index];
            let part = parts[index].as_deref().ok_or_else(|| lacks_cost(name))?;
            parse_cost(&self.selectors[index], part).ok_or_else(|| {
                let why = format!("the item's cost, {name}, is not a whole number below 2^64");
                Error::new(ErrorKind::InvalidItem, why)
            })
        })
    }

    fn charges(
        &self,
        keys: SmallVec<[Key; 1]>,
        each: u64,
        selected: impl Fn(usize) -> Result<u64, Error>,
    ) -> Result<Charges, Error> {
        let mut costs = SmallVec::new();
        for rule in &self.rules {
            let applies = rule.only.as_ref().is_none_or(|(key, only)| keys[*key].as_slice() == only);
            let cost = match rule.cost {
                _ if !applies => 0,
                CostSource::Each => each,
                CostSource::Constant(cost) => cost,
                CostSource::Selected(index) => selected(index)?,
            };
            if rule.most.is_some_and(|most| cost > most) {
                let why = format!("the item's cost of {cost} is more than {} ever admits", rule.limit);
                return Err(Error::new(ErrorKind::ExceedsLimit, why));
            }
            costs.push(cost);
        }
        Ok(Charges { costs, keys })
    }
}

#[cold]
fn lacks_cost(name: &str) -> Error {
    Error::new(ErrorKind::InvalidItem, format!("the item has no {name} for its cost"))
}
