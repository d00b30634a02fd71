//! Eviction: a key's history goes once it equals a fresh one.

use super::{Limit, rule_for};
use crate::time::Time;

impl Limit {
    /// The instant at which to look for accounts that can be evicted.
    pub(in crate::gate) fn evict_at(&self) -> Time {
        self.evict_at
    }

    /// The number of accounts.
    pub(in crate::gate) fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// Notes that accounts beyond the first `known` were opened for nothing: they are idle from the beginning.
    pub(in crate::gate) fn note_unused(&mut self, known: usize) {
        if self.accounts.len() > known {
            self.idle_from = Time::ZERO;
        }
    }

    /// At `now`, frees the accounts that were idle by `horizon`. No later ask may be as of an instant before that.
    pub(in crate::gate) fn evict(&mut self, now: Time, horizon: Time) {
        if self.evict_at > now {
            return;
        }
        if self.idle_from <= horizon {
            self.evict_idle(horizon);
            self.learning.iter_mut().for_each(|learning| learning.evict(horizon));
        }
        // Never, if none is left.
        self.evict_at = now.saturating_add(self.pause).max(self.idle_from);
    }

    /// Evicts the histories that were idle by `horizon`, and notes when the first of the rest will be.
    fn evict_idle(&mut self, horizon: Time) {
        let Limit { rule, accounts, running, learning, evicted, idle_from, .. } = self;
        *idle_from = Time::NEVER;
        accounts.retain(|key, state| {
            let runs = running.as_ref().is_some_and(|running| running.of(key) > 0);
            let rule = rule_for(rule, learning.as_deref(), key);
            let idle_at = if runs { Time::NEVER } else { rule.idle_at(state) };
            let is_idle = idle_at <= horizon;
            if is_idle {
                rule.note_evicted(evicted, state);
            } else {
                *idle_from = (*idle_from).min(idle_at.known().unwrap_or_default());
            }
            !is_idle
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{commit, earliest, keyed, retune};
    use super::*;
    use crate::rule::Algorithm::{Calendar, Fixed, Interval, Sliding};
    use crate::rule::Ask;
    use crate::rule::tests::{one, terms};
    use crate::time::SECOND;

    #[test]
    fn idle_accounts_are_evicted_and_no_others() {
        let mut limit = keyed(Sliding, terms(1, SECOND));
        for key in 0..10_000u32 {
            commit(&mut limit, &key.to_le_bytes(), u64::from(key));
        }
        assert_eq!(limit.evict_at(), Time(SECOND));
        limit.evict(Time(SECOND + 9_000), Time(SECOND + 9_000));
        assert_eq!(limit.accounts.len(), 999);
        assert_eq!(earliest(&limit, &9_001u32.to_le_bytes(), one(0)), Time(SECOND + 9_001));
        limit.evict(Time(3 * SECOND), Time(3 * SECOND));
        assert_eq!((limit.accounts.len(), limit.evict_at()), (0, Time::NEVER));
    }

    #[test]
    fn a_search_that_can_find_nothing_is_put_off_until_something_is_charged() {
        let mut limit = keyed(Interval, terms(1, SECOND));
        let account = limit.account(b"a", Time(0));
        limit.commit(account, Time(0), Ask { eligible_at: Time(0), cost: 1_000_000 }, 1);
        let idle_at = Time(1_000_000 * SECOND);
        limit.evict(Time(SECOND), Time(SECOND));
        assert_eq!(limit.evict_at(), idle_at);
        commit(&mut limit, b"b", 5 * SECOND);
        assert_eq!(limit.evict_at(), Time(6 * SECOND));
        limit.evict(Time(6 * SECOND), Time(6 * SECOND));
        assert_eq!((limit.accounts.len(), limit.evict_at()), (1, idle_at));
        limit.evict(idle_at, idle_at);
        assert_eq!((limit.accounts.len(), limit.evict_at()), (0, Time::NEVER));
    }

    /// As long as a waiting item asks as of an instant before they were idle.
    #[test]
    fn what_cannot_be_evicted_is_not_searched_again() {
        let mut limit = keyed(Sliding, terms(1, SECOND));
        commit(&mut limit, b"a", 0);
        let new = limit.account(b"b", Time(0));
        limit.evict(Time(SECOND), Time(0));
        assert_eq!(limit.accounts.len(), 1, "{new} was never charged");
        limit.account(b"c", Time(SECOND));
        limit.evict(Time(2 * SECOND), Time(SECOND - 1));
        assert_eq!((limit.accounts.len(), limit.evict_at()), (2, Time(3 * SECOND)));
        limit.evict(Time(3 * SECOND), Time(SECOND));
        assert_eq!((limit.accounts.len(), limit.evict_at()), (0, Time::NEVER));
    }

    #[test]
    fn accounts_are_evicted_when_it_is_time_and_no_sooner() {
        let mut limit = keyed(Sliding, terms(1, 10));
        commit(&mut limit, b"a", 0);
        limit.evict(Time(SECOND - 1), Time(SECOND - 1));
        assert_eq!((limit.accounts.len(), limit.evict_at()), (1, Time(SECOND)));
        limit.evict(Time(SECOND), Time(SECOND));
        assert_eq!((limit.accounts.len(), limit.evict_at()), (0, Time::NEVER));
    }

    #[test]
    fn a_new_key_may_be_one_that_was_evicted() {
        let mut limit = keyed(Interval, terms(1, 10));
        commit(&mut limit, b"a", 7);
        limit.evict(Time(2 * SECOND), Time(SECOND));
        assert_eq!(limit.accounts.len(), 0);
        retune(&mut limit, SECOND, Interval, terms(1, 9 * SECOND));
        assert_eq!(earliest(&limit, b"a", one(SECOND)), Time(9 * SECOND + 7));
    }

    /// A day after its release, the first one is evicted, as by the day it is idle.
    #[test]
    fn what_a_key_had_before_it_was_evicted_counts_as_used_under_longer_terms() {
        const DAY: u64 = 86_400 * SECOND;
        let mut limit = keyed(Calendar, terms(1, DAY));
        commit(&mut limit, b"a", DAY);
        limit.evict(Time(2 * DAY), Time(2 * DAY));
        assert_eq!(limit.accounts.len(), 0);
        commit(&mut limit, b"a", 2 * DAY);
        retune(&mut limit, 2 * DAY, Calendar, terms(2, 7 * DAY));
        // Monday is the 5th of January 1970.
        let answers = [&b"a"[..], b"b"].map(|key| earliest(&limit, key, one(2 * DAY + 1)));
        assert_eq!(answers, [Time(4 * DAY); 2]);
    }

    #[test]
    fn an_exhausted_limit_does_not_forget_what_its_evicted_keys_had() {
        let mut limit = keyed(Fixed, terms(1, 3));
        limit.exhaust(Time(0));
        commit(&mut limit, b"a", 15);
        retune(&mut limit, 19, Fixed, terms(1, 12));
        assert_eq!(earliest(&limit, b"a", one(19)), Time(27));
    }
}
