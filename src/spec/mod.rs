//! What the command line means: comparable, printable, and with nothing of the parser in it.

mod delimiter;
mod duration;
mod quantity;
mod rate;
mod selector;

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

pub use delimiter::parse_delimiter;
pub use duration::{format_duration, parse_duration};
pub use quantity::{parse_count, parse_decimal, parse_size};
pub use rate::{Algorithm, Defaults, Rate, RateText, Start};
pub use selector::Selector;

use crate::limiter::{All, Bucket, Fixed, Interval, Limiter, Sliding};
use crate::time::Time;

/// A whole run, as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// What limits the releases.
    pub limits: Vec<Rate>,
    /// Where items come from.
    pub input: Input,
    /// How many items make one release.
    pub batch: Batch,
    /// What a release does.
    pub action: Action,
    /// How much is told on stderr.
    pub report: Report,
}

/// Where items come from, and where one ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Read instead of stdin.
    pub file: Option<PathBuf>,
    /// What ends a record. Not empty.
    pub delimiter: Vec<u8>,
    /// The longest record allowed, in bytes without its delimiter.
    pub max_record: usize,
}

/// How many items make one release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// At most so many.
    pub items: NonZeroU64,
    /// How long a batch that is not full waits for more, in nanoseconds from its first item's arrival.
    pub linger: Option<u64>,
}

impl Batch {
    /// Each item on its own.
    pub const SINGLE: Batch = Batch { items: NonZeroU64::MIN, linger: None };

    /// How many releases it takes to let `records` items go at once.
    pub fn releases(self, records: u64) -> u64 {
        if self.items == NonZeroU64::MIN { records } else { 1 }
    }
}

impl FromStr for Batch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (items, linger) = match text.split_once(',') {
            Some((items, linger)) => (items, Some(parse_duration(linger)?)),
            None => (text, None),
        };
        let items = NonZeroU64::new(parse_count(items)?).context("a batch holds at least 1 item")?;
        Ok(Batch { items, linger })
    }
}

/// What a release does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Writes the items to stdout.
    Pass,
    /// Runs a command with the items as arguments.
    Run {
        /// The command and its arguments.
        command: Vec<OsString>,
        /// What stands for the item in them.
        placeholder: OsString,
    },
    /// Releases nothing: prints when each item would have been released.
    DryRun {
        /// Where a record says when it arrived. Without it, all arrive at 0.
        arrivals: Option<Selector>,
    },
}

/// How much is told on stderr.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// Errors only.
    Quiet,
    /// Errors, and what was not released.
    Normal,
    /// The limits at the start and a summary at the end as well.
    Verbose,
}

/// Builds the limiters. `start` is the start of the run.
pub fn build(limits: &[Rate], start: Time) -> All {
    limits.iter().map(|rate| limiter(rate, start)).collect()
}

fn limiter(rate: &Rate, start: Time) -> Box<dyn Limiter> {
    let &Rate { count, margin, .. } = rate;
    let period = rate.period + margin;
    let mut limiter: Box<dyn Limiter> = match rate.algorithm {
        Algorithm::Sliding => Box::new(Sliding::new(count, period)),
        Algorithm::Bucket => Box::new(Bucket::new(count, period, rate.burst.unwrap_or(count))),
        Algorithm::Interval => Box::new(Interval::new(count, period)),
        Algorithm::Fixed => Box::new(Fixed::new(count, period)),
    };
    if rate.start == Start::Empty {
        limiter.drain(start);
    }
    limiter
}
