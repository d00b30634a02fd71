//! What is wrong with an item that cannot be charged.

use std::fmt;

/// How many bytes of an item are shown.
const SHOWN: usize = 60;

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
        write!(f, "{}: '{}'", self.why, self.text)
    }
}

/// The beginning of a text from the input, fit for a terminal.
pub fn excerpt(text: &[u8]) -> String {
    match text.get(..SHOWN) {
        Some(shown) if text.len() > SHOWN => format!("{}...", shown.escape_ascii()),
        _ => text.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_escaped() {
        assert_eq!(excerpt(b"\x1b[2J"), "\\x1b[2J");
        assert_eq!(excerpt(&[b'x'; 60]), "x".repeat(60));
        assert_eq!(excerpt(&[b'x'; 61]), "x".repeat(60) + "...");
    }
}
