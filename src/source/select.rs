//! Extracts the selected part of a record.

use std::cell::RefCell;

use memchr::memchr3;
use memchr::memmem::Finder;
use regex::bytes::{CaptureLocations, Regex};

use super::host::host;
use super::json::{PathValues, Paths};
use super::part::Selected;
use crate::config::{Selector, compile};

/// A way to extract the selected part of a record.
pub(super) enum Extractor {
    Column {
        index: usize,
        separator: Option<Box<Finder<'static>>>,
    },
    Bytes,
    Host,
    /// The number of the path in [`Paths`].
    Path(usize),
    /// The first group of a match, or all of it. The memory for the locations of the groups is reused.
    Match(Box<(Regex, RefCell<CaptureLocations>)>),
    Constant(u64),
}

impl Extractor {
    /// Without `separator`, runs of blanks separate columns. A path is added to `paths`.
    pub(super) fn new(selector: &Selector, separator: Option<&[u8]>, paths: &mut Paths) -> Self {
        match selector {
            Selector::Column(column) => {
                let separator = separator.map(|separator| Box::new(Finder::new(separator).into_owned()));
                Extractor::Column { index: column.get() - 1, separator }
            }
            Selector::Bytes => Extractor::Bytes,
            Selector::Host => Extractor::Host,
            Selector::Path(path) => Extractor::Path(paths.add(path)),
            Selector::Regex(regex) => {
                let regex = compile(regex).expect("checked when it was parsed");
                let groups = RefCell::new(regex.capture_locations());
                Extractor::Match(Box::new((regex, groups)))
            }
            Selector::Constant(number) => Extractor::Constant(*number),
        }
    }

    /// The selected part of a record, which is without its delimiter; `length` includes it. `values` are those at the
    /// paths, if it is JSON.
    pub(super) fn part<'a>(
        &self,
        record: &'a [u8],
        length: usize,
        values: Option<&PathValues<'a>>,
    ) -> Selected<'a> {
        match self {
            Extractor::Column { index, separator: None } => column(record, *index).into(),
            Extractor::Column { index, separator: Some(separator) } => {
                field(record, separator, *index).into()
            }
            Extractor::Bytes => Selected::Number(length as u64),
            Extractor::Host => host(record),
            Extractor::Path(path) => values.map_or(Selected::Missing, |values| values[*path].clone()),
            Extractor::Match(pattern) => {
                let mut groups = pattern.1.borrow_mut();
                let found = pattern.0.captures_read(&mut groups, record);
                let group = usize::from(groups.len() > 1);
                found.and_then(|_| groups.get(group)).map(|(start, end)| &record[start..end]).into()
            }
            Extractor::Constant(number) => Selected::Number(*number),
        }
    }
}

/// A field separated by runs of blanks and, as in awk, newlines.
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
    use crate::source::Fields;

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
            let fields = Fields::new(&[selector.parse().unwrap()], separator);
            let found = fields.select(record, record.len() + 1).next().flatten();
            assert_eq!(found.as_deref(), selected, "{selector} of {}", record.escape_ascii());
        }
    }
}
