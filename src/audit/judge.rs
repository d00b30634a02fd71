//! Releases, judged by the rules that limiters go by: asked when each would have been allowed, and told that it
//! happened.

use super::tally::{Numbers, Worst};
use super::window::Window;
use crate::config::Rate;
use crate::gate::{Accounts, Opening};
use crate::rule::{Ask, InHours, NamedRule, Terms, Verdict, Visitor};
use crate::time::{Time, Wall};

/// A limit that judges what was released, by all or by each key.
pub(super) trait Judge {
    /// Judges a release, of a cost that is not 0. Instants must not decrease.
    fn judge(&mut self, key: &[u8], at: Time, cost: u64) -> Judged;

    /// The number of keys that it remembers.
    fn keys(&self) -> usize;

    /// Zero for a key that it does not remember.
    fn numbers(&self, key: &[u8]) -> Numbers;

    /// Calls `each` with the keys that it remembers.
    fn for_each_key(&self, each: &mut dyn FnMut(&[u8]));

    /// Forgets keys whose next release will be judged the same without what is known of the last ones, and gives them
    /// to `each`. None will be before `now`.
    fn evict(&mut self, now: Time, each: &mut dyn FnMut(&[u8], Numbers));
}

pub(super) struct Judged {
    /// The instant from which it would have been allowed.
    pub(super) verdict: Verdict,
    /// The cost in the period that ends with it, and the oldest instant of that.
    pub(super) count: u64,
    pub(super) start: Time,
    /// For this key, there never was as much.
    pub(super) is_worst: bool,
}

pub(super) fn judge(rate: &Rate, terms: Terms) -> Box<dyn Judge> {
    rate.algorithm.visit(BuildJudge(rate, terms))
}

struct BuildJudge<'a>(&'a Rate, Terms);

impl Visitor for BuildJudge<'_> {
    type Output = Box<dyn Judge>;

    fn visit<R: NamedRule>(self) -> Box<dyn Judge> {
        let BuildJudge(rate, terms) = self;
        // Stamps tell the time by the clock on the wall.
        let hours = rate.during().map(|hours| InHours::new(hours.clone(), Wall::EPOCH));
        let ruling = Ruling { rule: R::new(terms), rate: rate.clone(), terms, hours };
        Box::new(Ruled { ruling, released: Accounts::new(rate.key.is_some()) })
    }
}

/// A rule, with what was released under it.
struct Ruled<R: NamedRule> {
    ruling: Ruling<R>,
    released: Accounts<Released<R::State>>,
}

/// A rule as a limit has it.
struct Ruling<R: NamedRule> {
    rule: R,
    rate: Rate,
    terms: Terms,
    /// `None` if it is asked always.
    hours: Option<InHours>,
}

/// The releases of all, or of one key.
#[derive(Clone, Default)]
struct Released<S> {
    state: S,
    window: Window,
    /// The most that was in a window.
    worst: u64,
    releases: u64,
    /// The number that were too early, and the most nanoseconds by which one was. Most keys have none.
    early: Option<Box<(u64, u64)>>,
}

impl<R: NamedRule> Judge for Ruled<R> {
    fn judge(&mut self, key: &[u8], at: Time, cost: u64) -> Judged {
        let account = self.released.account(key);
        self.ruling.judge(self.released.get_mut(account), at, cost)
    }

    fn keys(&self) -> usize {
        self.released.len()
    }

    fn numbers(&self, key: &[u8]) -> Numbers {
        self.released.of(key).numbers()
    }

    fn for_each_key(&self, each: &mut dyn FnMut(&[u8])) {
        self.released.keys().for_each(each);
    }

    fn evict(&mut self, now: Time, each: &mut dyn FnMut(&[u8], Numbers)) {
        let Ruled { ruling, released } = self;
        // How long a release may have waited depends on the release before it, however long ago that was.
        let dearest = if ruling.rate.cost.is_some() { u64::MAX } else { 1 };
        if ruling.rate.depends_on_since(dearest) {
            return;
        }
        released.retain(|key, account| {
            let is_idle = ruling.is_idle(account, now);
            if is_idle {
                each(key, account.numbers());
            }
            !is_idle
        });
    }
}

impl<R: NamedRule> Ruling<R> {
    fn judge(&self, released: &mut Released<R::State>, at: Time, cost: u64) -> Judged {
        let verdict = self.commit(released, at, cost);
        released.window.push(at, cost, R::FACTS.lasted(&self.terms, at), self.terms.count);
        released.releases += 1;
        if !verdict.allows(at) {
            let (violations, earliest) = &mut **released.early.get_or_insert_default();
            (*violations, *earliest) = (*violations + 1, by(verdict, at).unwrap_or(0).max(*earliest));
        }
        let count = released.window.cost();
        let is_worst = count > released.worst;
        released.worst = released.worst.max(count);
        Judged { verdict, count, start: released.window.start(), is_worst }
    }

    /// The instant from which a release would have been allowed, in any case once the limit is not asked; it is charged
    /// as it happened, whether it was or not.
    ///
    /// When it became next in line is not known. If that makes a difference, it is taken to have waited since the one
    /// before it, and the first one for as long as it had to.
    fn commit(
        &self,
        Released { state, window, .. }: &mut Released<R::State>,
        at: Time,
        cost: u64,
    ) -> Verdict {
        let rule = &self.rule;
        let ask = Ask { since: window.last().unwrap_or(at), cost };
        let free = self.hours.as_ref().map_or(Verdict::Never, |hours| hours.first(at, false));
        rule.expire(state, at);
        if free.allows(at) {
            rule.commit(state, at, ask);
            rule.waive_debt(state);
            return Verdict::At(at);
        }
        let verdict = Opening::of(rule, state, ask, at).from.min(free);
        let may_have_waited = window.last().is_none() && self.rate.depends_on_since(cost);
        if may_have_waited && verdict != Verdict::Never && !verdict.allows(at) {
            rule.exhaust(state, at);
            return Verdict::At(at);
        }
        rule.commit(state, at, ask);
        verdict
    }

    fn is_idle(&self, Released { state, window, .. }: &Released<R::State>, now: Time) -> bool {
        let is_over = window.last().is_none_or(|last| now.since(last) >= self.terms.period);
        is_over && self.rule.idle_at(state).allows(now)
    }
}

impl<S> Released<S> {
    fn numbers(&self) -> Numbers {
        let (violations, earliest) = self.early.as_deref().copied().unwrap_or_default();
        Numbers { releases: self.releases, violations, earliest, worst: Worst::default() }
    }
}

/// Nanoseconds by which a release at `at` was too early; `None` if it never is allowed.
pub(super) fn by(verdict: Verdict, at: Time) -> Option<u64> {
    verdict.instant().map(|allowed| allowed.since(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;
    use crate::rule::{Bucket, Fixed, Interval, Rule, Sliding};

    /// Where a key stands takes another 5 to 9 bytes.
    #[test]
    fn a_key_takes_little_memory() {
        fn size<R: Rule>() -> usize {
            size_of::<(Key, Released<R::State>)>()
        }
        let sizes = [size::<Sliding>(), size::<Bucket>(), size::<Interval>(), size::<Fixed>()];
        assert!(sizes.iter().all(|size| *size <= 112), "{sizes:?}");
    }
}
