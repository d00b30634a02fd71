//! Other limits for a ledger: the history of past releases goes on.

use super::{BookingRules, Ledger, Quota};
use crate::config::Rate;
use crate::gate::predecessor;
use crate::rule::{Extra, Terms};
use crate::store::Order;
use crate::time::{SECOND, Time};

/// The nanoseconds after an answer during which slots that were booked before are good, whatever happens meanwhile.
pub(in crate::store) const GOOD_FOR: u64 = 3 * SECOND;

/// When limits were replaced by others.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The instant.
    pub at: Time,
    /// When there was nothing yet.
    pub began: Time,
    /// The instant as of which everything counts as used up, if it does.
    pub quarantine: Option<Time>,
    /// For a key that has no record, when that was found.
    pub missing: Option<Time>,
}

impl BookingRules {
    /// The state, under these limits, of what was kept under `old` ones until a change.
    ///
    /// A limit goes on from the nearest one that counted the same releases by the same algorithm. If there is none, it
    /// counts as used up as of the last slot. Slots that nobody uses without knowing of the change are forgotten.
    ///
    /// A record that is missing may have been kept under the old limits, and evicted since: whatever they no longer
    /// remember may have been released, up to the last slot that can have been used without knowing of the change.
    pub fn carry_over(&self, old: &BookingRules, ledger: &Ledger, change: Change) -> Ledger {
        let Change { at, began, quarantine, missing } = change;
        let last_used = at.saturating_add(GOOD_FOR);
        let last = ledger.newest.min(last_used).max(quarantine.unwrap_or_default());
        let seen = missing.unwrap_or(ledger.newest.max(at));
        let latest = if missing.is_some() { last_used } else { last.max(at) };
        let known = |source: usize| ledger.forgotten.get(source).copied().flatten();
        let forgotten = |source: usize, cost: u64, more: u64| {
            let evicted = old.forgotten_by(source, cost, seen).map(|until| until.min(latest));
            known(source).max(evicted.filter(|until| *until >= began).map(|until| until.saturating_add(more)))
        };
        let (is_used, has_slots) = (old.fresh_from(ledger) > Time::ZERO, ledger.newest > Time::ZERO);
        let mut new = Ledger { newest: ledger.newest.min(last), hold: ledger.hold, ..self.begin(at) };
        let mut all_forgotten = vec![None; self.rules.len()];
        for (limit, rate) in self.policy.rates.iter().enumerate() {
            let (rule, account) = (&self.rules[limit].rule, &mut new.accounts[limit]);
            let Some(source) = predecessor(rate, old.policy.rates.iter()) else {
                let of_old = |source| match missing {
                    // What costs least is forgotten first.
                    Some(_) => forgotten(source, 1, 0),
                    None => known(source).map(|until| if has_slots { until.min(last) } else { until }),
                };
                // More may have been used than this limit allows, so the next one must not count on what it knows.
                all_forgotten[limit] =
                    (0..old.rules.len()).filter_map(of_old).chain(is_used.then_some(last)).max();
                if let Some(until) = all_forgotten[limit] {
                    *account = rule.unused();
                    rule.quarantine(account, until);
                }
                continue;
            };
            let (before, dearest) = (&old.rules[source].rule, max_cost(&old.policy.rates[source]));
            let more = self.more_after(limit, dearest.max(max_cost(rate)));
            account.clone_from(&ledger.accounts[source]);
            // Of slots that are given up, the one before may matter for longer; and those since the change may have
            // refilled a bucket as the old limit did.
            let refills = rate.algorithm.spec().takes(Extra::Burst) && old.policy.rates[source] != *rate;
            if ledger.newest > last || (more > 0 || refills) && ledger.newest > at {
                before.recede(account, last.saturating_add(more));
            }
            // What was too old when the last slot was booked is forgotten.
            before.expire(account, seen);
            all_forgotten[limit] = forgotten(source, dearest, more);
            before.carry_over(account, rule, at, all_forgotten[limit]);
            let hidden = old.hidden_by(source, dearest, ledger.newest).filter(|hidden| *hidden >= began);
            let hidden = hidden.map(|hidden| hidden.saturating_add(more));
            // What is known of keys without a record is older.
            let evicted = all_forgotten[limit].filter(|_| missing.is_some() && old.knows_last(source));
            hidden.into_iter().chain(evicted).for_each(|at| rule.exhaust(account, at));
        }
        if all_forgotten.iter().any(Option::is_some) {
            new.forgotten = all_forgotten.into();
        }
        new
    }

    /// A report whose costs were by earlier limits, with the most that it may cost under these.
    pub fn updated(&self, report: &Order) -> Order {
        let costs = self.policy.rates.iter().map(max_cost).collect::<Vec<_>>();
        Order { costs: costs.into(), ..report.clone() }
    }

    /// The instant up to which releases of this cost may have been forgotten by `at`, if any may.
    fn forgotten_by(&self, limit: usize, cost: u64, at: Time) -> Option<Time> {
        let quota = &self.policy.quotas[limit];
        let (spec, rate) = (quota.algorithm.spec(), &self.policy.rates[limit]);
        let terms = Terms { wall: self.wall, ..quota.terms };
        let is_windowed = !spec.accrues && spec.civil(&terms).is_none();
        let memory = || spec.remembers_for(&terms, cost, at);
        (is_windowed || rate.is_by_key()).then(|| Time(at.0.saturating_sub(memory())))
    }

    /// The instant up to which a release of this cost may be hidden by one at `last`, if the rule knows only the last.
    fn hidden_by(&self, limit: usize, cost: u64, last: Time) -> Option<Time> {
        let Quota { algorithm, terms, .. } = &self.policy.quotas[limit];
        let is_hidden = self.knows_last(limit) && self.policy.rates[limit].cost.is_some();
        last.0.checked_sub(algorithm.spec().matters_for(terms, cost)).filter(|_| is_hidden).map(Time)
    }

    /// True if a rule knows the last release only.
    fn knows_last(&self, limit: usize) -> bool {
        let spec = self.policy.quotas[limit].algorithm.spec();
        spec.accrues && !spec.takes(Extra::Burst)
    }

    /// The nanoseconds by which a release of this cost holds up later ones for longer than one of cost 1.
    fn more_after(&self, limit: usize, cost: u64) -> u64 {
        let Quota { algorithm, terms, .. } = &self.policy.quotas[limit];
        let [it, one] = [cost, 1].map(|cost| algorithm.spec().matters_for(terms, cost));
        it.saturating_sub(one)
    }
}

/// The most that one release is assumed to have cost.
fn max_cost(rate: &Rate) -> u64 {
    if rate.cost.is_some() { rate.count.max(1) } else { 1 }
}
