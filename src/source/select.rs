//! Taking the selected part out of a record.

use crate::spec::Selector;

impl Selector {
    /// The selected part, or `None` if the record has none.
    pub fn select<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Selector::Column(column) => fields(record).nth(column.get() - 1),
        }
    }
}

/// The fields between runs of blanks and, as in awk, newlines.
fn fields(record: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n');
    record.split(is_blank).filter(|field| !field.is_empty())
}
