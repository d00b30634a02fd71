//! Counts the items that lack a part that limits go by: all of them share the empty key.

use super::Charger;
use crate::config::{Rate, Selector, keys};

/// The number of items, and of those without a key, for each key.
pub(crate) struct Keyless {
    items: u64,
    /// Its selector, and the numbers of items without it and of the first of them.
    keys: Vec<(Selector, u64, u64)>,
}

impl Keyless {
    pub(crate) fn new(rates: &[Rate]) -> Self {
        Keyless { items: 0, keys: keys(rates).into_iter().map(|key| (key.clone(), 0, 0)).collect() }
    }

    /// Counts the item that `charger` has just charged, and returns the first key that only it lacks so far.
    pub(crate) fn count(&mut self, charger: &Charger, item: u64) -> Option<&Selector> {
        self.items += 1;
        let mut new = None;
        for &key in charger.lacking() {
            let Some((_, count, first)) = self.keys.get_mut(key) else { continue };
            *count += 1;
            if *count == 1 {
                *first = item;
                new.get_or_insert(key);
            }
        }
        new.map(|key| &self.keys[key].0)
    }

    /// The number of items without the key with this index, and the number of the first of them.
    pub(crate) fn of(&self, key: usize) -> Option<(u64, u64)> {
        self.keys.get(key).map(|(_, count, first)| (*count, *first)).filter(|(count, _)| *count > 0)
    }

    /// The keys that several items lack, in words.
    pub(crate) fn told(&self) -> impl Iterator<Item = String> {
        self.keys.iter().filter(|(_, count, _)| *count > 1).map(|(key, count, _)| {
            format!("{count} of {} items have no {key}: they share the empty key", self.items)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::for_each_seed;

    /// Against a count by hand: columns are words, and blank lines and limits for one key only need none.
    #[test]
    fn items_without_a_key_are_counted_for_each_key() {
        for_each_seed(300, |random| {
            let limits = ["9/s,key=col:1", "9/s,key=col:2", "9/s,key=col:3", "9/s,key=col:4,only=a", "9/s"];
            let chosen: Vec<_> = limits.into_iter().filter(|_| random.bool()).collect();
            let rates: Vec<Rate> = chosen.iter().map(|text| text.parse().unwrap()).collect();
            let needed = |column: usize| chosen.iter().any(|text| text.ends_with(&format!(":{column}")));
            let (mut charger, mut keyless) = (Charger::new(&rates, None), Keyless::new(&rates));
            let mut counts: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
            let all = random.u64(..20);
            for item in 1..=all {
                let words = random.usize(..5);
                let record = " a".repeat(words);
                charger.charge(record.as_bytes(), record.len() + 1).unwrap();
                let new = keyless.count(&charger, item).map(ToString::to_string);
                let lacking: Vec<_> = (1..4).filter(|&it| needed(it) && it > words && words > 0).collect();
                let first = lacking.iter().find(|column| !counts.contains_key(column));
                assert_eq!(new, first.map(|column| format!("col:{column}")));
                lacking.into_iter().for_each(|column| counts.entry(column).or_insert((0, item)).0 += 1);
            }
            let selectors: Vec<_> = keys(&rates).into_iter().map(ToString::to_string).collect();
            for (key, selector) in selectors.iter().enumerate() {
                let column: usize = selector.trim_start_matches("col:").parse().unwrap();
                assert_eq!(keyless.of(key), counts.get(&column).copied(), "{selector} of {chosen:?}");
            }
            let several = counts.iter().filter(|(_, (count, _))| *count > 1);
            let told = several.map(|(column, (count, _))| {
                format!("{count} of {all} items have no col:{column}: they share the empty key")
            });
            assert_eq!(keyless.told().collect::<Vec<_>>(), told.collect::<Vec<_>>());
        });
    }
}
