//! Properties of limits, known without asking them.

use std::rc::Rc;

use super::BookingTerms;
use crate::config::{Rate, Selector};

/// Properties of a gate, valid as long as its limits.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    /// The terms of batches.
    pub batches: BatchTerms,
    /// Nothing but the limits decides: neither other runs nor the ends of commands.
    pub is_foreseeable: bool,
    /// The answer *never* may change even if nothing is running.
    pub may_open: bool,
    /// Answers may depend on when an item became next in line, beyond never being earlier than that.
    pub depends_on_eligibility: bool,
}

/// The terms of releases that carry several items.
#[derive(Clone, Debug, Default)]
pub struct BatchTerms {
    /// For each limit: true if a batch is charged the sum of its items' costs, false if it is charged as one item.
    pub sums: Vec<bool>,
    /// For each limit, the most that it ever admits at once.
    pub most: Vec<Option<u64>>,
    /// The cost of a batch must be known before its release.
    pub is_ahead: bool,
}

impl BatchTerms {
    /// Adds the costs of an item to those of a batch.
    pub(crate) fn sum(&self, costs: &[u64], added: &[u64]) -> Rc<[u64]> {
        let pairs = costs.iter().zip(added).zip(&self.sums);
        pairs.map(|((&cost, &added), &sums)| if sums { cost.saturating_add(added) } else { cost }).collect()
    }
}

impl Properties {
    /// The properties of these limits, for the first of which a store books slots on `terms`.
    /// `depended_on_eligibility`: answers of the limits before these did.
    pub(super) fn new(rates: &[Rate], terms: Option<&BookingTerms>, depended_on_eligibility: bool) -> Self {
        let depends_on_eligibility = depended_on_eligibility || rates.iter().any(depends_on_eligibility);
        let of_slots = terms.map_or(&[][..], |terms| &terms.most);
        let most = of_slots.iter().copied().map(Some).chain(rates[of_slots.len()..].iter().map(Rate::most));
        let most = most.collect();
        let sums = rates.iter().map(|rate| rate.cost.is_some()).collect();
        Properties {
            batches: BatchTerms { sums, most, is_ahead: terms.is_some() },
            is_foreseeable: terms.is_none() && !rates.iter().any(Rate::counts_exits),
            may_open: terms.is_some() || rates.iter().any(Rate::pauses),
            depends_on_eligibility,
        }
    }
}

/// True if the limit's answer to some request may depend on `eligible_at`.
fn depends_on_eligibility(rate: &Rate) -> bool {
    rate.depends_on_eligibility(match rate.cost {
        None => 1,
        Some(Selector::Constant(cost)) => cost,
        Some(_) => u64::MAX,
    })
}
