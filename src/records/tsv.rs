//! The log as tab-separated values; so is that of GNU parallel.

use std::borrow::Cow;

use super::Entry;
use super::escape::{escape, unescape};
use super::log::{Instants, Noted};

/// The first line.
pub(super) const HEADER: &str = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem\n";

/// The line of an entry.
pub(super) fn line(entry: &Entry, instants: &Instants) -> String {
    let Entry { seq, attempt, end, item, .. } = *entry;
    let Instants { start, wait, runtime } = instants;
    let (exit, signal) = (end.code(), end.signal());
    format!("{seq}\t{start}\t{wait}\t{runtime}\t{attempt}\t{exit}\t{signal}\t{}\n", escape(item))
}

/// What a line says, if it is not the header.
pub(super) fn noted(line: &[u8]) -> Option<Noted<'_>> {
    let mut fields = line.splitn(8, |&byte| byte == b'\t');
    let seq = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mut fields = fields.skip(4);
    let (exit, signal, item) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Noted { seq, is_completed: exit == b"0" && signal == b"0", item: unescape(item) })
}

/// Where a log has what an audit asks for. The item is the last column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Columns {
    start: usize,
    item: usize,
    is_ours: bool,
}

impl Columns {
    /// Those that a header names.
    pub(super) fn of(header: &[u8]) -> Option<Self> {
        let names: Vec<_> = header.split(|&byte| byte == b'\t').collect();
        let column = |name: &[u8]| names.iter().position(|other| *other == name);
        let is_ours = names[0] == b"seq";
        let (start, item) = match names[0] {
            b"seq" => column(b"start").zip(column(b"item")),
            b"Seq" => column(b"Starttime").zip(column(b"Command")),
            _ => None,
        }?;
        (start < item).then_some(Columns { start, item, is_ours })
    }

    /// The start in a line, and the item.
    pub(super) fn read<'a>(&self, line: &'a [u8]) -> Option<(&'a [u8], Cow<'a, [u8]>)> {
        let mut fields = line.splitn(self.item + 1, |&byte| byte == b'\t').skip(self.start);
        let (start, item) = (fields.next()?, fields.nth(self.item - self.start - 1)?);
        Some((start.trim_ascii(), if self.is_ours { unescape(item) } else { Cow::Borrowed(item) }))
    }
}
