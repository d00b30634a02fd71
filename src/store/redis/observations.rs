//! This process's observations of each limit and each clock. They show whether the server has lost bookings, or whether
//! these are younger than they look.

use std::collections::HashMap;

use super::calendar::calendar;
use super::clock::{Exchange, Micros, ServerClock};
use super::nodes::NodeId;
use super::script::{Asked, BookedSlots, ScriptCharge, Seen};
use crate::charge::Key;
use crate::gate::Eviction;
use crate::store::{Order, Overruns, Policy, Quota};
use crate::time::{SECOND, Time, shown};

/// The nanoseconds for which a server still keeps what no longer matters.
pub(super) const KEPT_FOR: u64 = 10 * SECOND;

#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    seen: Seen,
    /// The node that said so, and the last step of its clock.
    node: NodeId,
    forward_until: Option<Micros>,
    /// True if the node that keeps it now has a clock that may be ahead of that one.
    is_distrusted: bool,
}

impl Observation {
    /// True if it still matters at `now`, by the clock of the node that said so: another node's may be ahead.
    fn matters(&self, clocks: &HashMap<NodeId, ServerClock>, now: Time) -> bool {
        let shown = clocks.get(&self.node).and_then(|clock| clock.shows(now));
        shown.is_some_and(|(least, _)| self.seen.matters_until > least)
    }
}

/// The last observations, by key and limit.
#[derive(Debug, Default)]
pub(super) struct Observations {
    by_key: HashMap<Key, Box<[Observation]>>,
    eviction: Eviction,
    clocks: HashMap<NodeId, ServerClock>,
}

