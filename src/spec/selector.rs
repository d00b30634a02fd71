//! SEL: which part of a record is meant.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use anyhow::{Context, Error, Result};

/// A part of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selector {
    /// `col:N`: the N-th field, counted from 1, between runs of blanks.
    Column(NonZeroUsize),
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let column = text.strip_prefix("col:").context("a selector is needed, such as col:1")?;
        let column = column.parse().ok().context("columns are counted from 1, as in col:1")?;
        Ok(Selector::Column(column))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Column(column) => write!(f, "col:{column}"),
        }
    }
}
