//! Taking the selected part out of a record.

use std::borrow::Cow;
use std::cell::RefCell;

use memchr::memchr3;
use memchr::memmem::Finder;
use regex::bytes::{CaptureLocations, Regex};

use super::host::host;
use super::json::Paths;
use super::part::Selected;
use crate::config::{Selector, compile};

/// A selector, ready to be used.
pub struct Extractor(SelectorKind);

enum SelectorKind {
    Column {
        index: usize,
        separator: Option<Box<Finder<'static>>>,
    },
    Bytes,
    Host,
    Path(Paths),
    Match(Box<Regex>),
    /// The first group of a match. Where the groups are is written into the same place each time.
    Group(Box<(Regex, RefCell<CaptureLocations>)>),
    Constant(u64),
}

impl Extractor {
    /// `separator` stands between fields; without it, runs of blanks do.
    ///
    /// # Panics
    /// If the selector holds a regular expression that was not checked when it was parsed.
    pub fn new(selector: &Selector, separator: Option<&[u8]>) -> Self {
        Extractor(match selector {
            Selector::Column(column) => {
                let separator = separator.map(|separator| Box::new(Finder::new(separator).into_owned()));
                SelectorKind::Column { index: column.get() - 1, separator }
            }
            Selector::Bytes => SelectorKind::Bytes,
            Selector::Host => SelectorKind::Host,
            Selector::Path(path) => {
                let mut paths = Paths::default();
                paths.add(path);
                SelectorKind::Path(paths)
            }
            Selector::Regex(regex) => pattern(compile(regex).expect("checked when it was parsed")),
            Selector::Constant(number) => SelectorKind::Constant(*number),
        })
    }

    /// The selected part of a record, or `None` if it has none. `length` is that of the record with its delimiter,
    /// which `record` is without.
    pub fn select<'a>(&self, record: &'a [u8], length: usize) -> Option<Cow<'a, [u8]>> {
        self.part(record, length).into_text()
    }

    pub(super) fn part<'a>(&self, record: &'a [u8], length: usize) -> Selected<'a> {
        match &self.0 {
            SelectorKind::Column { index, separator: None } => column(record, *index).into(),
            SelectorKind::Column { index, separator: Some(separator) } => {
                field(record, separator, *index).into()
            }
            SelectorKind::Bytes => Selected::Number(length as u64),
            SelectorKind::Host => host(record),
            SelectorKind::Path(paths) => {
                paths.values(record).ok().and_then(|mut values| values.pop()).unwrap_or(Selected::Missing)
            }
            SelectorKind::Match(regex) => regex.find(record).map(|found| found.as_bytes()).into(),
            SelectorKind::Group(pattern) => {
                let mut groups = pattern.1.borrow_mut();
                let found = pattern.0.captures_read(&mut groups, record);
                found.and_then(|_| groups.get(1)).map(|(start, end)| &record[start..end]).into()
            }
            SelectorKind::Constant(number) => Selected::Number(*number),
        }
    }
}

fn pattern(regex: Regex) -> SelectorKind {
    if regex.captures_len() == 1 {
        return SelectorKind::Match(Box::new(regex));
    }
    let groups = RefCell::new(regex.capture_locations());
    SelectorKind::Group(Box::new((regex, groups)))
}

/// The field between runs of blanks and, as in awk, newlines.
fn column(record: &[u8], index: usize) -> Option<&[u8]> {
    let mut rest = record;
    for before in 0.. {
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n'))?;
        rest = &rest[start..];
        let end = memchr3(b' ', b'\t', b'\n', rest).unwrap_or(rest.len());
        if before == index {
            return Some(&rest[..end]);
        }
        rest = &rest[end..];
    }
    None
}

fn field<'a>(record: &'a [u8], separator: &Finder, index: usize) -> Option<&'a [u8]> {
    let mut ends = separator.find_iter(record);
    let start = match index.checked_sub(1) {
        None => 0,
        Some(before) => ends.nth(before)? + separator.needle().len(),
    };
    Some(&record[start..ends.next().unwrap_or(record.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_parts() {
        let table: [(&str, Option<&[u8]>, &[u8], Option<&[u8]>); 27] = [
            ("col:1", None, b"a b", Some(b"a")),
            ("col:2", None, b"  a \t b  ", Some(b"b")),
            ("col:3", None, b"a b", None),
            ("col:1", None, b"", None),
            ("col:1", Some(b","), b",b", Some(b"")),
            ("col:2", Some(b","), b"a,b,c", Some(b"b")),
            ("col:3", Some(b","), b"a,b,", Some(b"")),
            ("col:4", Some(b","), b"a,b,c", None),
            ("col:2", Some(b"::"), b"a::b", Some(b"b")),
            ("bytes", None, b"abc", Some(b"4")),
            ("host", None, b"https://User@Example.ORG:8080/x", Some(b"example.org")),
            ("host", None, b" http://[::1]/ ", Some(b"[::1]")),
            ("host", None, b"example.org/x", None),
            ("host", None, b"mailto:x@y", None),
            ("host", None, b"\xff", None),
            (".a", None, br#"{"a": "x\ny"}"#, Some(b"x\ny")),
            (".a.b", None, br#"{"a": {"b": 12}}"#, Some(b"12")),
            (".a.1", None, br#"{"a": [1, true]}"#, Some(b"true")),
            (".a", None, br#"{"a": null}"#, None),
            (".a", None, b"not json", None),
            (".a.b", None, br#"{"a": "b"}"#, None),
            ("re:[0-9]+", None, b"ab12cd", Some(b"12")),
            ("re:id=(\\w+)", None, b"x id=ab y", Some(b"ab")),
            ("re:(a)|b", None, b"b", None),
            ("re:x", None, b"ab", None),
            ("re:(?-u)\\xff", None, b"a\xffb", Some(b"\xff")),
            ("5", None, b"", Some(b"5")),
        ];
        for (selector, separator, record, selected) in table {
            let extractor = Extractor::new(&selector.parse().unwrap(), separator);
            let found = extractor.select(record, record.len() + 1);
            assert_eq!(found.as_deref(), selected, "{selector} of {}", record.escape_ascii());
        }
    }
}
