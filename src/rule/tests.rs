//! The helper behind the test tables of all rules.

use super::{Ask, Rule, Terms};
use crate::time::Time;

/// `count` per `period`, with the default burst.
pub(crate) fn terms(count: u64, period: u64) -> Terms {
    Terms::new(count, period, count)
}

pub(crate) fn one(eligible_at: u64) -> Ask {
    Ask { eligible_at: Time(eligible_at), cost: 1 }
}

pub(crate) struct Stateful<R: Rule> {
    pub(crate) rule: R,
    pub(crate) state: R::State,
}

impl<R: Rule> Stateful<R> {
    pub(crate) fn new(rule: R) -> Self {
        Stateful { rule, state: R::State::default() }
    }

    pub(crate) fn earliest(&self, ask: Ask) -> Time {
        self.rule.earliest(&self.state, ask)
    }

    pub(crate) fn commit(&mut self, now: u64, ask: Ask) {
        self.rule.commit(&mut self.state, Time(now), ask);
    }

    pub(crate) fn exhaust(&mut self, at: u64) {
        self.rule.exhaust(&mut self.state, Time(at));
    }

    pub(crate) fn idle_at(&self) -> Time {
        self.rule.idle_at(&self.state)
    }

    pub(crate) fn retune(&mut self, now: u64, terms: Terms) {
        self.retune_after(None, now, terms);
    }

    /// As [`Stateful::retune`], with nothing known about releases up to `forgotten`.
    pub(crate) fn retune_after(&mut self, forgotten: Option<u64>, now: u64, terms: Terms) {
        let new = R::new(terms);
        self.rule.carry_over(&mut self.state, &new, Time(now), forgotten.map(Time));
        self.rule = new;
    }

    pub(crate) fn available(&self, now: Time, ask: Ask, pending: u64) -> u64 {
        self.rule.available(&self.state, now, ask, pending)
    }

    /// Feeds `(arrival, cost)` in order and returns the instant of each release, `None` for never.
    pub(crate) fn releases(&mut self, items: &[(u64, u64)]) -> Vec<Option<u64>> {
        let mut previous = Time::ZERO;
        let mut release = |&(arrival, cost): &(u64, u64)| {
            let ask = Ask { eligible_at: previous.max(Time(arrival)), cost };
            let at = self.earliest(ask).known()?;
            assert!(at >= ask.eligible_at, "an answer before the question");
            self.check_available(at, ask);
            self.commit(at.0, ask);
            previous = at;
            Some(at.0)
        };
        items.iter().map(&mut release).collect()
    }

    /// The instant of the last of `count` releases, as the rule forecasts it; checked by releasing them one by one.
    pub(crate) fn last_of(&mut self, eligible_at: u64, cost: u64, count: u64) -> Option<u64> {
        let ask = Ask { eligible_at: Time(eligible_at), cost };
        let forecast = self.rule.last_of(&self.state, ask, count).known().map(|at| at.0);
        let before = self.state.clone();
        let items = vec![(eligible_at, cost); usize::try_from(count).expect("few")];
        let found = self.releases(&items).last().copied().unwrap_or(Some(eligible_at));
        self.state = before;
        assert_eq!(forecast, found, "{count} of cost {cost} from {eligible_at}");
        forecast
    }

    /// Checks `available` against the promised instant, and against asking and committing one at a time.
    fn check_available(&mut self, at: Time, ask: Ask) {
        let available = self.available(at, ask, 0);
        assert!(available >= 1, "nothing is available at the promised instant");
        if at > ask.eligible_at {
            assert_eq!(self.available(Time(at.0 - 1), ask, 0), 0, "available before the promised instant");
        }
        assert_eq!(self.available(at, ask, ask.cost), available.saturating_sub(1), "after one is pending");
        let before = self.state.clone();
        self.commit(at.0, ask);
        let next = Ask { eligible_at: at, ..ask };
        let after = self.available(at, next, 0);
        assert_eq!(after, available.saturating_sub(1), "after one is committed");
        assert_eq!(self.earliest(next) <= at, after > 0);
        self.state = before;
    }

    /// As [`Stateful::releases`], for items of cost 1 that all can be released.
    pub(crate) fn instants(&mut self, arrivals: &[u64]) -> Vec<u64> {
        let items: Vec<_> = arrivals.iter().map(|&at| (at, 1)).collect();
        self.releases(&items).into_iter().map(|at| at.expect("an instant")).collect()
    }
}
