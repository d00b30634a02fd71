//! What the rules of the process answer, in microseconds. The script must give the same answers.

#[path = "../single.rs"]
mod single;

use std::collections::HashMap;

use throttle::gate::{History, Limiter};
use throttle::rule::{Algorithm, AnyRule, AnyState, Ask, InHours, Terms, Verdict, Visitor};
use throttle::store::{Policy, Quota};
use throttle::time::{Civil, Time, Wall};

use self::single::single;

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
    rule: Rule,
    hours: Option<InHours>,
    /// The nanoseconds by which a release may be late.
    late: u64,
    /// The microseconds per unit, as a fraction.
    gap: (u64, u64),
    newest: u64,
}

enum Rule {
    /// In microseconds.
    AnyPeriod(Box<dyn Limiter>),
    /// In microseconds. A window leaves room for a late release.
    Windows(AnyRule, AnyState),
    /// In nanoseconds since 1970.
    Calendar(AnyRule, AnyState, Quota),
}

fn nanos(micros: u64) -> Time {
    Time(micros * 1000)
}

impl Limit {
    fn of(quota: &Quota, late: u64) -> Self {
        let windows = Terms::new(quota.terms.count, quota.terms.period.div_ceil(1000), 0);
        // N per P nanoseconds is 1000 N per P microseconds.
        let rates = Terms::new(quota.terms.count * 1000, quota.terms.period, quota.terms.burst);
        let terms = if quota.algorithm.facts().accrues && quota.terms.count > 0 { rates } else { windows };
        let gap = (terms.period, terms.count.max(1));
        let slots = |terms, late| {
            let rule = AnyRule::new(quota.algorithm, Terms { late, ..terms });
            let unused = rule.unused();
            (rule, unused)
        };
        let rule = match quota.algorithm {
            Algorithm::Calendar => {
                let (rule, account) = slots(quota.terms, late);
                Rule::Calendar(rule, account, quota.clone())
            }
            Algorithm::Fixed => {
                let (rule, account) = slots(terms, late / 1000);
                Rule::Windows(rule, account)
            }
            _ => Rule::AnyPeriod(single(quota.algorithm, terms)),
        };
        let hours = InHours::of(quota.during.as_deref(), Wall::EPOCH);
        Limit { rule, hours, late, gap, newest: 0 }
    }

    /// The first instant from `from` on at which a slot is allowed; `None` if there is none. Nothing is known of the
    /// calendar from `reach` on, so an instant there may turn out not to be allowed.
    fn earliest(&self, since: u64, from: u64, cost: u64, reach: u64) -> Option<u64> {
        let by_rule = match &self.rule {
            Rule::AnyPeriod(rule) => {
                match rule.opening(b"", Ask { since: Time(since), cost }, Time(from)).from {
                    Verdict::At(at) => Some(at.0),
                    Verdict::Never => None,
                }
            }
            Rule::Windows(rule, account) => {
                rule.earliest(account, Ask { since: Time(from), cost }).instant().map(|at| at.0)
            }
            Rule::Calendar(rule, account, quota) => {
                let at = rule.earliest(account, Ask { since: nanos(from), cost }).instant();
                at.map(|at| at.0.div_ceil(1000).min(first_unknown(quota, reach).max(from)))
            }
        };
        match self.first_free(from, reach) {
            Some(free) if free == from => Some(free),
            free => free.into_iter().chain(by_rule).min(),
        }
    }

    /// The first instant from `from` on at which the limit has not been asked for as long as a release may be late, nor
    /// is asked for as long again after a late release is over.
    fn first_free(&self, from: u64, reach: u64) -> Option<u64> {
        let hours = self.hours.as_ref()?;
        let mut at = Time(nanos(from).0.saturating_sub(self.late));
        let last = Time(nanos(reach).0 + 2 * self.late);
        loop {
            if hours.first(last, false).allows(at) {
                return Some((at.0 + self.late) / 1000);
            }
            let Verdict::At(free) = hours.first(at, false) else { return None };
            match hours.first(free, true) {
                Verdict::At(next) if next.since(free) <= 3 * self.late && next <= last => at = next,
                _ => return Some((free.0 + self.late) / 1000),
            }
        }
    }

    fn commit(&mut self, at: u64, ask: Ask) {
        let is_free = self.hours.as_ref().is_some_and(|hours| !hours.contain(nanos(at)));
        match &mut self.rule {
            Rule::AnyPeriod(rule) => {
                rule.commit(0, Time(at), ask);
                if is_free {
                    rule.waive_debt(0);
                }
            }
            Rule::Windows(rule, account) => rule.commit(account, Time(at), ask),
            Rule::Calendar(rule, account, _) => rule.commit(account, nanos(at), ask),
        }
    }

