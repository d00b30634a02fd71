//! The job log as tab-separated values. Logs of GNU parallel are read too.

use std::borrow::Cow;

use super::escape::{escape, unescape};
use super::numbers;
use super::row::{Entry, LoggedJob, Noted, RowItems, numbered};
use crate::time::seconds;

/// The first line of a log. A log with another header is not continued.
pub(super) const HEADER: &str = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem\n";

pub(super) fn line(entry: &Entry) -> String {
    let Entry { started, attempt, end, ref items, .. } = *entry;
    let (wait, runtime) = (seconds(entry.wait), seconds(entry.runtime));
    let (exit, signal) = (end.code(), end.signal());
    let seq = numbers::text(items.iter().map(|(seq, _)| *seq));
    let items = items.iter().map(|(_, item)| escape(item)).collect::<Vec<_>>().join("\t");
    format!("{seq}\t{started}\t{wait}\t{runtime}\t{attempt}\t{exit}\t{signal}\t{items}\n")
}

/// Reads a line; `None` for the header, and for anything that is not a line of a log.
pub(super) fn noted(line: &[u8]) -> Option<Noted<'_>> {
    let fields: Vec<_> = line.splitn(8, |&byte| byte == b'\t').collect();
    let [seq, _start, _wait, _runtime, attempt, exit, signal, items] = fields[..] else { return None };
    Some(Noted {
        attempt: str::from_utf8(attempt).ok()?.parse().ok()?,
        is_completed: exit == b"0" && signal == b"0",
        items: numbered(numbers::read(seq)?, unescape_all(items).collect())?,
    })
}

/// The items of a line. Tabs in items are escaped.
fn unescape_all(items: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    items.split(|&byte| byte == b'\t').map(unescape)
}

/// The columns of a log that an audit needs. The item comes last; our own logs may have several in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogColumns {
    start: usize,
    item: usize,
    is_ours: bool,
}

impl LogColumns {
    /// The columns that a header names; `None` if it is not a header.
    pub(super) fn of(header: &[u8]) -> Option<Self> {
        let (start, item, is_ours) = match header.first_chunk()? {
            b"seq\t" => ("start", "item", true),
            b"Seq\t" => ("Starttime", "Command", false),
            _ => return None,
        };
        let mut names = header.split(|&byte| byte == b'\t');
        let start = names.position(|name| name == start.as_bytes())?;
        let item = start + 1 + names.position(|name| name == item.as_bytes())?;
        Some(LogColumns { start, item, is_ours })
    }

    /// The job in a line.
    ///
    /// # Errors
    /// It has too few columns.
    pub(super) fn job<'a>(&self, line: &'a [u8]) -> Result<LoggedJob<'a>, String> {
        let mut fields = line.splitn(self.item + 1, |&byte| byte == b'\t');
        let last = fields.next().filter(|_| self.is_ours).and_then(numbers::last);
        let start = fields.nth(self.start - 1).unwrap_or_default();
        let item = fields.nth(self.item - self.start - 1);
        let item = item.ok_or("is not a line of the log that the header announces")?;
        let items =
            if self.is_ours { unescape_all(item).collect() } else { RowItems::from_buf([item.into()]) };
        Ok(LoggedJob { start: start.trim_ascii(), items, last })
    }
}
