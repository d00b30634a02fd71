//! Slots that were given back: they go to whoever asks next.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rule::{pack_instants, unpack_instants};
use crate::time::Time;

/// All slots that may yet be handed on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReturnedSlots(Vec<AlikeSlots>);

/// Slots that were booked at the same costs, earliest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct AlikeSlots {
    costs: Box<[u64]>,
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    slots: Vec<Time>,
}

/// The most different costs of which slots are kept.
const MAX_COSTS: usize = 16;

/// The most slots of the same costs that are kept. The others stay booked, which costs throughput but never breaks a
/// limit.
const MAX_SLOTS: usize = 256;

fn as_text<S: Serializer>(slots: &[Time], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&pack_instants(slots.iter().copied()))
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Time>, D::Error> {
    let text = String::deserialize(deserializer)?;
    unpack_instants(&text, MAX_SLOTS as u64).ok_or_else(|| D::Error::custom("no instants"))
}

impl ReturnedSlots {
    /// The slots at these costs, earliest first.
    pub fn of(&self, costs: &[u64]) -> &[Time] {
        self.0.iter().find(|alike| *alike.costs == *costs).map_or(&[], |alike| &alike.slots)
    }

    /// True if there is a slot at this instant.
    pub fn contains(&self, at: Time) -> bool {
        self.0.iter().any(|alike| alike.slots.contains(&at))
    }

    /// Adds slots that were booked at these costs.
    pub fn add(&mut self, costs: &[u64], slots: impl IntoIterator<Item = Time>) {
        let mut slots = slots.into_iter().peekable();
        if slots.peek().is_none() {
            return;
        }
        let known = self.0.iter().position(|alike| *alike.costs == *costs).unwrap_or(self.0.len());
        if known == MAX_COSTS {
            return;
        }
        if known == self.0.len() {
            self.0.push(AlikeSlots { costs: costs.into(), slots: Vec::new() });
        }
        let alike = &mut self.0[known].slots;
        alike.extend(slots);
        alike.sort_unstable();
        alike.truncate(MAX_SLOTS);
    }

    /// Removes and returns the earliest slots at these costs, at most `most`, none of them before `from` or after
    /// `latest`.
    pub(super) fn take(&mut self, costs: &[u64], most: usize, from: Time, latest: Time) -> Vec<Time> {
        let Some(alike) = self.0.iter_mut().find(|alike| *alike.costs == *costs) else { return Vec::new() };
        let first = alike.slots.partition_point(|at| *at < from);
        let end = alike.slots.partition_point(|at| *at <= latest);
        alike.slots.drain(first..end.min(first.saturating_add(most)).max(first)).collect()
    }

    /// Forgets slots before `now`: it is too late to hand them on.
    pub(super) fn forget(&mut self, now: Time) {
        self.0.iter_mut().for_each(|alike| alike.slots.retain(|at| *at >= now));
        self.0.retain(|alike| !alike.slots.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(times: &[u64]) -> Vec<Time> {
        times.iter().copied().map(Time).collect()
    }

    #[test]
    fn slots_are_taken_once_earliest_first_by_those_who_pay_as_much() {
        let mut returned = ReturnedSlots::default();
        returned.add(&[1], times(&[9, 5]));
        returned.add(&[2], times(&[4]));
        returned.add(&[1], times(&[7]));
        assert_eq!((returned.of(&[1]), returned.0.len()), (&times(&[5, 7, 9])[..], 2));
        assert_eq!([4, 6, 9].map(|at| returned.contains(Time(at))), [true, false, true]);
        assert_eq!(returned.take(&[1], 1, Time(0), Time(9)), times(&[5]));
        assert_eq!(returned.take(&[1], 9, Time(8), Time(7)), []);
        assert_eq!(returned.take(&[1], 9, Time(6), Time(7)), times(&[7]));
        assert_eq!(returned.take(&[3], 9, Time(0), Time(9)), []);
        returned.forget(Time(9));
        assert_eq!((returned.of(&[1]), returned.0.len()), (&times(&[9])[..], 1));
    }

    #[test]
    fn no_more_are_kept_than_fit() {
        let mut returned = ReturnedSlots::default();
        for cost in 0..100 {
            returned.add(&[cost], (0..1000).map(Time));
            returned.add(&[0], (0..1000).map(Time));
        }
        assert_eq!(returned.0.len(), MAX_COSTS);
        assert!(returned.0.iter().all(|alike| alike.slots.len() == MAX_SLOTS));
    }
}
