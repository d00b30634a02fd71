//! What the rules of the process say, in microseconds: the script has to say the same.

use std::collections::HashMap;

use throttle::gate::{Limiter, Single};
use throttle::rule::{Algorithm, Ask, Named, Terms, Verdict, Visitor};
use throttle::store::{Policy, Quota};
use throttle::time::Time;

/// The limits of every key.
pub(crate) struct Model {
    policy: Policy,
    by_key: HashMap<Vec<u8>, State>,
}

struct State {
    limits: Vec<Limit>,
    /// The first instant that no turn is for.
    turns: u64,
}

struct Limit {
    rule: Box<dyn Limiter>,
    /// One unit in so many microseconds, as a fraction.
    gap: (u64, u64),
    newest: u64,
}

/// A limiter of one history, for all items.
struct Alone(Terms);

impl Visitor for Alone {
    type Output = Box<dyn Limiter>;

    fn visit<R: Named>(self) -> Box<dyn Limiter> {
        Box::new(Single::new(R::new(self.0)))
    }
}

impl Limit {
    fn of(quota: &Quota) -> Self {
        let windows = Terms::new(quota.count, quota.period.div_ceil(1000), 0);
        // N per P nanoseconds is 1000 N per P microseconds.
        let rates = Terms::new(quota.count * 1000, quota.period, quota.burst);
        let terms = if quota.algorithm.facts().accrues { rates } else { windows };
        let gap = (terms.period, terms.count);
        Limit { rule: quota.algorithm.visit(Alone(terms)), gap, newest: 0 }
    }
}

impl Model {
    pub(crate) fn new(policy: Policy) -> Self {
        Model { policy, by_key: HashMap::new() }
    }

    /// Charges `count` releases that were over only at `over`.
    pub(crate) fn overrun(&mut self, over: u64, key: &[u8], costs: &[u64], count: u64) {
        let quotas = &self.policy.quotas;
        let new = || State { limits: quotas.iter().map(Limit::of).collect(), turns: 0 };
        let limits = &mut self.by_key.entry(key.to_vec()).or_insert_with(new).limits;
        let charged = limits.iter_mut().zip(costs).zip(quotas).filter(|((_, cost), _)| **cost > 0);
        let mut charged: Vec<_> = charged.collect();
        let at = charged.iter().map(|((limit, _), _)| limit.newest).fold(over, u64::max);
        for ((limit, cost), quota) in &mut charged {
            let ask = Ask { since: Time(at), cost: **cost * count };
            let gap = (limit.gap.0 * ask.cost).div_ceil(limit.gap.1);
            match (quota.algorithm, limit.rule.opening(b"", ask, ask.since).from) {
                // Not at all if what is ahead keeps the next one away for as long.
                (Algorithm::Interval, Verdict::At(next)) if next.0 >= at + gap => {}
                _ => limit.rule.commit(0, Time(at), ask),
            }
            limit.newest = at;
        }
    }

    /// The slots of an order that has no turn, at `now` in microseconds.
    pub(crate) fn book(&mut self, now: u64, key: &[u8], costs: &[u64], count: u64) -> Vec<u64> {
        let Policy { quotas, span, .. } = &self.policy;
        let horizon = self.policy.horizon / 1000;
        let new = || State { limits: quotas.iter().map(Limit::of).collect(), turns: 0 };
        let State { limits, turns } = self.by_key.entry(key.to_vec()).or_insert_with(new);
        let mut charged: Vec<_> = limits.iter_mut().zip(costs).filter(|(_, cost)| **cost > 0).collect();
        let mut since = charged.iter().map(|(limit, _)| limit.newest).fold(now, u64::max);
        let gap = charged.iter().map(|(limit, cost)| (limit.gap.0 * **cost).div_ceil(limit.gap.1)).max();
        let mut slots = Vec::new();
        let mut most = count;
        while (slots.len() as u64) < most {
            let ask = |cost| Ask { since: Time(since), cost };
            let answers =
                charged.iter().map(|(limit, cost)| limit.rule.opening(b"", ask(**cost), Time(0)).from);
            let Some(Verdict::At(Time(slot))) = answers.max() else { break };
            let is_first = slots.is_empty();
            let others_wait = *turns > now + horizon && slot > now + horizon / 2;
            if slot > now + horizon || (is_first && others_wait) {
                if is_first {
                    let turn = slot.max((*turns).min(now + 16 * horizon));
                    *turns = (*turns).max(turn + gap.expect("something is charged"));
                }
                break;
            }
            if is_first && slot > now + 100_000 {
                most = count.min(span.div_ceil(8));
            }
            for (limit, cost) in &mut charged {
                limit.rule.commit(0, Time(slot), ask(**cost));
                limit.newest = slot;
            }
            slots.push(slot);
            since = slot;
        }
        slots
    }
}
