//! Taking the selected part out of a record.

use std::borrow::Cow;

use memchr::memmem::Finder;
use regex::bytes::Regex;
use serde_json::Value;
use url::Url;

use crate::config::{Selector, compile};

/// A selector, ready to be used.
pub struct Extractor(Kind);

enum Kind {
    Column { index: usize, separator: Option<Box<Finder<'static>>> },
    Bytes,
    Host,
    Path(Vec<String>),
    Regex(Box<Regex>),
    Constant(u64),
}

impl Extractor {
    /// What `selector` selects, where `separator` stands between fields.
    ///
    /// # Panics
    /// If the selector holds a regular expression that was not checked when it was parsed.
    pub fn new(selector: &Selector, separator: Option<&[u8]>) -> Self {
        Extractor(match selector {
            Selector::Column(column) => {
                let separator = separator.map(|separator| Box::new(Finder::new(separator).into_owned()));
                Kind::Column { index: column.get() - 1, separator }
            }
            Selector::Bytes => Kind::Bytes,
            Selector::Host => Kind::Host,
            Selector::Path(path) => Kind::Path(path.clone()),
            Selector::Regex(regex) => {
                Kind::Regex(Box::new(compile(regex).expect("checked when it was parsed")))
            }
            Selector::Constant(number) => Kind::Constant(*number),
        })
    }

    /// The selected part of a record, or `None` if it has none. `length` is that of the record with its
    /// delimiter, which `record` is without.
    pub fn select<'a>(&self, record: &'a [u8], length: usize) -> Option<Cow<'a, [u8]>> {
        match &self.0 {
            Kind::Column { index, separator: None } => blank_separated(record).nth(*index).map(Cow::Borrowed),
            Kind::Column { index, separator: Some(separator) } => {
                field(record, separator, *index).map(Cow::Borrowed)
            }
            Kind::Bytes => Some(Cow::Owned(length.to_string().into_bytes())),
            Kind::Host => host(record).map(Cow::Owned),
            Kind::Path(path) => value_at(record, path).map(Cow::Owned),
            Kind::Regex(regex) => {
                let groups = regex.captures(record)?;
                groups
                    .get(1)
                    .or(groups.get(0).filter(|_| groups.len() == 1))
                    .map(|found| found.as_bytes().into())
            }
            Kind::Constant(number) => Some(Cow::Owned(number.to_string().into_bytes())),
        }
    }
}

/// The fields between runs of blanks and, as in awk, newlines.
fn blank_separated(record: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n');
    record.split(is_blank).filter(|field| !field.is_empty())
}

fn field<'a>(record: &'a [u8], separator: &Finder, index: usize) -> Option<&'a [u8]> {
    let mut ends = separator.find_iter(record);
    let start = match index.checked_sub(1) {
        None => 0,
        Some(before) => ends.nth(before)? + separator.needle().len(),
    };
    Some(&record[start..ends.next().unwrap_or(record.len())])
}

/// The host, in lower case as in DNS.
fn host(record: &[u8]) -> Option<Vec<u8>> {
    let url = Url::parse(str::from_utf8(record).ok()?.trim()).ok()?;
    url.host_str().map(|host| host.to_ascii_lowercase().into_bytes())
}

/// The value at a path of names and, in arrays, indices. Texts are taken without their quotes.
fn value_at(record: &[u8], path: &[String]) -> Option<Vec<u8>> {
    let json: Value = serde_json::from_slice(record).ok()?;
    let value = path.iter().try_fold(&json, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })?;
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        value => Some(value.to_string().into_bytes()),
    }
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
