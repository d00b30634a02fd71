//! CSV (RFC 4180): fields in double quotes may contain separators and the ends of lines.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

const QUOTE: u8 = b'"';
const NEWLINE: u8 = b'\n';

/// Some programs begin a table with it. It belongs to no field.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How far the end of a record has been looked for: all before `at` is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Scan {
    pub(super) at: usize,
    /// The index of the quote before `at` that is open.
    quote: Option<usize>,
}

impl Scan {
    /// The index of the quote that is open at the end of a record of this length.
    pub(super) fn open_quote(&self, length: usize) -> Option<usize> {
        // A quote at the very end may turn out to be the first of two, but it closes if nothing follows.
        self.quote.filter(|_| self.at >= length)
    }
}

/// True if newlines are all that ends the records in these bytes, which begin with one.
pub(super) fn is_plain(bytes: &[u8], scan: &Scan) -> bool {
    scan.quote.is_none() && memchr(QUOTE, &bytes[scan.at..]).is_none()
}

/// The length of the record at the start of `bytes` with the end of its line, if it is there. Otherwise the search may
/// go on from `scan` once more bytes are known.
pub(super) fn end_of_record(bytes: &[u8], separator: u8, scan: &mut Scan) -> Option<usize> {
    loop {
        let rest = &bytes[scan.at..];
        if scan.quote.is_some() {
            let quote = memchr(QUOTE, rest).map(|at| scan.at + at);
            scan.at = quote.unwrap_or(bytes.len());
            let is_doubled = *bytes.get(quote? + 1)? == QUOTE;
            scan.at += if is_doubled { 2 } else { 1 };
            scan.quote = scan.quote.filter(|_| is_doubled);
        } else {
            // Where most fields are in quotes, the next one begins here, and a search would take longer.
            let found = match rest {
                [QUOTE | NEWLINE, ..] => Some(0),
                &[first, QUOTE, ..] if first == separator => Some(1),
                _ => memchr2(QUOTE, NEWLINE, rest),
            };
            let found = found.map(|at| scan.at + at);
            scan.at = found.map_or(bytes.len(), |at| at + 1);
            let found = found?;
            if bytes[found] == NEWLINE {
                let end = std::mem::take(scan).at;
                return Some(end);
            }
            scan.quote = Some(found).filter(|&at| begins_field(bytes, separator, at));
        }
    }
}

/// True if a field begins at the index `at`, which is outside quotes.
fn begins_field(record: &[u8], separator: u8, at: usize) -> bool {
    match at.checked_sub(1) {
        None => true,
        Some(before) => record[before] == separator || record[..at] == *BYTE_ORDER_MARK,
    }
}

/// A field as it is written.
struct Raw<'a> {
    /// What is inside the quotes; `None` if it does not begin with one.
    quoted: Option<&'a [u8]>,
    /// What is outside of them.
    plain: &'a [u8],
}

/// The fields of a record. A quote that is not closed reaches to its end.
fn fields(record: &[u8], separator: u8) -> impl Iterator<Item = Raw<'_>> {
    let mut rest = Some(record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record));
    std::iter::from_fn(move || {
        let text = rest?;
        let (quoted, text) = match text.strip_prefix(&[QUOTE]) {
            Some(inner) => {
                let end = closing(inner);
                (Some(&inner[..end]), inner.get(end + 1..).unwrap_or_default())
            }
            None => (None, text),
        };
        let end = memchr(separator, text);
        rest = end.map(|end| &text[end + 1..]);
        Some(Raw { quoted, plain: &text[..end.unwrap_or(text.len())] })
    })
}

/// The index of the quote that closes a field, or the length of `text` if there is none. Two quotes stand for one.
fn closing(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(quote) = memchr(QUOTE, &text[at..]) {
        at += quote;
        if text.get(at + 1) != Some(&QUOTE) {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// The field with this index, without its quotes.
pub(super) fn field(record: &[u8], separator: u8, index: usize) -> Option<Cow<'_, [u8]>> {
    fields(record, separator).nth(index).map(Raw::text)
}

/// All fields, without their quotes.
pub(super) fn texts(record: &[u8], separator: u8) -> impl Iterator<Item = Cow<'_, [u8]>> {
    fields(record, separator).map(Raw::text)
}

impl<'a> Raw<'a> {
    /// The field without its quotes.
    fn text(self) -> Cow<'a, [u8]> {
        let Raw { quoted, plain } = self;
        match quoted {
            None => plain.into(),
            Some(quoted) if plain.is_empty() && memchr(QUOTE, quoted).is_none() => quoted.into(),
            Some(quoted) => {
                let mut text = Vec::with_capacity(quoted.len() + plain.len());
                let mut was_quote = false;
                for &byte in quoted {
                    was_quote = byte == QUOTE && !was_quote;
                    if !was_quote {
                        text.push(byte);
                    }
                }
                text.extend_from_slice(plain);
                text.into()
            }
        }
    }
}

/// True if a field in quotes contains the separator.
pub(super) fn has_quoted(record: &[u8], separator: u8) -> bool {
    memchr(QUOTE, record).is_some()
        && fields(record, separator)
            .any(|field| field.quoted.is_some_and(|quoted| memchr(separator, quoted).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::for_each_seed;

    /// What is written by the rules of CSV is read back; what is read without an end of its quotes is not lost.
    #[test]
    fn fields_are_read_as_they_were_written() {
        for_each_seed(2000, |random| {
            let separator = *random.choice(b",;\t|").expect("one");
            let text = |random: &mut fastrand::Rng| -> Vec<u8> {
                (0..random.usize(..5)).map(|_| *random.choice(b"a\", ;\t|b").expect("one")).collect()
            };
            let written: Vec<_> = (0..random.usize(1..5)).map(|_| (random.bool(), text(random))).collect();
            let mut record = Vec::new();
            let mut is_cut = false;
            for (at, (quotes, field)) in written.iter().enumerate() {
                record.extend((at > 0).then_some(separator));
                let is_special = field.iter().any(|byte| *byte == separator || *byte == QUOTE);
                if *quotes || is_special {
                    let doubled =
                        field.iter().flat_map(|&byte| vec![byte; if byte == QUOTE { 2 } else { 1 }]);
                    record.extend([QUOTE].into_iter().chain(doubled).chain([QUOTE]));
                    is_cut |= field.contains(&separator);
                } else {
                    record.extend(field);
                }
            }
            let read: Vec<_> = (0..).map_while(|index| field(&record, separator, index)).collect();
            let wanted: Vec<_> = written.iter().map(|(_, field)| &field[..]).collect();
            assert_eq!(read, wanted, "{}", record.escape_ascii());
            assert_eq!(has_quoted(&record, separator), is_cut, "{}", record.escape_ascii());
        });
    }

    #[test]
    fn what_is_not_quite_csv_is_read_as_far_as_it_goes() {
        for (record, index, wanted) in [
            (&b"\"a\"b,c"[..], 0, Some("ab")),
            (b"\"a\"b,c", 1, Some("c")),
            (b"\"a,b", 0, Some("a,b")),
            (b"\"a,b", 1, None),
            (b"a\"b,c", 0, Some("a\"b")),
            (b"", 0, Some("")),
            (b"\"", 0, Some("")),
            (b"x,", 1, Some("")),
        ] {
            let read = field(record, b',', index);
            assert_eq!(read.as_deref(), wanted.map(str::as_bytes), "{}", record.escape_ascii());
        }
    }
}
