//! The limits that all who share a state must agree on, margins included: where the user has given none, the first
//! process decides.

use super::{Policy, Reserve};
use crate::config::Rate;

/// The stages of what is known about a policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// It has not been looked at the state yet.
    Open,
    /// The margins are chosen, or given, and large enough.
    Agreed,
    /// The user has been told how much of the limits can be reached.
    Told,
}

pub(super) struct SharedPolicy {
    pub(super) policy: Policy,
    /// The limits as the user gave them; empty if there is no margin to choose.
    rates: Vec<Rate>,
    reserve: Reserve,
    stage: Stage,
}

impl SharedPolicy {
    pub(super) fn new(policy: Policy, rates: &[Rate], reserve: Reserve) -> Self {
        let lacks_margins = rates.iter().any(|rate| rate.margin == 0);
        let rates = if lacks_margins { rates.to_vec() } else { Vec::new() };
        SharedPolicy { policy, rates, reserve, stage: Stage::Open }
    }

    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// The margins are known.
    pub(super) fn close(&mut self) {
        self.stage = self.stage.max(Stage::Agreed);
    }

    /// True if margins are yet to be chosen.
    pub(super) fn lacks_margins(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Before anything is booked, chooses margins of at least `least` nanoseconds where none are given.
    pub(super) fn choose_margins(&mut self, least: u64) {
        let margins = self.rates.iter().map(|rate| self.reserve.margin(rate).max(least)).collect();
        self.policy = self.with(margins);
    }

    /// Adopts the policy that a state is kept for, if it differs from ours only by margins that are not given. Returns
    /// whether it does.
    pub(super) fn adopt(&mut self, theirs: &str) -> bool {
        let theirs_in_full = Policy::rates(theirs).unwrap_or_default();
        if self.rates.is_empty() || theirs_in_full.len() != self.rates.len() {
            return false;
        }
        let policy = self.with(theirs_in_full.iter().map(|rate| rate.margin).collect());
        let agrees = policy.text == theirs;
        if agrees {
            self.policy = policy;
            self.close();
        }
        agrees
    }

    /// The limits as the user gave them, once, when margins that are not given are known.
    pub(super) fn take_untold(&mut self) -> Option<Vec<Rate>> {
        let is_known = self.lacks_margins() && self.stage == Stage::Agreed;
        self.stage = Stage::Told;
        is_known.then(|| self.rates.clone())
    }

    /// The policy with these margins where none are given.
    fn with(&self, margins: Vec<u64>) -> Policy {
        let rate = |(rate, margin): (&Rate, u64)| match rate.margin {
            0 => Rate { margin, ..rate.clone() },
            _ => rate.clone(),
        };
        let rates: Vec<_> = self.rates.iter().zip(margins).map(rate).collect();
        Policy::new(&rates, self.reserve)
    }
}
