//! The job log as JSON lines.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::row::{Entry, LoggedJob, Noted, RowItems, numbered};
use crate::time::seconds;

/// The start of each line.
pub(super) const START: &str = "{\"seq\":";

/// The line of an entry: with its item or, with `lists`, with lists of all items and their numbers. An item that is not
/// UTF-8 is written as an array of its bytes.
pub(super) fn line(entry: &Entry, lists: bool) -> String {
    let Entry { started, attempt, end, ref items, .. } = *entry;
    let (wait, runtime) = (seconds(entry.wait), seconds(entry.runtime));
    let (exit, signal) = (end.code(), end.signal());
    let item = |item: &[u8]| str::from_utf8(item).map_or_else(|_| Value::from(item), Value::from);
    let (seqs, items): (Vec<_>, Vec<_>) = items.iter().map(|(seq, bytes)| (*seq, item(bytes))).unzip();
    let seq = seqs.first().unwrap_or(&0);
    let items = match &items[..] {
        [item] if !lists => format!("\"item\":{item}"),
        _ => format!("\"items\":{},\"seqs\":{}", Value::from(items), Value::from(&seqs[..])),
    };
    format!(
        "{START}{seq},\"start\":{started},\"wait\":{wait},\"runtime\":{runtime},\"attempt\":{attempt},\
         \"exit\":{exit},\"signal\":{signal},{items}}}\n"
    )
}

/// True if `line` is the first line of a log.
pub(super) fn is_first(line: &[u8]) -> bool {
    line.starts_with(START.as_bytes()) && memmem::find(line, b"\"start\":").is_some()
}

/// The members of a line that are read.
#[derive(Deserialize)]
struct Line<'a> {
    seq: u64,
    /// As written: a float would round it.
    #[serde(borrow)]
    start: &'a RawValue,
    #[serde(default)]
    attempt: u64,
    exit: Option<i32>,
    signal: Option<i32>,
    /// The only item, in a line that is not of a batch.
    #[serde(borrow)]
    item: Option<ItemText<'a>>,
    #[serde(borrow, default)]
    items: Vec<ItemText<'a>>,
    #[serde(default)]
    seqs: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ItemText<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Bytes(Vec<u8>),
}

impl<'a> ItemText<'a> {
    fn bytes(self) -> Cow<'a, [u8]> {
        match self {
            ItemText::Text(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
            ItemText::Text(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
            ItemText::Bytes(bytes) => Cow::Owned(bytes),
        }
    }
}

/// The job in a line.
///
/// # Errors
/// It is not a line of a log.
pub(super) fn job(line: &[u8]) -> Result<LoggedJob<'_>, String> {
    let line: Line =
        serde_json::from_slice(line).map_err(|error| format!("is not a line of a log: {error}"))?;
    let (start, last) = (line.start.get().as_bytes(), line.seqs.last().copied().or(Some(line.seq)));
    Ok(LoggedJob { start, items: line.items().ok_or("has no item")?, last })
}

impl<'a> Line<'a> {
    /// The items; `None` if there are none.
    fn items(self) -> Option<RowItems<'a>> {
        let items: RowItems<'a> = self.item.into_iter().chain(self.items).map(ItemText::bytes).collect();
        Some(items).filter(|items| !items.is_empty())
    }
}

/// Reads a line; `None` for anything that is not a line of a log.
pub(super) fn noted(line: &[u8]) -> Option<Noted<'_>> {
    let mut line: Line = serde_json::from_slice(line).ok()?;
    let (attempt, is_completed) = (line.attempt, line.exit == Some(0) && line.signal == Some(0));
    let seqs = if line.item.is_some() { vec![line.seq] } else { std::mem::take(&mut line.seqs) };
    Some(Noted { attempt, is_completed, items: numbered(seqs.into_iter(), line.items()?)? })
}
