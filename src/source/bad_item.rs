//! An item that cannot be charged, and why.

use std::fmt;

use crate::printable::excerpt;

/// An item with no cost, or with one that no limit ever admits. Prints all but the item's number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadItem {
    why: String,
    text: String,
}

impl BadItem {
    pub(super) fn new(why: String, record: &[u8]) -> Self {
        BadItem { why, text: excerpt(record) }
    }
}

impl std::error::Error for BadItem {}

impl fmt::Display for BadItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why, self.text)
    }
}
