//! A row of the job log, in any format.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::exit::End;
use crate::time::Time;

/// Items that were released together: nearly always one.
pub(crate) type RowItems<'a> = SmallVec<[Cow<'a, [u8]>; 1]>;

/// A job, as an audit sees it.
pub(super) struct LoggedJob<'a> {
    /// Its start, as text.
    pub(super) start: &'a [u8],
    pub(super) items: RowItems<'a>,
    /// The number of its last item, in our own logs.
    pub(super) last: Option<u64>,
}

/// A row that was read.
pub(super) struct Noted<'a> {
    pub(super) attempt: u64,
    /// True if the command exited with 0.
    pub(super) is_completed: bool,
    /// The items and their numbers.
    pub(super) items: Vec<(u64, Cow<'a, [u8]>)>,
}

/// Items with their numbers. `None` unless there is one for each.
pub(super) fn numbered(
    mut seqs: impl Iterator<Item = u64>,
    items: RowItems<'_>,
) -> Option<Vec<(u64, Cow<'_, [u8]>)>> {
    let items = items.into_iter().map(|item| Some((seqs.next()?, item))).collect::<Option<_>>()?;
    seqs.next().is_none().then_some(items)
}

/// A row to be written.
pub struct Entry<'a> {
    /// The start, since 1970.
    pub started: Time,
    /// The time that its items waited, in nanoseconds.
    pub wait: u64,
    /// The time that it ran, in nanoseconds.
    pub runtime: u64,
    /// The number of this attempt at its items, counted from 1.
    pub attempt: u64,
    /// The end of the command.
    pub end: End,
    /// Its items, and their numbers, counted from 1.
    pub items: Vec<(u64, &'a [u8])>,
}
