//! The processes that share a limit, and how many slots each got lately, so that all get the same.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rule::{pack, unpack};
use crate::time::{SECOND, Time};

/// The nanoseconds for which what each has got is counted.
const COUNTED_FOR: u64 = SECOND;

/// The most processes that are told apart.
const MAX_KNOWN: usize = 256;

/// The processes that have got slots in this second, or in the one before.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(in crate::store) struct Crowd {
    since: Time,
    /// Each by a number of its own, with the slots that it got in this second.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    got: Vec<(u32, u64)>,
}

fn as_text<S: Serializer>(got: &[(u32, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::new();
    for (process, slots) in got {
        pack(&mut text, (*process).into());
        pack(&mut text, *slots);
    }
    serializer.serialize_str(&text)
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(u32, u64)>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let numbers = unpack(&text).take(2 * MAX_KNOWN).collect::<Option<Vec<_>>>();
    let pair = |pair: &[u64]| Some((u32::try_from(pair[0]).ok()?, *pair.get(1)?));
    let got = numbers.and_then(|numbers| numbers.chunks(2).map(pair).collect());
    got.ok_or_else(|| D::Error::custom("no numbers of processes"))
}

impl Crowd {
    /// The crowd at `now`, which these processes join.
    pub(super) fn with(&self, now: Time, processes: impl Iterator<Item = u32>) -> Self {
        let is_counted = |seconds: u64| (self.since..self.since.after(seconds * COUNTED_FOR)).contains(&now);
        let mut crowd = match (is_counted(1), is_counted(2)) {
            (true, _) => self.clone(),
            (false, true) => {
                let were_here = self.got.iter().filter(|(_, slots)| *slots > 0);
                Crowd { since: now, got: were_here.map(|(process, _)| (*process, 0)).collect() }
            }
            (false, false) => Crowd { since: now, got: Vec::new() },
        };
        for process in processes {
            if crowd.known(process).is_none() && crowd.got.len() < MAX_KNOWN {
                crowd.got.push((process, 0));
            }
        }
        crowd
    }

    /// The number of processes.
    pub(super) fn size(&self) -> usize {
        self.got.len()
    }

    /// True if there is just one process.
    pub(super) fn is_one(&self) -> bool {
        self.size() <= 1
    }

    /// The number of slots that a process got in this second.
    pub(super) fn got(&self, process: u32) -> u64 {
        self.known(process).map_or(0, |at| self.got[at].1)
    }

    /// Counts slots that a process has got.
    pub(super) fn count(&mut self, process: u32, slots: u64) {
        if let Some(at) = self.known(process) {
            self.got[at].1 = self.got[at].1.saturating_add(slots);
        }
    }

    fn known(&self, process: u32) -> Option<usize> {
        self.got.iter().position(|(known, _)| *known == process)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Against all that was booked.
    #[test]
    fn it_counts_those_of_a_second_or_a_few_and_what_they_got_in_one() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut crowd, mut now, mut booked) =
                (Crowd::default(), Time(1 << 40), Vec::<(Time, u32, u64)>::new());
            for _ in 0..200 {
                let longest = [1, SECOND / 9, 3 * SECOND][random.usize(0..3)];
                now = now.after(random.u64(0..longest));
                let process = random.u32(0..8) * 0x2000_0001;
                crowd = crowd.with(now, [process].into_iter());
                let within = |nanos| booked.iter().filter(move |(at, ..)| now.since(*at) < nanos);
                let those = |nanos| within(nanos).map(|(_, process, _)| *process).chain([process]);
                let [least, most] =
                    [SECOND, 3 * SECOND].map(|nanos| those(nanos).collect::<BTreeSet<_>>().len());
                assert!((least..=most).contains(&crowd.size()), "{seed}: {crowd:?}");
                let its = within(SECOND).filter(|(_, other, _)| *other == process);
                assert!(crowd.got(process) <= its.map(|(.., slots)| slots).sum(), "{seed}: {crowd:?}");
                let slots = random.u64(1..9);
                let before = crowd.got(process);
                crowd.count(process, slots);
                assert_eq!(crowd.got(process), before + slots);
                booked.push((now, process, slots));
            }
            let set_back = crowd.with(Time(5), [1, 2].into_iter());
            assert_eq!((set_back.size(), set_back.got(1)), (2, 0));
        }
    }
}
