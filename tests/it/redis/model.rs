//! What the rules of the process say, in microseconds: the script has to say the same.

use std::collections::HashMap;

use throttle::config::Algorithm;
use throttle::limiter::{Ask, Bucket, Fixed, Interval, Limiter, Single, Sliding, Terms, Verdict};
use throttle::store::{Policy, Quota};
use throttle::time::Time;

/// The limits of every key.
pub(crate) struct Model {
    policy: Policy,
    by_key: HashMap<Vec<u8>, Vec<Limit>>,
}

struct Limit {
    rule: Box<dyn Limiter>,
    newest: u64,
}

impl Limit {
    fn of(quota: &Quota) -> Self {
        let windows = Terms { count: quota.count, period: quota.period.div_ceil(1000), burst: 0 };
        // N per P nanoseconds is 1000 N per P microseconds.
        let rates = Terms { count: quota.count * 1000, period: quota.period, burst: quota.burst };
        let rule: Box<dyn Limiter> = match quota.algorithm {
            Algorithm::Sliding => Box::new(Single::new(Sliding::new(windows))),
            Algorithm::Fixed => Box::new(Single::new(Fixed::new(windows))),
            Algorithm::Bucket => Box::new(Single::new(Bucket::new(rates))),
            Algorithm::Interval => Box::new(Single::new(Interval::new(rates))),
        };
        Limit { rule, newest: 0 }
    }
}

impl Model {
    pub(crate) fn new(policy: Policy) -> Self {
        Model { policy, by_key: HashMap::new() }
    }

    /// The slots of an order, at `now` in microseconds.
    pub(crate) fn book(&mut self, now: u64, key: &[u8], costs: &[u64], count: u64) -> Vec<u64> {
        let quotas = &self.policy.quotas;
        let limits =
            self.by_key.entry(key.to_vec()).or_insert_with(|| quotas.iter().map(Limit::of).collect());
        let mut charged: Vec<_> = limits.iter_mut().zip(costs).filter(|(_, cost)| **cost > 0).collect();
        let mut since = charged.iter().map(|(limit, _)| limit.newest).fold(now, u64::max);
        let mut slots = Vec::new();
        for _ in 0..count {
            let ask = |cost| Ask { since: Time(since), cost };
            let answers = charged.iter().map(|(limit, cost)| limit.rule.earliest(b"", ask(**cost)));
            let Some(Verdict::At(Time(slot))) = answers.max() else { break };
            if slot > now + self.policy.horizon / 1000 {
                break;
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
