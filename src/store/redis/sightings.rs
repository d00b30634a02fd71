//! What this process has seen of each limit, and so can tell from what is kept whether some of it was lost.

use std::collections::HashMap;

use super::clock::Micros;
use super::script::{Charge, Seen};
use crate::charge::Key;

/// So many keys are kept before it is looked which of them have settled.
const FEW: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Sighting {
    seen: Seen,
    /// How many steps of the server's clock were known then.
    steps: u64,
}

/// What was last seen, by key and limit.
#[derive(Debug)]
pub(super) struct Sightings {
    limits: usize,
    by_key: HashMap<Key, Box<[Sighting]>>,
    tidy_beyond: usize,
    steps: u64,
    /// Until then there may be something kept from before the last step.
    distrust_until: Micros,
}

impl Sightings {
    pub(super) fn new(limits: usize) -> Self {
        Sightings { limits, by_key: HashMap::new(), tidy_beyond: FEW, steps: 0, distrust_until: 0 }
    }

    /// The server's clock was set forward: what is kept looks older than it is.
    pub(super) fn distrust(&mut self, until: Micros) {
        self.steps += 1;
        self.distrust_until = until;
    }

    pub(super) fn is_distrusted(&self, key: &Key, index: usize) -> bool {
        self.distrust_until > 0 && self.of(key, index).steps < self.steps
    }

    pub(super) fn seen(&self, key: &Key, index: usize) -> Seen {
        self.of(key, index).seen
    }

    fn of(&self, key: &Key, index: usize) -> Sighting {
        self.by_key.get(key).map(|sightings| sightings[index]).unwrap_or_default()
    }

    /// Notes what is kept now, at `now` of the server's clock.
    pub(super) fn note(&mut self, key: &Key, charges: &[Charge], seen: &[Seen], now: Micros) {
        let fresh = || vec![Sighting::default(); self.limits].into();
        let sightings = self.by_key.entry(key.clone()).or_insert_with(fresh);
        for (charge, &seen) in charges.iter().zip(seen) {
            sightings[charge.index] = Sighting { seen, steps: self.steps };
        }
        if now >= self.distrust_until {
            self.distrust_until = 0;
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
        };
        Charge { index: 0, terms, cost: 1, seen: Seen::default(), is_distrusted: false }
    }

    #[test]
    fn each_limit_is_distrusted_until_it_was_asked_again_or_all_is_over() {
        let mut sightings = Sightings::new(1);
        let (a, b) = (Key::from_slice(b"a"), Key::from_slice(b"b"));
        sightings.note(&a, &[charge()], &[sighting(20)], 10);
        assert!(!sightings.is_distrusted(&a, 0));
        sightings.distrust(100);
        assert!(sightings.is_distrusted(&a, 0) && sightings.is_distrusted(&b, 0));
        sightings.note(&a, &[charge()], &[sighting(120)], 50);
        assert!(!sightings.is_distrusted(&a, 0) && sightings.is_distrusted(&b, 0));
        sightings.note(&a, &[charge()], &[sighting(120)], 100);
        assert!(!sightings.is_distrusted(&b, 0));
    }

    #[test]
    fn a_million_keys_take_no_memory_once_they_have_settled() {
        let mut sightings = Sightings::new(1);
        for key in 0..1_000_000u64 {
            sightings.note(&Key::from_slice(&key.to_le_bytes()), &[charge()], &[sighting(key + 100)], key);
        }
        assert!(sightings.by_key.len() < 2 * FEW);
        assert_eq!(sightings.seen(&Key::from_slice(&999_999u64.to_le_bytes()), 0).settled, 1_000_099);
    }
}
