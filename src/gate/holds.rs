//! Holds: pauses that servers have asked for, by key.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

use super::evict::Eviction;
use crate::time::Time;

/// The end of the hold for each key or lane.
#[derive(Clone, Debug)]
pub struct Holds<K> {
    by_key: HashMap<K, Time, RandomState>,
    eviction: Eviction,
    /// The end of a hold of all keys.
    others: Time,
}

impl<K> Default for Holds<K> {
    fn default() -> Self {
        Holds { by_key: HashMap::default(), eviction: Eviction::default(), others: Time::ZERO }
    }
}

impl<K: Hash + Eq> Holds<K> {
    /// The end of a key's last hold; the origin if none is known.
    pub fn until(&self, key: &K) -> Time {
        self.by_key.get(key).copied().unwrap_or_default().max(self.others)
    }

    /// Holds a key until an instant.
    pub fn set(&mut self, now: Time, key: K, until: Time) {
        self.by_key.insert(key, until);
        self.eviction.retain(&mut self.by_key, |_, until| *until > now);
    }

    /// The keys change their meaning: all are held until the end of the last hold.
    pub fn forget_keys(&mut self) {
        self.others = self.by_key.drain().map(|(_, until)| until).fold(self.others, Time::max);
    }
}

#[cfg(test)]
mod tests {
    use super::super::evict::FEW;
    use super::*;

    #[test]
    fn holds_are_kept_until_they_are_over() {
        let mut holds = Holds::default();
        for now in 0..10_000u64 {
            holds.set(Time(now), now, Time(now + 20));
            for number in [0, 1, 19, 20].map(|ago| now.saturating_sub(ago)) {
                let until = holds.until(&number);
                assert!(
                    until == Time(number + 20) || (until == Time(0) && number + 20 <= now),
                    "{now} {number}"
                );
            }
            assert!(holds.by_key.len() <= FEW + 1);
        }
        assert_eq!(holds.until(&10_000), Time(0));
        holds.forget_keys();
        assert_eq!([1, 9_999].map(|number| holds.until(&number)), [Time(10_019); 2]);
    }
}
