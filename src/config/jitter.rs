//! Random delays: `DUR[,seed=N]`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};
use fastrand::Rng;

use super::{format_duration, parse_count, parse_duration};

/// By how much releases are delayed at random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jitter {
    /// At most this number of nanoseconds.
    most: u64,
    /// The same seed delays the same items by as much.
    seed: u64,
}

/// Spreads numbers that follow each other: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Jitter {
    /// For how many nanoseconds the release of an item is delayed, the first time and each time again.
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
                let seed = option.strip_prefix("seed=").context("there is DUR, and DUR,seed=N")?;
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
