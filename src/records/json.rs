//! The log as JSON lines.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Entry;
use super::log::{Instants, Noted};

/// What each line begins with.
pub(super) const START: &str = "{\"seq\":";

/// The line of an entry. An item that is not UTF-8 is an array of its bytes.
pub(super) fn line(entry: &Entry, instants: &Instants) -> String {
    let Entry { seq, attempt, end, item, .. } = *entry;
    let Instants { start, wait, runtime } = instants;
    let (exit, signal) = (end.code(), end.signal());
    let item = str::from_utf8(item).map_or_else(|_| Value::from(item), Value::from);
    format!(
        "{START}{seq},\"start\":{start},\"wait\":{wait},\"runtime\":{runtime},\"attempt\":{attempt},\"exit\":{exit},\"signal\":{signal},\"item\":{item}}}\n"
    )
}

/// Whether a log begins with this line.
pub(super) fn is_first(line: &[u8]) -> bool {
    line.starts_with(START.as_bytes()) && memmem::find(line, b"\"start\":").is_some()
}

/// What is read of a line.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    seq: u64,
    /// As it is written: a float would round it.
    #[serde(borrow)]
    start: &'a RawValue,
    exit: Option<i32>,
    signal: Option<i32>,
    #[serde(borrow)]
    item: Item<'a>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Item<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Bytes(Vec<u8>),
}

impl<'a> Line<'a> {
    /// Reads a line.
    pub(super) fn read(line: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }

    /// When the command started, as text.
    pub(super) fn start(&self) -> &'a [u8] {
        self.start.get().as_bytes()
    }

    /// The item.
    pub(super) fn item(self) -> Cow<'a, [u8]> {
        match self.item {
            Item::Text(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
            Item::Text(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
            Item::Bytes(bytes) => Cow::Owned(bytes),
        }
    }

    /// What it says.
    pub(super) fn noted(self) -> Noted<'a> {
        let is_completed = self.exit == Some(0) && self.signal == Some(0);
        Noted { seq: self.seq, is_completed, item: self.item() }
    }
}
