//! The selected part of a record, borrowed from the record if at all possible.

use std::borrow::Cow;

use crate::charge::Key;
use crate::config::Selector;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Selected<'a> {
    /// The record has no such part.
    Missing,
    Text(Cow<'a, [u8]>),
    /// Stands for its decimal digits.
    Number(u64),
}

impl<'a> Selected<'a> {
    pub(super) fn borrowed(text: &'a [u8]) -> Self {
        Selected::Text(Cow::Borrowed(text))
    }

    pub(super) fn owned(text: impl Into<Vec<u8>>) -> Self {
        Selected::Text(Cow::Owned(text.into()))
    }

    pub(super) fn into_text(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Selected::Missing => None,
            Selected::Text(text) => Some(text),
            Selected::Number(number) => Some(Cow::Owned(number.to_string().into_bytes())),
        }
    }

    /// The part as a cost, as `selector` has selected it.
    pub(super) fn cost(&self, selector: &Selector) -> Option<u64> {
        match self {
            Selected::Missing => None,
            Selected::Text(text) => parse_cost(selector, text),
            Selected::Number(number) => Some(*number),
        }
    }

    /// Writes the part as a key, which is empty if the part is missing.
    pub(super) fn write_to(&self, key: &mut Key) {
        key.clear();
        match self {
            Selected::Missing => {}
            Selected::Text(text) => key.extend_from_slice(text),
            Selected::Number(number) => key.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        }
    }
}

impl<'a> From<Option<&'a [u8]>> for Selected<'a> {
    fn from(text: Option<&'a [u8]>) -> Self {
        text.map_or(Selected::Missing, Selected::borrowed)
    }
}

/// The cost that a selector has selected: digits and nothing else, but from JSON also 3.0, as many programs write all
/// numbers.
pub(crate) fn parse_cost(selector: &Selector, text: &[u8]) -> Option<u64> {
    parse_digits(text).or_else(|| parse_digits(without_fraction(selector, text)?))
}

#[cold]
fn without_fraction<'a>(selector: &Selector, text: &'a [u8]) -> Option<&'a [u8]> {
    let point =
        text.iter().position(|&byte| byte == b'.').filter(|_| matches!(selector, Selector::Path(_)))?;
    let fraction = &text[point + 1..];
    (!fraction.is_empty() && fraction.iter().all(|&digit| digit == b'0')).then(|| &text[..point])
}

/// Unlike std, accepts no sign, and bytes that need not be UTF-8.
fn parse_digits(text: &[u8]) -> Option<u64> {
    let append = |number: u64, byte: &u8| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, append) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_digits_and_nothing_else() {
        for (text, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1.0", None),
            ("1 ", None),
            ("\u{0661}", None),
        ] {
            assert_eq!(parse_digits(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn numbers_are_keys_in_decimal() {
        let mut key = Key::from_slice(b"before");
        for (part, text) in
            [(Selected::Number(120), &b"120"[..]), (Selected::owned("x"), b"x"), (Selected::Missing, b"")]
        {
            part.write_to(&mut key);
            assert_eq!(key.as_slice(), text);
        }
    }
}
