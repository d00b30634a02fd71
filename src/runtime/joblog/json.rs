//! The log as JSON lines.

use serde_json::Value;

use super::{Entry, tsv};
use crate::exit::End;

/// What each line begins with.
pub(super) const START: &str = "{\"seq\":";

/// The line of an entry whose command started at `start`, in nanoseconds since the epoch. An item that is not UTF-8 is an
/// array of its bytes.
pub(super) fn line(entry: &Entry, start: u128) -> String {
    let Entry { seq, wait, runtime, attempt, end, item, .. } = *entry;
    let exit = end.code();
    let signal = if let End::Killed(signal) = end { signal } else { 0 };
    let (start, wait, runtime) =
        (tsv::exact_seconds(start), tsv::seconds(wait.into()), tsv::seconds(runtime.into()));
    let item = str::from_utf8(item).map_or_else(|_| Value::from(item), Value::from);
    format!(
        "{START}{seq},\"start\":{start},\"wait\":{wait},\"runtime\":{runtime},\"attempt\":{attempt},\"exit\":{exit},\"signal\":{signal},\"item\":{item}}}\n"
    )
}

/// The item of a line, as it is escaped among tab-separated values, if it was completed with status 0.
pub(super) fn completed(line: &[u8]) -> Option<Box<[u8]>> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let is_done = line["exit"] == 0 && line["signal"] == 0;
    let item = match &line["item"] {
        Value::String(text) => text.clone().into_bytes(),
        Value::Array(bytes) => bytes.iter().map(byte).collect::<Option<_>>()?,
        _ => return None,
    };
    is_done.then(|| tsv::escape(&item).into_bytes().into())
}

fn byte(value: &Value) -> Option<u8> {
    value.as_u64()?.try_into().ok()
}
