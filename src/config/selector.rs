//! SEL: selects a part of a record.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};
use regex::bytes::Regex;

use super::quantity::parse_count;

/// A part of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selector {
    /// `col:N`: the N-th field, counted from 1.
    Column(NonZeroUsize),
    /// `col:NAME`: the field with this name in the header of the table.
    Named(String),
    /// `bytes`: the length of the record, with its delimiter.
    Bytes,
    /// `host`: the host of the record, which is a URL.
    Host,
    /// `.path.to.value`: a value in the record, which is JSON.
    Path(Vec<String>),
    /// `re:REGEX`: the first group of the first match, or the whole match if there is no group.
    Regex(String),
    /// A number, for a cost that is always the same.
    Constant(u64),
}

/// The forms that select a part, except the last.
const PARTS: &str = "col:N (such as col:1), bytes, host, .path.to.value";

impl Selector {
    /// Parses a selector other than a number, which selects nothing.
    ///
    /// # Errors
    /// Not a selector, or a number.
    pub fn parse_part(text: &str) -> Result<Self> {
        match Selector::read(text)? {
            Some(Selector::Constant(number)) => {
                bail!("a part of the item is needed, such as col:{}", number.max(1))
            }
            selector => selector.with_context(|| format!("use {PARTS} or re:REGEX{}", meant(text))),
        }
    }

    /// `None` if it has no known form.
    fn read(text: &str) -> Result<Option<Self>> {
        if let Some(column) = text.strip_prefix("col:") {
            // A name that is a number cannot be told from one.
            let is_number = column.is_empty() || column.parse::<i128>().is_ok();
            return match column.parse() {
                Ok(number) => Ok(Some(Selector::Column(number))),
                Err(_) if is_number => bail!("a column is a number, counted from 1, as in col:1"),
                Err(_) => Ok(Some(Selector::Named(column.to_owned()))),
            };
        }
        if let Some(regex) = text.strip_prefix("re:") {
            compile(regex)?;
            return Ok(Some(Selector::Regex(regex.to_owned())));
        }
        if let Some(path) = text.strip_prefix('.') {
            let path: Vec<_> = path.split('.').map(str::to_owned).collect();
            ensure!(path.iter().all(|name| !name.is_empty()), "a path is like .user.id or .items.0.price");
            return Ok(Some(Selector::Path(path)));
        }
        Ok(match text {
            "bytes" => Some(Selector::Bytes),
            "host" => Some(Selector::Host),
            _ if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Some(Selector::Constant(parse_count(text)?))
            }
            _ => None,
        })
    }
}

/// A guess at the selector meant by `text`, which is not one.
fn meant(text: &str) -> String {
    let column = text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || "$:=".contains(c));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match text.to_lowercase().as_str() {
        _ if column.parse::<NonZeroUsize>().is_ok() => format!(": try col:{column}"),
        "domain" | "hostname" | "url" => ": try host".to_owned(),
        "length" | "size" => ": try bytes".to_owned(),
        _ if text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_name) => {
            format!("; by name, col:{text} in a table, .{text} in JSON")
        }
        _ => String::new(),
    }
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Selector::read(text)?
            .with_context(|| format!("use {PARTS}, re:REGEX or, for a cost, a number{}", meant(text)))
    }
}

/// Compiles a regular expression. Its error is one line.
pub(crate) fn compile(regex: &str) -> Result<Regex> {
    Regex::new(regex).map_err(|error| {
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Error::msg(format!("'{regex}' is not a regular expression: {why}"))
    })
}

/// What an item lacks, with what may have been meant: jq writes elements of arrays otherwise.
pub(crate) fn lacking(selector: &Selector) -> String {
    let name = selector.to_string();
    let is_path = matches!(selector, Selector::Path(_));
    let number = name.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(number, _)| number);
    if is_path && number.is_some_and(|number| number.parse::<usize>().is_ok()) {
        let element = name.replace('[', ".").replace(']', "").replace("..", ".");
        return format!("has no {name} (elements are written {element})");
    }
    format!("has no {name}")
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Column(column) => write!(f, "col:{column}"),
            Selector::Named(name) => write!(f, "col:{name}"),
            Selector::Bytes => f.write_str("bytes"),
            Selector::Host => f.write_str("host"),
            Selector::Path(path) => write!(f, ".{}", path.join(".")),
            Selector::Regex(regex) => write!(f, "re:{regex}"),
            Selector::Constant(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_and_print_back() {
        for text in [
            "col:1",
            "col:12",
            "col:user id",
            "col:1st",
            "bytes",
            "host",
            ".a",
            ".user.id.0",
            "re:^(\\w+) ",
            "re:a{1,2}",
            "7",
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
        for text in ["", "col:", "col:0", "col:-1", ".", "..a", ".a.", "re:(", "hosts", "-1", "1.5"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_names_the_one_that_was_meant() {
        for (text, suggested) in [
            ("$2", ": try col:2"),
            ("field:2", ": try col:2"),
            ("col2", ": try col:2"),
            ("domain", ": try host"),
            ("Length", ": try bytes"),
            ("user.id", "; by name, col:user.id in a table, .user.id in JSON"),
            ("a b", "a number"),
            ("$0", "a number"),
            ("-1", "a number"),
        ] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.ends_with(suggested), "{text}: {error}");
        }
        assert!(Selector::parse_part("2").unwrap_err().to_string().ends_with("such as col:2"));
    }
}
