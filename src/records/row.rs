//! What a row of the log of commands says, in whatever format.

use std::borrow::Cow;

use super::recorded::RowItems;
use crate::exit::End;
use crate::time::Time;

/// What a line says.
pub(super) struct Noted<'a> {
    /// With status 0.
    pub(super) is_completed: bool,
    /// The items, and their numbers.
    pub(super) items: Vec<(u64, Cow<'a, [u8]>)>,
}

impl<'a> Noted<'a> {
    /// Nothing, unless each item has a number.
    pub(super) fn new(
        is_completed: bool,
        mut seqs: impl Iterator<Item = u64>,
        items: RowItems<'a>,
    ) -> Option<Self> {
        let items = items.into_iter().map(|item| Some((seqs.next()?, item))).collect::<Option<_>>()?;
        seqs.next().is_none().then_some(Noted { is_completed, items })
    }
}

/// What is noted of a command.
pub struct Entry<'a> {
    /// When it started, by the clock of the run.
    pub started: Time,
    /// How long its items waited, in nanoseconds.
    pub wait: u64,
    /// How long it ran, in nanoseconds.
    pub runtime: u64,
    /// How often its items have been tried, this time included.
    pub attempt: u64,
    /// How it ended.
    pub end: End,
    /// Its items, and their numbers, counted from 1.
    pub items: Vec<(u64, &'a [u8])>,
}

/// When a command started, and how long that took, as it stands in a line.
pub(super) struct Instants {
    /// Since 1970, with all digits: an audit goes by them.
    pub(super) start: Time,
    pub(super) wait: String,
    pub(super) runtime: String,
}
