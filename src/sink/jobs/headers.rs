//! The header fields of HTTP responses.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use jiff::fmt::rfc2822::DateTimeParser;

#[derive(Default)]
pub(super) struct Headers<'a> {
    /// The status in the status line, if there is one.
    pub(super) status: Option<u16>,
    /// The values of each field, by its name in lower case. A server may send any number of fields.
    fields: HashMap<String, Vec<&'a str>>,
}

impl<'a> Headers<'a> {
    /// The fields of the last block: after a redirection, there are several. A block ends at an empty line; what
    /// follows, up to the next status line, is content. Without any status line, each block counts.
    pub(super) fn last(text: &'a str) -> Self {
        let (mut last, mut has_ended, mut has_status) = (Headers::default(), false, false);
        for line in text.lines().map(str::trim) {
            let field = field(line);
            let begins = line.starts_with("HTTP/") || (has_ended && !has_status && field.is_some());
            if begins {
                has_status |= line.starts_with("HTTP/");
                (last, has_ended) = (Headers { status: status(line), ..Headers::default() }, false);
            }
            has_ended |= line.is_empty();
            if let Some((name, value)) = field.filter(|_| !has_ended) {
                last.fields.entry(name.to_ascii_lowercase()).or_default().push(value);
            }
        }
        last
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The value of the last field with this name.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next_back()
    }

    /// The values of all fields with this name: together, they are one list.
    pub(super) fn all(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.fields.get(&name.to_ascii_lowercase()).into_iter().flatten().copied()
    }

    /// The names of all fields, in lower case.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// The time by the server's clock, which its instants go by; ours may differ. A response from a cache was made
    /// earlier than that by its age (RFC 9111, section 5.1).
    pub(super) fn server_time(&self) -> Option<SystemTime> {
        let date = date(self.get("date")?)?;
        let age = self.get("age").and_then(|age| age.parse().ok()).unwrap_or(0);
        date.checked_add(Duration::from_secs(age))
    }
}

/// The status in a status line (RFC 9112, section 4).
fn status(line: &str) -> Option<u16> {
    let status = line.strip_prefix("HTTP/")?.split_ascii_whitespace().nth(1)?;
    status.parse().ok().filter(|_| status.len() == 3)
}

/// A date in any format of HTTP, as in e-mail (RFC 5322), which recipients should understand, too (RFC 9110, section
/// 5.6.7), or in RFC 3339. A wrong weekday is ignored, as by other clients. A leap second is the first second of the
/// next minute.
pub(super) fn date(value: &str) -> Option<SystemTime> {
    match value.rsplit_once(":60").filter(|(before, _)| is_to_the_minute(before)) {
        Some((before, after)) => {
            plain_date(&format!("{before}:59{after}"))?.checked_add(Duration::from_secs(1))
        }
        None => plain_date(value),
    }
}

/// A date without a leap second.
fn plain_date(value: &str) -> Option<SystemTime> {
    const EMAIL: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    let others = || EMAIL.parse_timestamp(value).or_else(|_| value.parse()).ok()?.try_into().ok();
    httpdate::parse_http_date(value).ok().or_else(others)
}

/// True of a text that ends with `:MM`.
fn is_to_the_minute(text: &str) -> bool {
    matches!(text.as_bytes(), [.., b':', m1, m2] if m1.is_ascii_digit() && m2.is_ascii_digit())
}

/// Parses a field (RFC 9110, section 5). A date of HTTP has colons, too, but no name before the first.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_token)).then(|| (name, value.trim()))
}
