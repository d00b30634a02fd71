//! The options for waiting items: their order, longest wait and random delay, and how many are released together.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use anyhow::{Context, Error, Result};
use fastrand::Rng;

use super::duration::{format_duration, parse_duration};
use super::instant::Until;
use super::quantity::parse_count;

/// The treatment of an item that cannot go when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLimit {
    /// It waits: shaping.
    #[default]
    Wait,
    /// It is discarded: policing.
    Drop,
    /// It waits, but is discarded for a newer one.
    Latest,
    /// It ends the run.
    Fail,
}

impl OnLimit {
    /// True if an item goes at its arrival or not at all.
    pub(crate) fn never_waits(self) -> bool {
        matches!(self, OnLimit::Drop | OnLimit::Fail)
    }
}

/// The options for waiting items, and for those that cannot wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueOptions {
    /// The treatment of an item that cannot go when it arrives.
    pub on_limit: OnLimit,
    /// The number of items in one release.
    pub batch: BatchSize,
    /// True if items keep the order of the input, whatever their keys.
    pub in_order: bool,
    /// The most items that wait in lanes; then reading stops.
    pub lookahead: NonZeroU64,
    /// The longest wait, in nanoseconds: of each item with [`OnLimit::Drop`] or [`OnLimit::Fail`], otherwise of the run
    /// for its next release.
    pub max_wait: Option<u64>,
    /// A random delay of each release.
    pub jitter: Option<Jitter>,
    /// The instant after which nothing is released.
    pub until: Option<Until>,
}

impl QueueOptions {
    /// False if no item may wait for its first release.
    pub(crate) fn may_wait(&self) -> bool {
        !self.on_limit.never_waits() || self.max_wait.is_some()
    }

    /// True if a release may carry several items.
    pub(crate) fn forms_batches(&self) -> bool {
        self.batch.items.get() > 1
    }

    /// Nanoseconds that each item may wait after its arrival, if items otherwise never wait.
    pub(crate) fn wait_of_each(&self) -> Option<u64> {
        self.max_wait.filter(|_| self.on_limit.never_waits())
    }

    /// The most nanoseconds that the run waits for its next release, if items wait.
    pub(crate) fn wait_of_all(&self) -> Option<u64> {
        self.max_wait.filter(|_| !self.on_limit.never_waits())
    }
}

/// The number of items in one release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchSize {
    /// The most items.
    pub items: NonZeroU64,
    /// The time that a batch that is not full waits for more, in nanoseconds from the arrival of its first item.
    /// Without it, a batch takes what has arrived by the instant of its release.
    pub linger: Option<u64>,
}

impl BatchSize {
    /// One item in each release.
    pub const SINGLE: BatchSize = BatchSize { items: NonZeroU64::MIN, linger: None };
}

impl FromStr for BatchSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (items, linger) = match text.split_once(',') {
            Some((items, linger)) => (items, Some(parse_duration(linger)?)),
            None => (text, None),
        };
        let items = NonZeroU64::new(parse_count(items)?).context("a batch holds at least 1 item")?;
        Ok(BatchSize { items, linger })
    }
}

/// A random delay of releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jitter {
    /// The longest delay, in nanoseconds.
    most: u64,
    /// With the same seed, the same items have the same delays.
    seed: u64,
}

/// Spreads consecutive numbers: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Jitter {
    /// The delay of this attempt to release an item, in nanoseconds.
    pub fn delay(&self, item: u64, attempt: u64) -> u64 {
        let seed = self.seed ^ item.wrapping_mul(SPREAD) ^ attempt.wrapping_mul(SPREAD).rotate_left(32);
        Rng::with_seed(seed).u64(0..=self.most)
    }
}

impl FromStr for Jitter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (most, seed) = match text.split_once(',') {
            None => (text, fastrand::u32(..).into()),
            Some((most, option)) => {
                let seed = option.strip_prefix("seed=").context("write DUR or DUR,seed=N")?;
                (most, parse_count(seed)?)
            }
        };
        Ok(Jitter { most: parse_duration(most)?, seed })
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},seed={}", format_duration(self.most), self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_evenly_and_repeat() {
        let jitter: Jitter = "1us,seed=7".parse().unwrap();
        assert_eq!(jitter.to_string(), "1us,seed=7");
        let delays: Vec<_> = (1..=10_000).map(|item| jitter.delay(item, 1)).collect();
        for tenth in 0..10 {
            let share = delays.iter().filter(|delay| **delay / 100 == tenth).count();
            assert!((850..1150).contains(&share), "{share} of 10000 in tenth {tenth}");
        }
        assert!(delays.iter().max() <= Some(&1000));
        assert_eq!(delays[3], jitter.delay(4, 1));
        assert!((1..100).any(|item| jitter.delay(item, 1) != jitter.delay(item, 2)));
        let other: Jitter = "1us,seed=8".parse().unwrap();
        assert!((1..100).any(|item| jitter.delay(item, 1) != other.delay(item, 1)));
    }

    #[test]
    fn what_is_no_jitter() {
        for text in ["", "x", "1s,", "1s,seed=", "1s,seed=x", "1s,7", "-1s"] {
            text.parse::<Jitter>().expect_err(text);
        }
    }
}
