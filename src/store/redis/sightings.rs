//! What this process has seen of each limit and each clock, and so can tell whether what is kept is all that was booked,
//! and as old as it looks.

use std::collections::HashMap;

use super::clock::{Exchange, Micros, ServerClock};
use super::nodes::NodeId;
use super::script::{Charge, Seen};
use super::terms::ScriptTerms;
use crate::charge::Key;
use crate::store::Order;

/// So many keys are kept before it is looked which of them have settled.
const FEW: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Sighting {
    seen: Seen,
    /// Who said so.
    node: NodeId,
    /// How many steps of its clock were known then.
    steps: u64,
    /// The clock of whoever keeps it now is ahead of that one.
    is_distrusted: bool,
}

/// How a node's clock was set forward.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    number: u64,
    /// Until then there may be something kept from before the last one.
    distrust_until: Micros,
}

/// What was last seen, by key and limit.
#[derive(Debug)]
pub(super) struct Sightings {
    limits: usize,
    by_key: HashMap<Key, Box<[Sighting]>>,
    tidy_beyond: usize,
    steps: HashMap<NodeId, Steps>,
    clocks: HashMap<NodeId, ServerClock>,
}

impl Sightings {
    pub(super) fn new(limits: usize) -> Self {
        Sightings {
            limits,
            by_key: HashMap::new(),
            tidy_beyond: FEW,
            steps: HashMap::new(),
            clocks: HashMap::new(),
        }
    }

