//! What goes wrong, for a program that tells cases apart and for its user.

use std::error::Error as StdError;
use std::fmt;
use std::time::Instant;

/// Invalid limits, an item that they cannot charge, or one that was not admitted.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text of the limits is invalid. The source says where and why.
    InvalidLimits,
    /// A limit that only the program `throttle` can apply.
    Unsupported,
    /// The item lacks a part that a limit selects, or its cost is not a whole number.
    InvalidItem,
    /// The item costs more than a limit ever admits.
    TooDear,
    /// It was not admitted.
    Refused(Refusal),
    /// It cannot be admitted by its deadline.
    TimedOut,
}

/// Why an item was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// It may be at this instant and no earlier, if nothing that was admitted is committed or canceled before.
    Until(Instant),
    /// It may be once something that was admitted is committed or canceled, or those who wait before it have gone.
    Busy,
    /// It never will be: a limit pauses, such as `0/s`.
    Never,
    /// The item was made by another [`Pace`](super::Pace).
    Foreign,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), source: None }
    }

    pub(super) fn caused(kind: ErrorKind, message: &str, source: anyhow::Error) -> Self {
        Error { source: Some(source.into_boxed_dyn_error()), ..Error::new(kind, message) }
    }

    /// The kind.
    ///
    /// ```
    /// use throttle::pace::{ErrorKind, Pacer};
    ///
    /// let error = Pacer::new("10 a second").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidLimits);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error { kind: ErrorKind::Refused(refusal), message: String::new(), source: None }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Refused(refusal) => refusal.fmt(f),
            _ => f.write_str(&self.message),
        }
    }
}

impl StdError for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Until(_) => "not admitted yet",
            Refusal::Busy => "not admitted before another release ends",
            Refusal::Never => "a limit of 0 admits nothing",
            Refusal::Foreign => "the item was made for other limits",
        })
    }
}