    /// Charges a release that was over only at `at`.
    fn overrun(&mut self, algorithm: Algorithm, at: u64, cost: u64) {
        let gap = (self.gap.0 * cost).div_ceil(self.gap.1);
        if let (Algorithm::Interval, Rule::AnyPeriod(rule)) = (algorithm, &self.rule)
            && let ask = (Ask { since: Time(at), cost })
            && let Verdict::At(next) = rule.opening(b"", ask, ask.since).from
            && next.0 >= at + gap
        {
            // Charges nothing if earlier charges already keep the next release away for as long.
            return;
        }
        self.commit(at, Ask { since: Time(at), cost });
    }
}

impl Model {
    pub(crate) fn new(policy: Policy) -> Self {
        Model { policy, by_key: HashMap::new() }
    }

    /// Charges `count` releases that were over only at `over`.
    pub(crate) fn overrun(&mut self, over: u64, key: &[u8], costs: &[u64], count: u64) {
        let Policy { quotas, deadline, .. } = &self.policy;
        let limits =
            &mut self.by_key.entry(key.to_vec()).or_insert_with(|| State::new(quotas, *deadline)).limits;
        let charged = limits.iter_mut().zip(costs).zip(quotas).filter(|((_, cost), _)| **cost > 0);
        let mut charged: Vec<_> = charged.collect();
        let at = charged.iter().map(|((limit, _), _)| limit.newest).fold(over, u64::max);
        for ((limit, cost), quota) in &mut charged {
            limit.overrun(quota.algorithm, at, **cost * count);
            limit.newest = at;
        }
    }

    /// Removes the turns of keys that are no longer kept.
    pub(crate) fn expire(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        let expired = self.by_key.iter_mut().filter(|(key, _)| !is_kept(key));
        expired.for_each(|(_, state)| state.turns = 0);
    }

    /// The slots of an order without a turn, at `now` in microseconds, and the turn that it gets.
    pub(crate) fn book(
        &mut self,
        now: u64,
        key: &[u8],
        costs: &[u64],
        count: u64,
    ) -> (Vec<u64>, Option<u64>) {
        let Policy { quotas, span, deadline, .. } = &self.policy;
        let horizon = self.policy.horizon / 1000;
        let State { limits, turns } =
            self.by_key.entry(key.to_vec()).or_insert_with(|| State::new(quotas, *deadline));
        let mut charged: Vec<_> = limits.iter_mut().zip(costs).filter(|(_, cost)| **cost > 0).collect();
        let mut since = charged.iter().map(|(limit, _)| limit.newest).fold(now, u64::max);
        let gap = charged.iter().map(|(limit, cost)| (limit.gap.0 * **cost).div_ceil(limit.gap.1)).max();
        let mut slots = Vec::new();
        let (mut most, mut its_turn) = (count, None);
        while (slots.len() as u64) < most {
            let Some(slot) = agreed(&charged, since, now + 2 * horizon) else { break };
            let is_first = slots.is_empty();
            let others_wait = *turns > now + horizon && slot > now + horizon / 2;
            if slot > now + horizon || (is_first && others_wait) {
                if is_first {
                    let turn = slot.max((*turns).min(now + 16 * horizon));
                    *turns = (*turns).max(turn + gap.expect("something is charged"));
                    its_turn = Some(turn);
                }
                break;
            }
            if is_first && slot > now + 100_000 {
                most = count.min(span.div_ceil(8));
            }
            for (limit, cost) in &mut charged {
                limit.commit(slot, Ask { since: Time(since), cost: **cost });
                limit.newest = slot;
            }
            slots.push(slot);
            since = slot;
        }
        (slots, its_turn)
    }
}

impl State {
    fn new(quotas: &[Quota], late: u64) -> Self {
        State { limits: quotas.iter().map(|quota| Limit::of(quota, late)).collect(), turns: 0 }
    }
}

/// When the first period that begins after `reach` opens.
fn first_unknown(quota: &Quota, reach: u64) -> u64 {
    let (civil, zone) = (Civil::new(quota.terms.period).unwrap(), quota.terms.zone.unwrap());
    let start = civil.around(zone, nanos(reach).0.into()).end;
    u64::try_from(start).unwrap() / 1000 + quota.terms.margin.div_ceil(1000)
}

/// The first instant from `since` on that all limits allow, as far as is known.
fn agreed(charged: &[(&mut Limit, &u64)], since: u64, reach: u64) -> Option<u64> {
    let mut from = since;
    loop {
        let answers = charged.iter().map(|(limit, cost)| limit.earliest(since, from, **cost, reach));
        let latest = answers.collect::<Option<Vec<_>>>()?.into_iter().fold(from, u64::max);
        if latest == from {
            return Some(from);
        }
        from = latest;
    }
}
