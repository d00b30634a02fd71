//! One limit that all items share.

use super::memory::Memory;
use super::{Availability, Limiter, Opening};
use crate::rule::{Ask, Rule, Terms, Verdict};
use crate::time::Time;

/// A rule with one history. Its only account has the number 0.
pub struct Single<A: Rule> {
    rule: A,
    state: A::State,
    memory: Memory,
}

impl<A: Rule> Single<A> {
    /// With no history.
    pub fn new(rule: A) -> Self {
        Single { rule, state: A::State::default(), memory: Memory::default() }
    }
}

impl<A: Rule> Limiter for Single<A> {
    fn opening(&self, _: &[u8], ask: Ask, from: Time) -> Opening {
        Opening::of(&self.rule, &self.state, ask, from)
    }

    fn account(&mut self, _: &[u8], _: Time) -> usize {
        0
    }

    fn available(&mut self, _: usize, now: Time, ask: Ask, pending: u64, most: u64) -> u64 {
        if most == 1 && self.rule.is_plenty(&self.state, ask.cost, pending) {
            return 1;
        }
        self.rule.expire(&mut self.state, now);
        self.rule.available(&self.state, now, ask, pending).min(most)
    }

    fn standing(&self, now: Time) -> Availability {
        let available = self.rule.available(&self.state, now, Ask { since: now, cost: 1 }, 0);
        Availability::Common { available }
    }

    fn last_of(&self, _: &[u8], ask: Ask, count: u64) -> Verdict {
        self.rule.last_of(&self.state, ask, count)
    }

    fn copied(&self) -> Box<dyn Limiter> {
        let (rule, state) = (self.rule.clone(), self.state.clone());
        Box::new(Single { rule, state, memory: self.memory.clone() })
    }

    fn commit(&mut self, _: usize, now: Time, ask: Ask) {
        self.rule.expire(&mut self.state, now);
        self.rule.commit(&mut self.state, now, ask);
        self.memory.note(now);
    }

    fn finish(&mut self, _: usize, now: Time, ask: Ask) {
        self.memory.note(now);
        self.rule.finish(&mut self.state, now, ask);
    }

    fn exhaust(&mut self, at: Time) {
        self.rule.exhaust(&mut self.state, at);
        self.memory.note(at);
    }

    fn retune(&mut self, now: Time, terms: Terms) {
        let new = A::new(terms);
        let forgotten = self.memory.change_terms(now, self.rule.memory());
        self.rule.carry_over(&mut self.state, &new, now, forgotten);
        self.rule = new;
    }

    fn depends_on_since(&self, cost: u64) -> bool {
        self.rule.depends_on_since(cost)
    }
}
