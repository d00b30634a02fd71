//! The way in which items wait: in which order, how long, and how many are released together.

use std::num::NonZeroU64;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

use super::duration::parse_duration;
use super::jitter::Jitter;
use super::named::Named;
use super::quantity::parse_count;
use super::until::Until;

/// The fate of an item that cannot go at the instant of its arrival.
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
    /// An item goes at its arrival or not at all.
    pub(crate) fn never_waits(self) -> bool {
        matches!(self, OnLimit::Drop | OnLimit::Fail)
    }
}

impl Named for OnLimit {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("wait", OnLimit::Wait),
        ("drop", OnLimit::Drop),
        ("latest", OnLimit::Latest),
        ("fail", OnLimit::Fail),
    ];
}

/// The order, number and time in which items wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueOptions {
    /// In the order of the input, whatever their keys.
    pub in_order: bool,
    /// The most items that wait in lanes; then reading stops.
    pub lookahead: NonZeroU64,
    /// The longest wait, in nanoseconds: of each item with [`OnLimit::Drop`] or [`OnLimit::Fail`], otherwise of the run
    /// for its next release.
    pub max_wait: Option<u64>,
    /// A random delay of each release.
    pub jitter: Option<Jitter>,
    /// After this, nothing is released.
    pub until: Option<Until>,
}

/// The number of items in one release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchSize {
    /// At most this number.
    pub items: NonZeroU64,
    /// Nanoseconds from its first item's arrival that a batch which is not full waits for more. Without it, a batch is
    /// formed of what has arrived by the instant of its release.
    pub linger: Option<u64>,
}

impl BatchSize {
    /// Each item on its own.
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
