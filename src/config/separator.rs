//! What separates the fields of a record.

use std::sync::Arc;

use super::table::Table;

/// What separates the fields of a record, if runs of blanks do not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Separator {
    /// This text, wherever it occurs.
    Text(Vec<u8>),
    /// As in CSV: a byte outside double quotes. Quotes around a field do not belong to it, and two stand for one. All
    /// clones share the header.
    Csv(Arc<Table>),
}

impl Separator {
    /// The header of the table whose fields it separates, as it is in the input; empty as long as there is none.
    pub(crate) fn head(separator: Option<&Self>) -> &[u8] {
        let header = separator.and_then(Separator::table).and_then(|table| table.header());
        header.map_or(&[], |header| &header.bytes)
    }

    /// The table whose fields it separates.
    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        match self {
            Separator::Text(_) => None,
            Separator::Csv(table) => Some(table),
        }
    }
}
