//! Other limits for a ledger: the history of past releases goes on.

use super::{AnyState, BookingRules, Ledger, Quota};
use crate::config::Rate;
use crate::gate::predecessor;
use crate::rule::{Ask, Terms};
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
    /// When the record was created; if later, one of the same key may have been evicted before.
    pub created: Time,
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
        let past = Past::new(old, ledger, change);
        let mut new =
            Ledger { newest: ledger.newest.min(past.last), hold: ledger.hold, ..self.begin(change.at) };
        let limits = self.policy.rates.iter().enumerate().zip(&mut new.accounts);
        let forgotten = limits.map(|((limit, rate), account)| {
            if let Some(source) = predecessor(rate, old.policy.rates.iter()) {
                return self.go_on(limit, account, &past, source);
            }
            let (last, rule) = (past.last_of_all()?, &self.rules[limit].rule);
            // A slot that is used late may be in the next period.
            let late = if rate.algorithm.spec().is_civil() { old.policy.validity } else { 0 };
            let until = last.saturating_add(late);
            *account = rule.unused();
            rule.quarantine(account, until);
            Some(until)
        });
        let forgotten: Box<[Option<Time>]> = forgotten.collect();
        if forgotten.iter().any(Option::is_some) {
            new.forgotten = forgotten;
        }
        new
    }

    /// Lets a limit go on from the account of an earlier one, the `source`. Returns the instant up to which releases
    /// may have been forgotten, if any may.
    fn go_on(&self, limit: usize, account: &mut AnyState, past: &Past, source: usize) -> Option<Time> {
        let Past { rules: old, ledger, change, last, .. } = past;
        let (rate, old_rate) = (&self.policy.rates[limit], &old.policy.rates[source]);
        let (rule, before) = (&self.rules[limit].rule, &old.rules[source].rule);
        let (dearest, knows_last) = (max_cost(old_rate), old_rate.algorithm.spec().keeps_gaps());
        let max_cost_of_both = dearest.max(max_cost(rate));
        let more = self.more_after(limit, max_cost_of_both);
        account.clone_from(&ledger.accounts[source]);
        // Of slots that are given up, the one before may matter for longer. Until those since the change, a bucket was
        // refilled as the old limit does.
        let refills = rate.algorithm.spec().has_burst() && old_rate != rate;
        if ledger.newest > *last || refills && ledger.newest > change.at {
            before.recede(account, last.saturating_add(more));
        }
        // What was too old when the last slot was booked is forgotten.
        before.expire(account, past.seen);
        let forgotten = past.forgotten(source, dearest, more);
        before.carry_over(account, rule, change.at, forgotten);
        if let Some(at) = past.known(source).filter(|_| knows_last) {
            // Its cost is not known: at most the N of the new limit.
            rule.overrun(account, at, Ask { eligible_at: at, cost: max_cost(rate) });
        }
        let hidden = old.hidden_by(source, max_cost_of_both, ledger.newest, change.began);
        let hidden = hidden.map(|(at, cost)| at.saturating_add(self.more_after(limit, cost)));
        // What is known of keys without a record is older.
        let evicted = forgotten.filter(|_| change.missing.is_some() && knows_last);
        hidden.into_iter().chain(evicted).for_each(|at| rule.exhaust(account, at));
        forgotten
    }

    /// A report whose costs were by earlier limits, with the most that it may cost under these.
    pub fn updated(&self, report: &Order) -> Order {
        let costs = self.policy.rates.iter().map(max_cost).collect::<Vec<_>>();
        Order { costs: costs.into(), ..report.clone() }
    }

    /// The instant up to which releases of this cost may have been forgotten by `at`, if any may. Of a key that
    /// `is_missing`, a window that is over is forgotten as a whole.
    fn forgotten_by(&self, limit: usize, cost: u64, at: Time, is_missing: bool) -> Option<Time> {
        let quota = &self.policy.quotas[limit];
        let (spec, rate) = (quota.algorithm.spec(), &self.policy.rates[limit]);
        let terms = Terms { wall: self.wall, ..quota.terms };
        let is_windowed = !spec.accrues && spec.civil(&terms).is_none();
        let is_gone = is_missing && spec.forgets_at_once(&terms);
        let memory = || if is_gone { 0 } else { spec.remembers_for(&terms, cost, at) };
        (is_windowed || rate.is_by_key()).then(|| Time(at.0.saturating_sub(memory())))
    }

    /// The last release that one at `last` may hide, if the rule knows only the last; with its cost, `dearest` at most,
    /// as it holds up others for the longest. Nothing was released before the state `began`.
    fn hidden_by(&self, limit: usize, dearest: u64, last: Time, began: Time) -> Option<(Time, u64)> {
        let Quota { algorithm, terms, .. } = &self.policy.quotas[limit];
        if !algorithm.spec().keeps_gaps() || self.policy.rates[limit].cost.is_none() {
            return None;
        }
        let most = u128::from(last.since(began)) * u128::from(terms.count) / u128::from(terms.period.max(1));
        let cost = u64::try_from(most).unwrap_or(u64::MAX).min(dearest);
        (cost > 0).then(|| (Time(last.0.saturating_sub(algorithm.spec().matters_for(terms, cost))), cost))
    }

    /// The nanoseconds by which a release of this cost holds up later ones for longer than one of cost 1.
    fn more_after(&self, limit: usize, cost: u64) -> u64 {
        let Quota { algorithm, terms, .. } = &self.policy.quotas[limit];
        let [it, one] = [cost, 1].map(|cost| algorithm.spec().matters_for(terms, cost));
        it.saturating_sub(one)
    }
}

