//! The limits that all who share a state must agree on, margins included: where the user has given none, the first
//! process decides.

use super::clock::Micros;
use super::failure::ServerFailure;
use super::terms::{ScriptTerms, terms};
use crate::config::Rate;
use crate::exit::Exit;
use crate::store::{Order, Policy, Reserve};

/// The least milliseconds for which the policy of keys is on record.
const LEAST_CLAIM: u64 = 10_000;

/// The stages of what is known about a policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// Margins are yet to be chosen.
    Open,
    /// They are chosen, or given.
    Agreed,
    /// Slots last longer than an answer takes.
    Near,
    /// Something was booked, and the user has been told how much of the limits can be reached.
    Told,
}

pub(super) struct SharedPolicy {
    pub(super) policy: Policy,
    /// The policy in the numbers of the scripts; empty before the first booking.
    pub(super) terms: Vec<ScriptTerms>,
    /// The limits as the user gave them; empty if there is no margin to choose.
    pub(super) rates: Vec<Rate>,
    pub(super) stage: Stage,
    /// The instant of the server's first answer, by its clock; 0 before.
    pub(super) began: Micros,
}

impl SharedPolicy {
    pub(super) fn new(policy: Policy, rates: &[Rate]) -> Self {
        let is_open = rates.iter().any(|rate| rate.margin == 0);
        let rates = if is_open { rates.to_vec() } else { Vec::new() };
        let stage = if is_open { Stage::Open } else { Stage::Agreed };
        SharedPolicy { policy, terms: Vec::new(), rates, stage, began: 0 }
    }

    /// # Errors
    /// Redis cannot keep these limits, or costs, exactly.
    pub(super) fn prepare(&mut self, order: &Order) -> Result<(), ServerFailure> {
        let mut prepare = || {
            if self.terms.is_empty() {
                self.terms = terms(&self.policy)?;
            }
            self.terms.iter().zip(&order.costs).try_for_each(|(terms, &cost)| terms.ensure_exact(cost))
        };
        prepare().map_err(|error| ServerFailure::bad(Exit::Usage, error))
    }

    /// The milliseconds for which it is on record that no one uses the name for other limits.
    pub(super) fn claim(&self) -> u64 {
        let longest = self.policy.quotas.iter().map(|quota| quota.terms.period).max().unwrap_or(0);
        (longest / 1_000_000).saturating_add(LEAST_CLAIM)
    }

    /// Before anything is booked, chooses margins of at least `least` nanoseconds where none are given.
    pub(super) fn choose_margins(&mut self, least: u64) {
        if self.stage == Stage::Open {
            let margins = self.rates.iter().map(|rate| Reserve::REMOTE.margin(rate).max(least)).collect();
            self.change_to(self.with(margins));
        }
    }

    /// Adopts the policy that a state is kept for, if it differs from ours only by margins that are not given. Returns
    /// whether it does.
    pub(super) fn adopt(&mut self, theirs: &str) -> bool {
        let theirs_in_full = Policy::rates(theirs).unwrap_or_default();
        if self.rates.is_empty() || theirs_in_full.len() != self.rates.len() {
            return false;
        }
        let policy = self.with(theirs_in_full.iter().map(|rate| rate.margin).collect());
        let agrees = policy.text == theirs && policy.text != self.policy.text;
        if agrees {
            self.change_to(policy);
        }
        agrees
    }

    fn change_to(&mut self, policy: Policy) {
        self.stage = Stage::Agreed;
        self.policy = policy;
        self.terms.clear();
    }

    /// The policy with these margins where none are given.
    fn with(&self, margins: Vec<u64>) -> Policy {
        let rate = |(rate, margin): (&Rate, u64)| match rate.margin {
            0 => Rate { margin, ..rate.clone() },
            _ => rate.clone(),
        };
        let rates: Vec<_> = self.rates.iter().zip(margins).map(rate).collect();
        Policy::new(&rates, Reserve::REMOTE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(texts: &[&str]) -> Vec<Rate> {
        let rate = |text: &&str| text.parse::<Rate>().unwrap();
        texts.iter().map(rate).collect()
    }

    fn policy(texts: &[&str]) -> Policy {
        Policy::new(&rates(texts), Reserve::REMOTE)
    }

    fn given(texts: &[&str]) -> SharedPolicy {
        SharedPolicy::new(policy(texts), &rates(texts))
    }

    #[test]
    fn a_margin_is_as_long_as_the_way_demands_unless_it_is_given() {
        let texts = ["10/s", "9/s,margin=5ms"];
        let chosen = |texts: &[&str], least| {
            let mut shared_policy = given(texts);
            shared_policy.choose_margins(least);
            shared_policy.choose_margins(2 * least);
            shared_policy.policy
        };
        assert_eq!(chosen(&texts, 1_000_000), policy(&texts), "20 ms are more");
        assert_eq!(chosen(&texts, 30_000_000), policy(&["10/s,margin=30ms", "9/s,margin=5ms"]));
        assert_eq!(chosen(&texts[1..], 30_000_000), policy(&texts[1..]));
    }

    #[test]
    fn whoever_is_first_decides_on_margins_and_on_nothing_else() {
        let theirs = ["10/s,margin=30ms", "9/s,margin=5ms"];
        let mut ours = given(&["10/s", "9/s,margin=5ms"]);
        assert!(ours.adopt(&policy(&theirs).text) && ours.policy == policy(&theirs));
        assert!(!ours.adopt(&policy(&theirs).text), "nothing changes");
        for other in
            [&["10/s,margin=40ms", "9/s,margin=6ms"][..], &["11/s,margin=30ms", "9/s,margin=5ms"], &["10/s"]]
        {
            assert!(!ours.adopt(&policy(other).text) && ours.policy == policy(&theirs), "{other:?}");
        }
        assert!(!given(&["9/s,margin=5ms"]).adopt(&policy(&["9/s,margin=6ms"]).text));
        assert!(!ours.adopt("nonsense"));
    }
}
