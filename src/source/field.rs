//! Parts of records that are selected together: all that is in JSON is found in one pass.

use super::json::{PathValues, Paths};
use super::part::Selected;
use super::select::Extractor;
use crate::config::Selector;

pub(super) enum Field {
    /// The number of the path in [`Paths`].
    Path(usize),
    Other(Extractor),
}

pub(super) struct Record<'a> {
    pub(super) bytes: &'a [u8],
    /// With the delimiter.
    length: usize,
    /// `None` if it is not JSON.
    values: Option<PathValues<'a>>,
}

impl Field {
    /// A path is added to `paths`.
    pub(super) fn new(selector: &Selector, separator: Option<&[u8]>, paths: &mut Option<Paths>) -> Self {
        match selector {
            Selector::Path(path) => Field::Path(paths.get_or_insert_default().add(path)),
            _ => Field::Other(Extractor::new(selector, separator)),
        }
    }
}

impl<'a> Record<'a> {
    pub(super) fn new(paths: Option<&Paths>, bytes: &'a [u8], length: usize) -> Self {
        Record { bytes, length, values: paths.and_then(|paths| paths.values(bytes).ok()) }
    }

    /// Calls `use_it` with the part that `field` selects.
    pub(super) fn with<T>(&self, field: &Field, use_it: impl FnOnce(&Selected<'a>) -> T) -> T {
        match field {
            Field::Path(path) => {
                use_it(self.values.as_ref().map_or(&Selected::Missing, |values| &values[*path]))
            }
            Field::Other(extractor) => use_it(&extractor.part(self.bytes, self.length)),
        }
    }

    pub(super) fn lacks_json(&self, field: &Field) -> bool {
        matches!(field, Field::Path(_)) && self.values.is_none()
    }
}
