//! Escapes items for a log of tab-separated values.

use std::borrow::Cow;
use std::fmt::Write;

use crate::config::unescape_byte;

/// Escapes tabs, newlines and everything else that does not print. Different items stay different.
pub(super) fn escape(item: &[u8]) -> String {
    let mut text = String::with_capacity(item.len());
    for chunk in item.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut item, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, tail)) = rest.split_first() {
        if let Some((bytes, after)) = meaning(rest) {
            item.extend_from_slice(&bytes);
            rest = after;
        } else {
            item.push(byte);
            rest = tail;
        }
    }
    Cow::Owned(item)
}

/// The bytes of the escape that `text` begins with, and the rest of the text.
fn meaning(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\\")?;
    let Some(code) = rest.strip_prefix(b"u{") else {
        return Some((vec![unescape_byte(&mut rest).ok()?], rest));
    };
    let (digits, rest) = code.split_at(memchr::memchr(b'}', code)?);
    let code = u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    Some((char::from_u32(code)?.to_string().into_bytes(), &rest[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_items_are_one_line_and_distinct() {
        let items: [&[u8]; 7] = [b"\t", b"\\t", b"\x1b", b"\\u{1b}", b"\xff", b"\\xff", "é".as_bytes()];
        let escaped: Vec<_> = items.iter().map(|item| escape(item)).collect();
        assert_eq!(escaped, ["\\t", "\\\\t", "\\u{1b}", "\\\\u{1b}", "\\xff", "\\\\xff", "é"]);
        for (item, escaped) in items.iter().zip(&escaped) {
            assert_eq!(unescape(escaped.as_bytes()), *item);
        }
    }

    #[test]
    fn any_item_reads_back() {
        let pieces: [&[u8]; 9] =
            [b"\\", b"x41", b"u{e9}", b"t", b"\n", b"\xc3", b"\xa9", "\u{85}".as_bytes(), b"{}"];
        for number in 0..pieces.len().pow(4) {
            let digits = (0..4).map(|place| number / pieces.len().pow(place) % pieces.len());
            let item = digits.map(|digit| pieces[digit]).collect::<Vec<_>>().concat();
            let escaped = escape(&item);
            assert!(!escaped.contains(char::is_control), "{escaped}");
            assert_eq!(unescape(escaped.as_bytes()), item, "{escaped}");
        }
    }
}
