//! Releases, judged by the rules that limiters go by: asked when each would have been allowed, and told that it
//! happened.

use super::tally::Numbers;
use super::window::Window;
use crate::config::Rate;
use crate::gate::Accounts;
use crate::rule::{Ask, InHours, NamedRule, Rule, Terms, Verdict, Visitor};
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
    rate.algorithm.visit(Ruling(rate, terms))
}

struct Ruling<'a>(&'a Rate, Terms);

impl Visitor for Ruling<'_> {
    type Output = Box<dyn Judge>;

    fn visit<R: NamedRule>(self) -> Box<dyn Judge> {
        let Ruling(rate, terms) = self;
        let rule = R::new(terms);
        // How long a release may have waited depends on the release before it, however long ago that was.
        let dearest = if rate.cost.is_some() { u64::MAX } else { 1 };
        let may_evict = !rule.depends_on_since(dearest);
        // Stamps tell the time by the clock on the wall.
        let hours = rate.during().map(|hours| InHours::new(hours.clone(), Wall::EPOCH));
        Box::new(Ruled { rule, hours, terms, may_evict, released: Accounts::new(rate.key.is_some()) })
    }
}

/// A rule, with what was released under it.
struct Ruled<R: Rule> {
    rule: R,
    /// `None` if it is asked always.
    hours: Option<InHours>,
    terms: Terms,
    may_evict: bool,
    released: Accounts<Released<R::State>>,
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

impl<R: Rule> Judge for Ruled<R> {
    fn judge(&mut self, key: &[u8], at: Time, cost: u64) -> Judged {
        let account = self.released.account(key);
        let free = self.hours.as_ref().map_or(Verdict::Never, |hours| hours.first(at, false));
        self.released.get_mut(account).judge(&self.rule, &self.terms, free, at, cost)
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
        let Ruled { rule, terms, may_evict, released, .. } = self;
        if *may_evict {
            released.retain(|key, account| {
                let is_idle = account.is_idle(rule, terms, now);
                if is_idle {
                    each(key, account.numbers());
                }
                !is_idle
            });
        }
    }
}

impl<S: Clone + Default> Released<S> {
    fn judge<R: Rule<State = S>>(
        &mut self,
        rule: &R,
        terms: &Terms,
        free: Verdict,
        at: Time,
        cost: u64,
    ) -> Judged {
        let verdict = self.commit(rule, free, at, cost);
        let period = rule.counts_for(at).unwrap_or(terms.period);
        self.window.push(at, cost, period, terms.count);
        self.releases += 1;
        if !verdict.allows(at) {
            let (violations, earliest) = &mut **self.early.get_or_insert_default();
            (*violations, *earliest) = (*violations + 1, by(verdict, at).unwrap_or(0).max(*earliest));
        }
        let count = self.window.cost();
        let is_worst = count > self.worst;
        self.worst = self.worst.max(count);
        Judged { verdict, count, start: self.window.start(), is_worst }
    }

    /// The instant from which a release would have been allowed, `free` in any case; it is charged as it happened,
    /// whether it was or not.
    ///
    /// When it became next in line is not known. If that makes a difference, it is taken to have waited since the one
    /// before it, and the first one for as long as it had to.
    fn commit<R: Rule<State = S>>(&mut self, rule: &R, free: Verdict, at: Time, cost: u64) -> Verdict {
        let last = self.window.last();
        let ask = Ask { since: last.unwrap_or(at), cost };
        rule.expire(&mut self.state, at);
        if free.allows(at) {
            rule.commit(&mut self.state, at, ask);
            rule.waive_debt(&mut self.state);
            return Verdict::At(at);
        }
        let verdict = opening(rule, &self.state, ask, at).min(free);
        let may_have_waited = last.is_none() && rule.depends_on_since(cost);
        if may_have_waited && verdict != Verdict::Never && !verdict.allows(at) {
            rule.exhaust(&mut self.state, at);
            return Verdict::At(at);
        }
        rule.commit(&mut self.state, at, ask);
        verdict
    }

    fn numbers(&self) -> Numbers {
        let (violations, earliest) = self.early.as_deref().copied().unwrap_or_default();
        Numbers { releases: self.releases, violations, earliest }
    }

    fn is_idle<R: Rule<State = S>>(&self, rule: &R, terms: &Terms, now: Time) -> bool {
        let is_over = self.window.last().is_none_or(|last| now.since(last) >= terms.period);
        is_over && rule.idle_at(&self.state).allows(now)
    }
}

/// The instant from which a release at `at` would have been allowed, after all times that were over by then.
fn opening<R: Rule>(rule: &R, state: &R::State, ask: Ask, at: Time) -> Verdict {
    let first = rule.earliest(state, ask);
    let is_over = |first| rule.closes(first).is_some_and(|until| until <= at);
    match first {
        // A rule that refuses again does not accrue.
        Verdict::At(first) if is_over(first) => rule.earliest(state, Ask { since: at, ..ask }),
        first => first,
    }
}

/// Nanoseconds by which a release at `at` was too early; `None` if it never is allowed.
pub(super) fn by(verdict: Verdict, at: Time) -> Option<u64> {
    match verdict {
        Verdict::At(allowed) => Some(allowed.since(at)),
        Verdict::Never => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;
    use crate::rule::{Bucket, Fixed, Interval, Sliding};

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
