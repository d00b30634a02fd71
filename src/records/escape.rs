//! Items as they stand in a log of tab-separated values.

use std::borrow::Cow;
use std::fmt::Write;

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

/// The item that was escaped.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut item, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, tail)) = rest.split_first() {
        let (bytes, tail) = if byte == b'\\' { meaning(tail) } else { (None, tail) };
        match bytes {
            Some(bytes) => item.extend_from_slice(&bytes),
            None => item.push(byte),
        }
        rest = tail;
    }
    Cow::Owned(item)
}

/// The bytes that the text after a backslash stands for, and the rest of it.
fn meaning(text: &[u8]) -> (Option<Vec<u8>>, &[u8]) {
    let hex = |digits: &[u8]| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    let read = match text {
        [b't', rest @ ..] => Some((vec![b'\t'], rest)),
        [b'n', rest @ ..] => Some((vec![b'\n'], rest)),
        [b'r', rest @ ..] => Some((vec![b'\r'], rest)),
        [b'\\', rest @ ..] => Some((vec![b'\\'], rest)),
        [b'x', high, low, rest @ ..] => {
            hex(&[*high, *low]).and_then(|byte| u8::try_from(byte).ok()).map(|byte| (vec![byte], rest))
        }
        [b'u', b'{', rest @ ..] => rest.iter().position(|&byte| byte == b'}').and_then(|end| {
            let c = hex(&rest[..end]).and_then(char::from_u32)?;
            Some((c.to_string().into_bytes(), &rest[end + 1..]))
        }),
        _ => None,
    };
    read.map_or((None, text), |(bytes, rest)| (Some(bytes), rest))
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
