//! The log as tab-separated values.

use std::fmt::Write as _;

use super::Entry;
use crate::exit::End;
use crate::time::SECOND;

/// The first line.
pub(super) const HEADER: &str = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem\n";

/// The line of an entry whose command started at `start`, in nanoseconds since the epoch.
pub(super) fn line(entry: &Entry, start: u128) -> String {
    let Entry { seq, wait, runtime, attempt, end, item, .. } = *entry;
    let exit = end.code();
    let signal = if let End::Killed(signal) = end { signal } else { 0 };
    format!(
        "{seq}\t{}\t{}\t{}\t{attempt}\t{exit}\t{signal}\t{}\n",
        exact_seconds(start),
        seconds(wait.into()),
        seconds(runtime.into()),
        escape(item)
    )
}

/// The item of a line, escaped, if it was completed with status 0.
pub(super) fn completed(line: &[u8]) -> Option<&[u8]> {
    let mut fields = line.splitn(8, |&byte| byte == b'\t').skip(5);
    let (exit, signal, item) = (fields.next()?, fields.next()?, fields.next()?);
    (exit == b"0" && signal == b"0").then_some(item)
}

/// With all digits: an audit goes by them.
pub(super) fn exact_seconds(nanos: u128) -> String {
    let second = u128::from(SECOND);
    format!("{}.{:09}", nanos / second, nanos % second)
}

pub(super) fn seconds(nanos: u128) -> String {
    let second = u128::from(SECOND);
    format!("{}.{:03}", nanos / second, nanos % second / 1_000_000)
}

/// An item without tabs, newlines or anything else that does not print; two items never become the same.
pub(super) fn escape(item: &[u8]) -> String {
    let mut text = String::with_capacity(item.len());
    for chunk in item.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_items_are_one_line_and_distinct() {
        let items: [&[u8]; 6] = [b"\t", b"\\t", b"\x1b", b"\\u{1b}", b"\xff", b"\\xff"];
        let escaped: Vec<_> = items.iter().map(|item| escape(item)).collect();
        assert_eq!(escaped, ["\\t", "\\\\t", "\\u{1b}", "\\\\u{1b}", "\\xff", "\\\\xff"]);
        assert_eq!(escape("é".as_bytes()), "é");
    }
}
