//! Extracts the selected part of a record.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use memchr::memchr3;
use memchr::memmem::Finder;
use regex::bytes::{CaptureLocations, Regex};

use super::csv;
use super::host::host;
use super::json::{PathValues, Paths};
use super::part::Selected;
use crate::config::{Selector, Separator, Table, compile};

/// A way to extract the selected part of a record.
pub(super) enum Extractor {
    Column {
        index: usize,
        columns: Columns,
    },
    Named(Box<NamedColumn>),
    Bytes,
    Host,
    /// The number of the path in [`Paths`].
    Path(usize),
    /// The first group of a match, or all of it. The memory for the locations of the groups is reused.
    Match(Box<(Regex, RefCell<CaptureLocations>)>),
    Constant(u64),
}

/// A column of a table that the header names.
pub(super) struct NamedColumn {
    name: String,
    /// `None` if there is no header.
    table: Option<Arc<Table>>,
    /// Known once the header has been read.
    index: OnceCell<usize>,
}

impl NamedColumn {
    fn field<'a>(&self, record: &'a [u8]) -> Selected<'a> {
        let field = self.table.as_ref().and_then(|table| {
            let known = self.index.get().copied();
            let index = known.or_else(|| table.header()?.index(&self.name).ok())?;
            let _ = self.index.set(index);
            csv::field(record, table.separator(), index)
        });
        field.map_or(Selected::Missing, Selected::Text)
    }
}

/// How the columns of a record are found.
pub(super) enum Columns {
    Blanks,
    Text(Box<Finder<'static>>),
    Csv(u8),
}

impl Columns {
    fn new(separator: Option<&Separator>) -> Self {
        match separator {
            None => Columns::Blanks,
            Some(Separator::Text(text)) => Columns::Text(Box::new(Finder::new(text).into_owned())),
            Some(Separator::Csv(table)) => Columns::Csv(table.separator()),
        }
    }
}

impl Extractor {
    /// Without `separator`, runs of blanks separate columns. A path is added to `paths`.
    pub(super) fn new(selector: &Selector, separator: Option<&Separator>, paths: &mut Paths) -> Self {
        match selector {
            Selector::Column(column) => {
                Extractor::Column { index: column.get() - 1, columns: Columns::new(separator) }
            }
            Selector::Named(name) => Extractor::Named(Box::new(NamedColumn {
                name: name.clone(),
                table: separator.and_then(Separator::table).cloned(),
                index: OnceCell::new(),
            })),
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

    /// True if it finds a column of a record elsewhere than a reader of CSV would, who knows about quotes.
    pub(super) fn cuts_quotes(&self, record: &[u8]) -> bool {
        let Extractor::Column { columns: Columns::Text(separator), .. } = self else { return false };
        matches!(separator.needle(), [byte] if csv::has_quoted(record, *byte))
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
            Extractor::Column { index, columns: Columns::Blanks } => column(record, *index).into(),
            Extractor::Column { index, columns: Columns::Text(separator) } => {
                field(record, separator, *index).into()
            }
            Extractor::Column { index, columns: Columns::Csv(separator) } => {
                csv::field(record, *separator, *index).map_or(Selected::Missing, Selected::Text)
            }
            Extractor::Named(column) => column.field(record),
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
    use crate::config::Separator;
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
            let separator = separator.map(|text| Separator::Text(text.to_vec()));
            let fields = Fields::new([&selector.parse().unwrap()], separator.as_ref());
            let found = fields.select(record, record.len() + 1).next().flatten();
            assert_eq!(found.as_deref(), selected, "{selector} of {}", record.escape_ascii());
        }
    }
}
