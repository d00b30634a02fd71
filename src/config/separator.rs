//! What separates the fields of a record.

use anyhow::{Result, bail};

/// What separates the fields of a record, if runs of blanks do not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Separator {
    /// This text, wherever it occurs.
    Text(Vec<u8>),
    /// This byte outside double quotes, as in CSV. Quotes around a field do not belong to it, and two stand for one.
    Csv(u8),
}

impl Separator {
    /// The separator of CSV, a comma unless another byte is `given`.
    ///
    /// # Errors
    /// A quote, a line end, or more than one byte is given.
    pub fn csv(given: Option<&[u8]>) -> Result<Self> {
        match given.unwrap_or(b",") {
            [b'"' | b'\n'] => bail!("--csv needs another separator: leave out -F for a comma"),
            [byte] => Ok(Separator::Csv(*byte)),
            _ => bail!("--csv needs a separator of one byte, as in -F ';'"),
        }
    }
}