impl Observations {
    /// Why bookings may be younger than they look by the clock that answered, unless they were distrusted already. The
    /// next charges say so.
    ///
    /// Nothing matters for longer than `memory` nanoseconds.
    pub(super) fn check_clock(
        &mut self,
        key: &Key,
        asked: &Asked,
        deadline: u64,
        memory: u64,
    ) -> Option<&'static str> {
        let Asked { node, charges, booked: BookedSlots { exchange, .. } } = asked;
        let keeper = self.keeper(key, exchange.asked).filter(|keeper| keeper != node);
        let keeper = keeper.and_then(|keeper| self.clocks.get(&keeper));
        let may_be_ahead = keeper.is_some_and(|clock| clock.may_be_behind(exchange, deadline, memory));
        if self.clocks.entry(*node).or_default().was_set_forward(exchange, deadline, memory) {
            return Some("its clock was set forward");
        }
        if may_be_ahead && charges.iter().any(|charge| !charge.is_distrusted) {
            self.distrust(key);
            return Some("another node has taken over, whose clock may be ahead");
        }
        None
    }

    fn distrust(&mut self, key: &Key) {
        let observations = self.by_key.get_mut(key).into_iter().flatten();
        observations.for_each(|observation| observation.is_distrusted = true);
    }

    /// True if bookings on `node` must be distrusted: they look older than they are.
    fn is_distrusted(&self, key: &Key, index: usize, node: NodeId) -> bool {
        let observation = self.of(key, index);
        let forward_until = self.clocks.get(&node).and_then(|clock| clock.forward_until);
        let is_known = (observation.node, observation.forward_until) == (node, forward_until);
        observation.is_distrusted || (forward_until.is_some() && !is_known)
    }

    /// The node that last kept the key, if that still matters at `now`.
    fn keeper(&self, key: &Key, now: Time) -> Option<NodeId> {
        let observations = self.by_key.get(key)?;
        observations.iter().find(|seen| seen.matters(&self.clocks, now)).map(|observation| observation.node)
    }

    /// The charges of an order, by the calendar as of the clock of `node`.
    pub(super) fn charges(
        &self,
        order: &Order,
        policy: &Policy,
        node: NodeId,
        now: &dyn Fn() -> Time,
    ) -> Vec<ScriptCharge> {
        let limits = policy.quotas.iter().zip(&order.costs).enumerate();
        let charge = |(index, (quota, &cost)): (usize, (&Quota, &u64))| {
            let seen = self.of(&order.key, index).seen;
            let is_distrusted = self.is_distrusted(&order.key, index, node);
            let by_calendar = |_| calendar(self.shown_by(node, now()), quota, policy);
            let calendar = quota.terms.zone.map(by_calendar).unwrap_or_default();
            ScriptCharge { index, cost, seen, is_distrusted, calendar }
        };
        limits.filter(|(_, (_, cost))| **cost > 0).map(charge).collect()
    }

    /// The latest time that the clock of `node` may show; if that is not known, the time on our wall clock.
    fn shown_by(&self, node: NodeId, now: Time) -> Micros {
        let most = self.clocks.get(&node).and_then(|clock| clock.shows(now)).map(|(_, most)| most);
        most.unwrap_or_else(|| shown().0 / 1000)
    }

    /// The number of times that the clock of a node was found to have been set.
    pub(super) fn times_set(&self) -> u64 {
        self.clocks.values().map(|clock| clock.times_set).sum()
    }

    fn of(&self, key: &Key, index: usize) -> Observation {
        self.by_key.get(key).and_then(|observations| observations.get(index)).copied().unwrap_or_default()
    }

    /// The overruns of all limits of a key, as last heard.
    pub(super) fn overruns(&self, key: &Key, limits: usize, exchange: &Exchange) -> Overruns {
        let seen = (0..limits).map(|index| self.of(key, index).seen);
        let until = seen.clone().map(|seen| seen.close).max().unwrap_or(0);
        Overruns { costs: seen.map(|seen| seen.late).collect(), until: exchange.not_before(until) }
    }

    /// Adds the observations of an answer under `key`.
    pub(super) fn add(&mut self, key: &Key, asked: &Asked, limits: usize) {
        let (node, now) = (asked.node, asked.booked.exchange.server);
        let clock = self.clocks.entry(node).or_default();
        clock.forward_until = clock.forward_until.filter(|&until| now < until);
        let forward_until = clock.forward_until;
        let fresh = || vec![Observation::default(); limits].into();
        let observations = self.by_key.entry(key.clone()).or_insert_with(fresh);
        for (charge, &seen) in asked.charges.iter().zip(&asked.booked.seen) {
            observations[charge.index] = Observation { seen, node, forward_until, is_distrusted: false };
        }
        let Observations { by_key, eviction, clocks } = self;
        // Until it can have expired, it is of use.
        let now = Time(asked.booked.exchange.asked.0.saturating_sub(KEPT_FOR));
        eviction.retain(by_key, |_, observations| observations.iter().any(|seen| seen.matters(clocks, now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::script::Found;

    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);

    fn key(name: &str) -> Key {
        Key::from_slice(name.as_bytes())
    }

    fn asked(node: NodeId, now: Micros, matters_until: Micros) -> Asked {
        let charge = ScriptCharge {
            index: 0,
            cost: 1,
            seen: Seen::default(),
            is_distrusted: false,
            calendar: Default::default(),
        };
        let seen = vec![Seen { epoch: 1, times: 1, newest: 1, matters_until, ..Seen::default() }];
        let (slots, found) = (Vec::new(), Found::Nothing);
        let exchange = Exchange { asked: Time(now * 1000), server: now, answered: Time(now * 1000) };
        let booked = BookedSlots {
            exchange,
            ask_again: None,
            next: None,
            turn: None,
            found,
            is_kept: true,
            held: None,
            slots,
            seen,
        };
        Asked { node, charges: vec![charge], booked }
    }

    fn see(observations: &mut Observations, key: &Key, asked: &Asked) {
        assert_eq!(observations.check_clock(key, asked, 0, 50_000), None);
        observations.add(key, asked, 1);
    }

    #[test]
    fn each_limit_is_distrusted_until_it_was_asked_again_or_all_is_over() {
        let mut observations = Observations::default();
        let (a, b) = (key("a"), key("b"));
        observations.add(&a, &asked(HERE, 10, 20), 1);
        assert_eq!(observations.check_clock(&a, &asked(HERE, 10, 20), 0, 50_000), None);
        assert!(!observations.is_distrusted(&a, 0, HERE));
        let mut stepped = asked(HERE, 50, 20);
        let exchange = &mut stepped.booked.exchange;
        (exchange.asked, exchange.answered) = (Time(11_000), Time(11_000));
        assert_eq!(observations.check_clock(&a, &stepped, 0, 50_000), Some("its clock was set forward"));
        assert!(observations.is_distrusted(&a, 0, HERE) && observations.is_distrusted(&b, 0, HERE));
        assert!(!observations.is_distrusted(&a, 0, THERE));
        observations.add(&a, &asked(HERE, 50, 120), 1);
        assert!(!observations.is_distrusted(&a, 0, HERE) && observations.is_distrusted(&b, 0, HERE));
        observations.add(&a, &asked(HERE, 100, 120), 1);
        assert!(!observations.is_distrusted(&b, 0, HERE));
    }

    #[test]
    fn a_key_that_moved_is_distrusted_until_it_was_asked_again() {
        let mut observations = Observations::default();
        let (a, b) = (key("a"), key("b"));
        see(&mut observations, &a, &asked(HERE, 10, 20));
        assert_eq!([20_009, 20_011].map(|now| observations.keeper(&a, Time(now))), [Some(HERE), None]);
        observations.distrust(&a);
        assert!(observations.is_distrusted(&a, 0, THERE) && !observations.is_distrusted(&b, 0, THERE));
        see(&mut observations, &a, &asked(THERE, 10, 30));
        assert!(!observations.is_distrusted(&a, 0, THERE));
        assert_eq!(observations.keeper(&a, Time(20_000)), Some(THERE));
    }

    /// By the clock that is ahead, all is over; by that of the last node, it is not.
    #[test]
    fn a_key_that_moved_matters_by_the_clock_that_it_was_booked_by() {
        let distrusted = "another node has taken over, whose clock may be ahead";
        for (now, change) in [(20, Some(distrusted)), (21, None)] {
            let mut observations = Observations::default();
            see(&mut observations, &key("a"), &asked(HERE, 10, 20));
            let mut moved = asked(THERE, 50, 60);
            (moved.booked.exchange.asked, moved.booked.exchange.answered) =
                (Time(now * 1000), Time(now * 1000));
            assert_eq!(observations.check_clock(&key("a"), &moved, 0, 50_000), change, "at {now}");
        }
    }

    #[test]
    fn very_many_keys_take_no_memory_once_they_matter_no_more() {
        let mut observations = Observations::default();
        for number in 0..100_000u64 {
            let (key, now) = (Key::from_slice(&number.to_le_bytes()), number * KEPT_FOR / 100_000);
            see(&mut observations, &key, &asked(HERE, now, now + 100));
        }
        assert!(observations.by_key.len() < 2048);
        assert_eq!(
            observations.of(&Key::from_slice(&99_999u64.to_le_bytes()), 0).seen.matters_until,
            99_999 * KEPT_FOR / 100_000 + 100
        );
    }
}
