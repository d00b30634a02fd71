//! What is known of the nodes that keep the keys, and of their clocks.

use std::collections::HashMap;

use super::call::ScriptAnswer;
use super::clock::ServerClock;
use super::nodes::NodeId;
use crate::gate::Eviction;
use crate::store::vault::{Suspicion, Value};
use crate::time::Time;

/// The keepers of all keys that still matter.
#[derive(Default)]
pub(super) struct Keepers {
    by_key: HashMap<Value, Keeper>,
    clocks: HashMap<NodeId, ServerClock>,
    eviction: Eviction,
    /// D, and the nanoseconds for which a slot may matter.
    terms: (u64, u64),
}

/// The keeper of a key.
#[derive(Clone, Copy)]
struct Keeper {
    node: NodeId,
    /// When it was last asked, by our own clock.
    asked: Time,
    /// The last swap was refused at first.
    is_contended: bool,
}

impl Keepers {
    /// Slots are good for `validity` nanoseconds, and matter for `memory`.
    pub(super) fn expect(&mut self, validity: u64, memory: u64) {
        self.terms = (validity, memory);
    }

    /// D.
    pub(super) fn validity(&self) -> u64 {
        self.terms.0
    }

    /// The node that was last known to keep a key.
    pub(super) fn node_of(&self, key: &[u8]) -> Option<NodeId> {
        self.by_key.get(key).map(|keeper| keeper.node)
    }

    /// True if others were about to swap the value of a key.
    pub(super) fn is_contended(&self, key: &[u8]) -> bool {
        self.by_key.get(key).is_some_and(|keeper| keeper.is_contended)
    }

    /// Notes whether others were about to swap the value of a key.
    pub(super) fn set_contended(&mut self, key: &[u8], is_contended: bool) {
        self.by_key.get_mut(key).into_iter().for_each(|keeper| keeper.is_contended = is_contended);
    }

    /// Learns from an answer about a key. Returns why what was written to it before may be lost.
    pub(super) fn learn(&mut self, key: &[u8], answer: &ScriptAnswer) -> Option<Suspicion> {
        let (validity, memory) = self.terms;
        let now = Some(answer.reading.shown);
        let answered = answer.reading.answered;
        let is_contended = self.is_contended(key);
        let keeper = Keeper { node: answer.node, asked: answered, is_contended };
        let before = self.by_key.insert(key.to_owned(), keeper);
        // Nothing matters any more that was written before that.
        self.eviction.retain(&mut self.by_key, |_, keeper| answered.since(keeper.asked) <= memory);
        let before = before.filter(|before| before.node != answer.node);
        let keeper = before.and_then(|before| self.clocks.get(&before.node));
        let may_be_ahead = keeper.is_some_and(|clock| clock.may_be_behind(&answer.reading, validity, memory));
        let clock = self.clocks.entry(answer.node).or_default();
        clock.learn(&answer.reading, validity, memory);
        let forward = clock.good_from();
        let why = "its clock was set forward";
        let of_clock = forward.map(|_| Suspicion { why, good_from: forward });
        let why = "another node has taken over, whose clock may be ahead";
        may_be_ahead.then_some(Suspicion { why, good_from: now }).or(of_clock)
    }

    /// The number of times that one of the clocks was found to have been set.
    pub(super) fn times_set(&self) -> u64 {
        self.clocks.values().map(|clock| clock.times_set).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::Outcome;
    use super::*;
    use crate::store::vault::Reading;
    use crate::time::{SECOND, Wall};

    #[test]
    fn the_keepers_of_keys_that_no_longer_matter_are_forgotten() {
        let mut keepers = Keepers::default();
        keepers.expect(SECOND, 60 * SECOND);
        for number in 0..20_000 {
            let at = Time(number * SECOND);
            let reading = Reading { asked: at, shown: at, answered: at, wall: Wall::EPOCH };
            let (node, outcome) = (NodeId::default(), Outcome::Read);
            let answer =
                ScriptAnswer { node, reading, outcome, value: None, told: Vec::new(), suspicion: None };
            keepers.learn(&number.to_le_bytes(), &answer);
            let matters = |age: u64| keepers.node_of(&number.saturating_sub(age).to_le_bytes()).is_some();
            assert!((0..=60).all(matters), "{number}");
        }
        assert!(keepers.by_key.len() < 1000, "{}", keepers.by_key.len());
    }
}