    /// Why what `node` keeps under `key` may be younger than it looks by the clock that answered, unless it was
    /// distrusted already. The next charges say so.
    ///
    /// Nothing matters for longer than `memory` microseconds.
    pub(super) fn doubt(
        &mut self,
        node: NodeId,
        key: &Key,
        charges: &[Charge],
        exchange: &Exchange,
        deadline: u64,
        memory: Micros,
    ) -> Option<&'static str> {
        let nanos = memory.saturating_mul(1000);
        let keeper = self.keeper(key, exchange.server).filter(|&keeper| keeper != node);
        let keeper = keeper.and_then(|keeper| self.clocks.get(&keeper));
        let is_ahead = keeper.is_some_and(|clock| clock.is_behind(exchange, deadline, nanos));
        if self.clocks.entry(node).or_default().was_set_forward(exchange, deadline, nanos) {
            self.distrust(node, exchange.server.saturating_add(memory));
            return Some("its clock was set forward");
        }
        if is_ahead && charges.iter().any(|charge| !charge.is_distrusted) {
            self.distrust_key(key);
            return Some("another node has taken over, whose clock is ahead");
        }
        None
    }

    /// The clock of a node was set forward: what it keeps looks older than it is.
    fn distrust(&mut self, node: NodeId, until: Micros) {
        let steps = self.steps.entry(node).or_default();
        *steps = Steps { number: steps.number + 1, distrust_until: until };
    }

    /// A key was taken over by a node whose clock is ahead of the last one's.
    fn distrust_key(&mut self, key: &Key) {
        for sighting in self.by_key.get_mut(key).into_iter().flatten() {
            sighting.is_distrusted = true;
        }
    }

    /// Whether to distrust what `node` keeps.
    fn is_distrusted(&self, key: &Key, index: usize, node: NodeId) -> bool {
        let sighting = self.of(key, index);
        let steps = self.steps.get(&node).filter(|steps| steps.distrust_until > 0);
        let is_older = |steps: &Steps| (sighting.node, sighting.steps) != (node, steps.number);
        sighting.is_distrusted || steps.is_some_and(is_older)
    }

    /// Who kept it last, if that still matters at `now`.
    fn keeper(&self, key: &Key, now: Micros) -> Option<NodeId> {
        let sightings = self.by_key.get(key)?;
        sightings.iter().find(|sighting| sighting.seen.settled > now).map(|sighting| sighting.node)
    }

    /// What an order charges, if it is given to `node`.
    pub(super) fn charges(&self, order: &Order, terms: &[ScriptTerms], node: NodeId) -> Vec<Charge> {
        let limits = terms.iter().zip(&order.costs).enumerate().filter(|(_, (_, cost))| **cost > 0);
        let charge = |(index, (&terms, &cost))| {
            let seen = self.of(&order.key, index).seen;
            Charge { index, terms, cost, seen, is_distrusted: self.is_distrusted(&order.key, index, node) }
        };
        limits.map(charge).collect()
    }

    fn of(&self, key: &Key, index: usize) -> Sighting {
        self.by_key.get(key).map(|sightings| sightings[index]).unwrap_or_default()
    }

    /// Notes what `node` keeps now, at `now` of its clock.
    pub(super) fn note(&mut self, node: NodeId, key: &Key, charges: &[Charge], seen: &[Seen], now: Micros) {
        let steps = self.steps.entry(node).or_default();
        if now >= steps.distrust_until {
            steps.distrust_until = 0;
        }
        let steps = steps.number;
        let fresh = || vec![Sighting::default(); self.limits].into();
        let sightings = self.by_key.entry(key.clone()).or_insert_with(fresh);
        for (charge, &seen) in charges.iter().zip(seen) {
            sightings[charge.index] = Sighting { seen, node, steps, is_distrusted: false };
        }
        self.tidy(now);
    }

    /// Forgets what matters no more, now and then.
    fn tidy(&mut self, now: Micros) {
        if self.by_key.len() > self.tidy_beyond {
            self.by_key.retain(|_, sightings| sightings.iter().any(|sighting| sighting.seen.settled > now));
            self.tidy_beyond = FEW + 2 * self.by_key.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(settled: Micros) -> Seen {
        Seen { epoch: 1, seq: 1, newest: 1, settled }
    }

    fn charge() -> Charge {
        let terms = super::super::terms::ScriptTerms {
            algorithm: crate::config::Algorithm::Sliding,
            count: 1,
            period: 1,
            burst: 0,
            starts_empty: false,
            log: 0,
        };
        Charge { index: 0, terms, cost: 1, seen: Seen::default(), is_distrusted: false }
    }

    #[test]
    fn each_limit_is_distrusted_until_it_was_asked_again_or_all_is_over() {
        let mut sightings = Sightings::new(1);
        let (a, b) = (Key::from_slice(b"a"), Key::from_slice(b"b"));
        let (here, there) = (NodeId(0), NodeId(1));
        sightings.note(here, &a, &[charge()], &[sighting(20)], 10);
        assert!(!sightings.is_distrusted(&a, 0, here));
        sightings.distrust(here, 100);
        assert!(sightings.is_distrusted(&a, 0, here) && sightings.is_distrusted(&b, 0, here));
        assert!(!sightings.is_distrusted(&a, 0, there));
        sightings.note(here, &a, &[charge()], &[sighting(120)], 50);
        assert!(!sightings.is_distrusted(&a, 0, here) && sightings.is_distrusted(&b, 0, here));
        sightings.note(here, &a, &[charge()], &[sighting(120)], 100);
        assert!(!sightings.is_distrusted(&b, 0, here));
    }

    #[test]
    fn a_key_that_moved_is_distrusted_until_it_was_asked_again() {
        let mut sightings = Sightings::new(1);
        let (a, b) = (Key::from_slice(b"a"), Key::from_slice(b"b"));
        sightings.note(NodeId(0), &a, &[charge()], &[sighting(20)], 10);
        assert_eq!((sightings.keeper(&a, 19), sightings.keeper(&a, 20)), (Some(NodeId(0)), None));
        sightings.distrust_key(&a);
        assert!(sightings.is_distrusted(&a, 0, NodeId(1)) && !sightings.is_distrusted(&b, 0, NodeId(1)));
        sightings.note(NodeId(1), &a, &[charge()], &[sighting(30)], 10);
        assert!(!sightings.is_distrusted(&a, 0, NodeId(1)));
        assert_eq!(sightings.keeper(&a, 20), Some(NodeId(1)));
    }

    #[test]
    fn a_million_keys_take_no_memory_once_they_have_settled() {
        let mut sightings = Sightings::new(1);
        for number in 0..1_000_000u64 {
            let key = Key::from_slice(&number.to_le_bytes());
            sightings.note(NodeId(0), &key, &[charge()], &[sighting(number + 100)], number);
        }
        assert!(sightings.by_key.len() < 2 * FEW);
        assert_eq!(sightings.of(&Key::from_slice(&999_999u64.to_le_bytes()), 0).seen.settled, 1_000_099);
    }
}
