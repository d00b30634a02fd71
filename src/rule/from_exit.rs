//! Counting from the end of a command instead of its start.

use super::{Ask, NamedRule, Rule, Terms, Verdict};
use crate::time::Time;

/// A release takes up quota from its start, and counts as made at the instant it finishes.
///
/// So with a sliding window, at most `count` are running or ended less than `period` ago. With a minimum gap, each
/// starts at least the gap after the end of the one before, and they never overlap.
#[derive(Clone, Debug)]
pub struct FromExit<R> {
    inner: R,
}

/// The releases that have finished, and those still running.
#[derive(Clone, Debug, Default)]
pub struct Running<S> {
    finished: S,
    /// The sum of the costs of running releases.
    in_flight: u64,
}

impl<R: NamedRule> FromExit<R> {
    /// True if nothing may start: a rule that accrues begins to accrue when the running release ends.
    fn is_occupied(state: &Running<R::State>) -> bool {
        R::FACTS.accrues && state.in_flight > 0
    }
}

impl<R: NamedRule> Rule for FromExit<R> {
    type State = Running<R::State>;

    fn new(terms: Terms) -> Self {
        FromExit { inner: R::new(terms) }
    }

    /// `Never` means not before something finishes.
    fn earliest(&self, state: &Self::State, ask: Ask) -> Verdict {
        match ask.cost.checked_add(state.in_flight) {
            _ if Self::is_occupied(state) => Verdict::Never,
            Some(cost) => self.inner.earliest(&state.finished, Ask { cost, ..ask }),
            None => Verdict::Never,
        }
    }

    fn available(&self, state: &Self::State, now: Time, ask: Ask, pending: u64) -> u64 {
        match state.in_flight.checked_add(pending) {
            Some(in_flight) => self.inner.available(&state.finished, now, ask, in_flight),
            None => 0,
        }
    }

    /// As if commands took no time.
    fn last_of(&self, state: &Self::State, ask: Ask, count: u64) -> Verdict {
        self.inner.last_of(&state.finished, ask, count)
    }

    fn commit(&self, state: &mut Self::State, _: Time, ask: Ask) {
        state.in_flight = state.in_flight.saturating_add(ask.cost);
    }

    fn finish(&self, state: &mut Self::State, now: Time, ask: Ask) {
        state.in_flight = state.in_flight.saturating_sub(ask.cost);
        self.inner.commit(&mut state.finished, now, ask);
    }

    fn waive_debt(&self, state: &mut Self::State) {
        self.inner.waive_debt(&mut state.finished);
    }

    fn expire(&self, state: &mut Self::State, now: Time) {
        self.inner.expire(&mut state.finished, now);
    }

    fn idle_at(&self, state: &Self::State) -> Verdict {
        if state.in_flight > 0 { Verdict::Never } else { self.inner.idle_at(&state.finished) }
    }

    fn exhaust(&self, state: &mut Self::State, at: Time) {
        self.inner.exhaust(&mut state.finished, at);
    }

    fn memory(&self) -> Option<u64> {
        self.inner.memory()
    }

    fn carry_over(&self, state: &mut Self::State, new: &Self, now: Time, forgotten: Option<Time>) {
        self.inner.carry_over(&mut state.finished, &new.inner, now, forgotten);
    }

    fn note_evicted(&self, evicted: &mut Self::State, state: &Self::State) {
        self.inner.note_evicted(&mut evicted.finished, &state.finished);
    }

    fn note_forgotten(&self, state: &mut Self::State, evicted: &Self::State) {
        self.inner.note_forgotten(&mut state.finished, &evicted.finished);
    }

    fn closes(&self, at: Time) -> Option<Time> {
        self.inner.closes(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Stateful, one, terms};
    use super::super::{Interval, Sliding};
    use super::*;

    fn finish<R: Rule>(limiter: &mut Stateful<R>, now: u64) {
        limiter.rule.finish(&mut limiter.state, Time(now), one(0));
    }

    #[test]
    fn what_runs_keeps_its_place_and_then_for_a_period() {
        let mut limiter = Stateful::new(FromExit::<Sliding>::new(terms(2, 10)));
        limiter.commit(0, one(0));
        limiter.commit(1, one(1));
        assert_eq!(limiter.earliest(one(50)), Verdict::Never);
        assert_eq!(limiter.idle_at(), Verdict::Never);
        finish(&mut limiter, 60);
        assert_eq!(limiter.earliest(one(61)), Verdict::At(Time(70)));
        finish(&mut limiter, 65);
        assert_eq!(limiter.earliest(one(66)), Verdict::At(Time(70)));
        assert_eq!(limiter.idle_at(), Verdict::At(Time(75)));
    }

    #[test]
    fn a_gap_from_end_to_start_leaves_no_overlap() {
        let mut limiter = Stateful::new(FromExit::<Interval>::new(terms(1, 10)));
        limiter.commit(0, one(0));
        assert_eq!(limiter.earliest(one(50)), Verdict::Never);
        finish(&mut limiter, 60);
        assert_eq!(limiter.earliest(one(60)), Verdict::At(Time(70)));
    }

    #[test]
    fn what_runs_is_not_available() {
        let mut limiter = Stateful::new(FromExit::<Sliding>::new(terms(2, 10)));
        let available = [(); 3].map(|()| {
            let available = limiter.available(Time(0), one(0), 0);
            limiter.commit(0, one(0));
            available
        });
        assert_eq!(available, [2, 1, 0]);
    }

    #[test]
    fn the_rule_beneath_is_exhausted_and_has_its_terms_changed() {
        let mut limiter = Stateful::new(FromExit::<Sliding>::new(terms(1, 10)));
        limiter.exhaust(5);
        assert_eq!(limiter.earliest(one(5)), Verdict::At(Time(15)));
        limiter.retune(6, terms(1, 20));
        assert_eq!(limiter.earliest(one(6)), Verdict::At(Time(25)));
    }
}
