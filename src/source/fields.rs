//! The parts of an item that its command is given.

use std::borrow::Cow;

use super::bad_item::BadItem;
use super::field::{Field, Record};
use super::json::Paths;
use crate::config::Selector;

#[derive(Default)]
pub(crate) struct Fields {
    paths: Option<Paths>,
    fields: Vec<(Field, Selector)>,
}

impl Fields {
    /// `separator` stands between columns; without it, runs of blanks do.
    pub(crate) fn new(selectors: &[Selector], separator: Option<&[u8]>) -> Self {
        let mut paths = None;
        let field = |selector: &Selector| (Field::new(selector, separator, &mut paths), selector.clone());
        let fields = selectors.iter().map(field).collect();
        Fields { paths, fields }
    }

    /// The selected parts of a record, in the order of the selectors; `None` for what it does not have. `length` is
    /// that of the record with its delimiter, which `record` is without.
    pub(crate) fn select<'a>(&self, record: &'a [u8], length: usize) -> Vec<Option<Cow<'a, [u8]>>> {
        if self.fields.is_empty() {
            return Vec::new();
        }
        let record = Record::new(self.paths.as_ref(), record, length);
        self.fields.iter().map(|(field, _)| record.with(field, |part| part.clone().into_text())).collect()
    }

    /// Checks that a record has all parts, and that they can be arguments.
    ///
    /// # Errors
    /// It has not.
    pub(super) fn check(&self, record: &[u8], length: usize) -> Result<(), BadItem> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let record = Record::new(self.paths.as_ref(), record, length);
        for (field, selector) in &self.fields {
            let text = record.with(field, |part| part.clone().into_text());
            let why = match text {
                _ if record.lacks_json(field) => "not JSON".to_owned(),
                None => format!("has no {selector} for COMMAND"),
                Some(text) if text.contains(&0) => {
                    format!("its {selector} holds a NUL byte, which no argument can")
                }
                Some(_) => continue,
            };
            return Err(BadItem::new(why, record.bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(selectors: &[&str]) -> Fields {
        let selectors: Vec<_> = selectors.iter().map(|text| text.parse().unwrap()).collect();
        Fields::new(&selectors, None)
    }

    #[test]
    fn parts_come_in_the_order_of_their_selectors() {
        let record = br#"{"a": {"b": "x y"}, "n": 7}"#;
        let parts = fields(&[".n", "bytes", ".a.b", ".c", "re:x."]).select(record, record.len() + 1);
        let parts = parts.iter().map(|part| part.as_ref().map(|part| String::from_utf8_lossy(part)));
        assert_eq!(parts.map(Option::unwrap_or_default).collect::<Vec<_>>(), ["7", "28", "x y", "", "x "]);
    }

    #[test]
    fn what_a_command_cannot_be_given_is_told() {
        for (selector, record, why) in [
            ("col:3", "a b", "has no col:3 for COMMAND: 'a b'"),
            (".a", "a b", "not JSON: 'a b'"),
            (".a", "{}", "has no .a for COMMAND: '{}'"),
            (".a", r#"{"a": null}"#, "has no .a"),
            (".a", r#"{"a": "x\u0000"}"#, "its .a holds a NUL byte"),
        ] {
            let error = fields(&[selector]).check(record.as_bytes(), record.len()).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
        assert_eq!(fields(&[]).check(b"", 0), Ok(()));
    }
}
