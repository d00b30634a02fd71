//! Tables: records of CSV, the first of which may name the columns.

use std::sync::OnceLock;

use anyhow::{Result, bail};

use super::selector::Selector;
use crate::printable::excerpt;

/// How a table is read, and its header once that has been read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Separates the fields of a record, outside quotes.
    separator: u8,
    /// True if the first record names the columns and is no item.
    has_header: bool,
    header: OnceLock<Header>,
}

/// The header of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The number of bytes before it that are left out.
    pub(crate) skipped: usize,
    /// The header as it is in the input, with the end of its line.
    pub(crate) bytes: Vec<u8>,
    /// The names of the columns, without quotes.
    pub(crate) names: Vec<Vec<u8>>,
}

impl Table {
    /// A table with this text between fields, or else a comma.
    ///
    /// # Errors
    /// The text is more than one byte, or one that has another meaning in CSV.
    pub fn new(separator: Option<&[u8]>, has_header: bool) -> Result<Self> {
        match separator.unwrap_or(b",") {
            [b'"' | b'\n' | b'\r'] => bail!("--csv needs another separator: leave out -F for a comma"),
            &[separator] => Ok(Table { separator, has_header, header: OnceLock::new() }),
            _ => bail!("--csv needs a separator of one byte, as in -F ';'"),
        }
    }

    /// The byte between fields.
    pub(crate) fn separator(&self) -> u8 {
        self.separator
    }

    /// True if the first record is the header.
    pub(crate) fn has_header(&self) -> bool {
        self.has_header
    }

    /// The header, if it has been read.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.header.get()
    }

    /// Sets the header, unless it is known.
    pub(crate) fn set_header(&self, header: Header) {
        self.header.get_or_init(|| header);
    }
}

impl Header {
    /// Checks that a column that `selector` names is there.
    ///
    /// # Errors
    /// There is none, or several.
    pub(crate) fn check(&self, selector: &Selector) -> Result<()> {
        if let Selector::Named(name) = selector { self.index(name).map(|_| ()) } else { Ok(()) }
    }

    /// The index of the column with this name.
    ///
    /// # Errors
    /// There is none, or several.
    pub(crate) fn index(&self, name: &str) -> Result<usize> {
        let is_meant = |&index: &usize| self.names[index] == name.as_bytes();
        let found: Vec<_> = (0..self.names.len()).filter(is_meant).collect();
        match found[..] {
            [index] => Ok(index),
            [] => {
                let names: Vec<_> = self.names.iter().map(|name| excerpt(name)).collect();
                bail!("the header has no column {}: it has {}", excerpt(name.as_bytes()), names.join(", "))
            }
            [first, second, ..] => bail!(
                "the header has several columns {}: write col:{} or col:{}",
                excerpt(name.as_bytes()),
                first + 1,
                second + 1
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_the_only_column_that_has_it() {
        let table = Table::new(None, true).unwrap();
        let check = |name: &str| {
            let selector = Selector::Named(name.to_owned());
            table.header().map_or(Ok(()), |header| header.check(&selector)).map_err(|it| it.to_string())
        };
        assert_eq!(check("unknown"), Ok(()), "the header has not been read");
        let names = ["id", "a b", "id", "\x1b"].map(|name| name.as_bytes().to_vec()).to_vec();
        table.set_header(Header { skipped: 0, bytes: Vec::new(), names });
        assert_eq!(table.header().unwrap().index("a b").unwrap(), 1);
        assert_eq!(check("a b"), Ok(()));
        assert_eq!(check("id").unwrap_err(), "the header has several columns 'id': write col:1 or col:3");
        assert_eq!(
            check("Id").unwrap_err(),
            "the header has no column 'Id': it has 'id', 'a b', 'id', $'\\x1b'"
        );
    }
}
