//! Several parts selected from a record: one pass finds all JSON paths.

use std::borrow::Cow;

use super::json::{PathValues, Paths};
use super::part::Selected;
use super::select::Extractor;
use crate::config::{Selector, Separator, lacking};
use crate::printable::excerpt;

/// Why a record has no part at a path.
pub(super) const NOT_JSON: &str = "not JSON";

/// Selectors, ready for use.
#[derive(Default)]
pub struct Fields {
    /// All paths into records that are JSON.
    paths: Paths,
    fields: Vec<(Selector, Extractor)>,
}

/// A record, and the values at the paths.
pub(super) struct ParsedItem<'f, 'a> {
    fields: &'f Fields,
    pub(super) bytes: &'a [u8],
    /// Includes the delimiter.
    pub(super) length: usize,
    /// `None` if the record is not JSON, or there are no paths.
    pub(super) values: Option<PathValues<'a>>,
}

impl Fields {
    /// Without `separator`, runs of blanks separate columns.
    ///
    /// # Panics
    /// If a selector holds a regular expression that was not checked when it was parsed.
    pub fn new<'a>(selectors: impl IntoIterator<Item = &'a Selector>, separator: Option<&Separator>) -> Self {
        let mut fields = Fields::default();
        selectors.into_iter().for_each(|selector| _ = fields.add(selector, separator));
        fields
    }

    /// Adds a selector, and returns its index.
    pub(super) fn add(&mut self, selector: &Selector, separator: Option<&Separator>) -> usize {
        let extractor = Extractor::new(selector, separator, &mut self.paths);
        self.fields.push((selector.clone(), extractor));
        self.fields.len() - 1
    }

    /// Looks at a record, which is without its delimiter; `length` includes it.
    #[inline]
    pub(super) fn look<'f, 'a>(&'f self, bytes: &'a [u8], length: usize) -> ParsedItem<'f, 'a> {
        let values = if self.paths.is_empty() { None } else { self.paths.values(bytes).ok() };
        ParsedItem { fields: self, bytes, length, values }
    }

    /// True if a column of a record is cut, or counted, inside the quotes of CSV.
    pub(super) fn cuts_quotes(&self, record: &[u8]) -> bool {
        self.fields.iter().any(|(_, extractor)| extractor.cuts_quotes(record))
    }

    /// The selected parts of a record, in the order of the selectors; `None` for those it lacks. `record` is without
    /// its delimiter; `length` includes it.
    #[inline]
    pub fn select<'a>(&self, record: &'a [u8], length: usize) -> impl Iterator<Item = Option<Cow<'a, [u8]>>> {
        let record = self.look(record, length);
        (0..self.fields.len()).map(move |index| record.part(index).into_text())
    }

    /// Checks that a record has all parts, and that they can be arguments.
    ///
    /// # Errors
    /// Why it cannot be used, with an excerpt of it.
    pub(super) fn check(&self, record: &[u8], length: usize) -> Result<(), String> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let record = self.look(record, length);
        (0..self.fields.len()).try_for_each(|index| record.check(index).map_err(|why| record.bad(&why)))
    }
}

impl<'a> ParsedItem<'_, 'a> {
    pub(super) fn selector(&self, index: usize) -> &Selector {
        &self.fields.fields[index].0
    }

    /// The part that the selector with this index selects.
    #[inline]
    pub(super) fn part(&self, index: usize) -> Selected<'a> {
        self.fields.fields[index].1.part(self.bytes, self.length, self.values.as_ref())
    }

    /// True if the part is at a path and the record is not JSON.
    #[inline]
    pub(super) fn lacks_json(&self, index: usize) -> bool {
        self.values.is_none() && matches!(self.fields.fields[index].1, Extractor::Path(_))
    }

    fn check(&self, index: usize) -> Result<(), String> {
        let selector = self.selector(index);
        match self.part(index).into_text() {
            _ if self.lacks_json(index) => Err(NOT_JSON.to_owned()),
            None => Err(lacking(selector) + " for COMMAND"),
            Some(text) if text.contains(&0) => {
                Err(format!("its {selector} contains a NUL byte, which an argument cannot"))
            }
            Some(_) => Ok(()),
        }
    }

    /// Why it cannot be used, with an excerpt of it.
    pub(super) fn bad(&self, why: &str) -> String {
        format!("{why}: {}", excerpt(self.bytes))
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
        let fields = fields(&[".n", "bytes", ".a.b", ".c", "re:x."]);
        let parts = fields.select(record, record.len() + 1);
        let parts = parts.map(|part| String::from_utf8(part.unwrap_or_default().into_owned()).unwrap());
        assert_eq!(parts.collect::<Vec<_>>(), ["7", "28", "x y", "", "x "]);
    }

    #[test]
    fn what_a_command_cannot_be_given_is_told() {
        for (selector, record, why) in [
            ("col:3", "a b", "has no col:3 for COMMAND: 'a b'"),
            (".a", "a b", "not JSON: 'a b'"),
            (".a", "{}", "has no .a for COMMAND: '{}'"),
            (".a", r#"{"a": null}"#, "has no .a"),
            (".a", r#"{"a": "x\u0000"}"#, "its .a contains a NUL byte"),
        ] {
            let error = fields(&[selector]).check(record.as_bytes(), record.len()).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        assert_eq!(fields(&[]).check(b"", 0), Ok(()));
    }
}