/// What was kept under earlier limits until a change.
struct Past<'a> {
    rules: &'a BookingRules,
    ledger: &'a Ledger,
    change: Change,
    /// The last slot that counts: whoever uses a later one knows of the change.
    last: Time,
    /// What was too old as of this instant is forgotten.
    seen: Time,
}

impl<'a> Past<'a> {
    fn new(rules: &'a BookingRules, ledger: &'a Ledger, change: Change) -> Self {
        let last = ledger.newest.min(last_used(change)).max(change.quarantine.unwrap_or_default());
        let seen = change.missing.unwrap_or(ledger.newest.max(change.at));
        Past { rules, ledger, change, last, seen }
    }

    /// The instant up to which releases had been forgotten before. In a quarantine, the account counts no more than
    /// was allowed, but more may have been used.
    fn known(&self, limit: usize) -> Option<Time> {
        self.ledger.forgotten.get(limit).copied().flatten().max(self.change.quarantine)
    }

    /// The instant up to which releases of this cost may have been forgotten, if any may; they matter for `more`
    /// nanoseconds more than others.
    fn forgotten(&self, limit: usize, cost: u64, more: u64) -> Option<Time> {
        let Change { at, began, missing, .. } = self.change;
        let latest = if missing.is_some() { last_used(self.change) } else { self.last.max(at) };
        let evicted = self.rules.forgotten_by(limit, cost, self.seen, missing.is_some());
        let evicted = evicted.max(self.evicted_before(limit, cost));
        let evicted = evicted.map(|until| until.min(latest)).filter(|until| *until >= began);
        self.known(limit).max(evicted.map(|until| until.saturating_add(more)))
    }

    /// The instant up to which releases of this cost may have been forgotten with an earlier record of the key.
    fn evicted_before(&self, limit: usize, cost: u64) -> Option<Time> {
        let Change { began, created, .. } = self.change;
        (created > began).then(|| self.rules.forgotten_by(limit, cost, created, true)).flatten()
    }

    /// The last instant at which any of the limits may have been used, if they were.
    fn last_of_all(&self) -> Option<Time> {
        let (has_slots, is_used) =
            (self.ledger.newest > Time::ZERO, self.rules.fresh_from(self.ledger) > Time::ZERO);
        let of = |limit| {
            if self.change.missing.is_some() {
                // What costs least is forgotten first.
                return self.forgotten(limit, 1, 0);
            }
            let known = self.known(limit).max(self.evicted_before(limit, 1));
            known.map(|until| if has_slots { until.min(self.last) } else { until })
        };
        // A window of which nothing matters any more under its own rule may be in a period of another.
        let last = (has_slots || is_used).then_some(self.last);
        (0..self.rules.rules.len()).filter_map(of).chain(last).max()
    }
}

/// The last instant at which a slot can be used without knowing of a change.
fn last_used(change: Change) -> Time {
    change.at.saturating_add(GOOD_FOR)
}

/// The most that one release is assumed to have cost.
fn max_cost(rate: &Rate) -> u64 {
    if rate.cost.is_some() { rate.count.max(1) } else { 1 }
}
