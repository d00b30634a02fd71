//! Judges releases by the rules of the limits: asks when each would have been allowed, then commits it.

use super::tally::{Findings, Worst};
use crate::config::Rate;
use crate::gate::Opening;
use crate::rule::{AnyRule, AnyState, Ask, InHours, Terms, Window};
use crate::time::Time;

pub(super) struct Judged {
    /// Nanoseconds by which the release was too early, 0 if it was not; `None` if it is never allowed.
    pub(super) early: Option<u64>,
    /// The cost in the period that ends with the release, and the oldest instant in that period.
    pub(super) count: u64,
    pub(super) start: Time,
    /// True if the cost is higher than ever before, for this key.
    pub(super) is_worst: bool,
    /// The total cost of this key, as far as it is remembered.
    pub(super) total: u64,
}

/// The rule of a limit, with its terms and hours.
pub(super) struct Ruling {
    rule: AnyRule,
    rate: Rate,
    terms: Terms,
    /// `None` if the limit is always asked.
    hours: Option<InHours>,
}

/// The releases of all keys together, or of one key.
#[derive(Clone)]
pub(super) struct Released {
    state: AnyState,
    window: Window,
    /// The highest cost in a window.
    worst: u64,
    releases: u64,
    cost: u64,
    /// The number of releases that were too early, and the most nanoseconds by which one was. `None` for most keys.
    early: Option<Box<(u64, u64)>>,
}

impl Ruling {
    pub(super) fn new(rate: &Rate, terms: Terms) -> Self {
        let hours = InHours::of(rate.during.as_deref(), terms.wall);
        Ruling { rule: AnyRule::new(rate.algorithm, terms), rate: rate.clone(), terms, hours }
    }

    pub(super) fn unused(&self) -> Released {
        let state = self.rule.unused();
        Released { state, window: Window::default(), worst: 0, releases: 0, cost: 0, early: None }
    }

    /// Judges a release of non-zero cost. Instants must not decrease.
    pub(super) fn judge(&self, released: &mut Released, at: Time, cost: u64) -> Judged {
        let early = self.commit(released, at, cost).known().map(|allowed| allowed.since(at));
        released.window.push(at, cost, self.rule.spec().lasted(&self.terms, at), self.terms.count);
        released.releases += 1;
        released.cost = released.cost.saturating_add(cost);
        if early != Some(0) {
            let (violations, earliest) = &mut **released.early.get_or_insert_default();
            (*violations, *earliest) = (*violations + 1, early.unwrap_or(0).max(*earliest));
        }
        let count = released.window.cost();
        let is_worst = count > released.worst;
        released.worst = released.worst.max(count);
        Judged { early, count, start: released.window.start(), is_worst, total: released.cost }
    }

    /// Charges a release as it happened, allowed or not. Returns the instant from which it would have been allowed: at
    /// the latest, the first one outside the hours of the limit.
    ///
    /// It is not known when the release became next in line. If that makes a difference, it is assumed to have waited
    /// since the release before it; the first one, for as long as it had to.
    fn commit(&self, released: &mut Released, at: Time, cost: u64) -> Time {
        let (rule, Released { state, window, .. }) = (&self.rule, released);
        let ask = Ask { eligible_at: window.last().unwrap_or(at), cost };
        let free = self.hours.as_ref().map_or(Time::NEVER, |hours| hours.first(at, false));
        rule.expire(state, at);
        if free <= at {
            rule.commit(state, at, ask);
            rule.waive_debt(state);
            return at;
        }
        let allowed = Opening::of(rule, state, ask, 0, at).from.min(free);
        let may_have_waited = window.last().is_none() && self.rate.depends_on_eligibility(cost);
        if may_have_waited && allowed != Time::NEVER && allowed > at {
            rule.exhaust(state, at);
            return at;
        }
        rule.commit(state, at, ask);
        allowed
    }

    /// True if the releases of a key that is idle make no difference to later ones. How long a release may have waited
    /// depends on the release before it, however long ago that was.
    pub(super) fn forgets(&self) -> bool {
        let max_cost = if self.rate.cost.is_some() { u64::MAX } else { 1 };
        !self.rate.depends_on_eligibility(max_cost)
    }

    pub(super) fn is_idle(&self, Released { state, window, .. }: &Released, now: Time) -> bool {
        let is_over = window.last().is_none_or(|last| now.since(last) >= self.terms.period);
        is_over && self.rule.idle_at(state) <= now
    }
}

impl Released {
    pub(super) fn findings(&self) -> Findings {
        let (violations, earliest) = self.early.as_deref().copied().unwrap_or_default();
        Findings { releases: self.releases, violations, earliest, worst: Worst::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;

    /// The index of a key takes another 5 to 9 bytes.
    #[test]
    fn a_key_takes_little_memory() {
        assert!(size_of::<(Key, Released)>() <= 128, "{}", size_of::<(Key, Released)>());
    }
}
