//! What goes wrong, for a program that tells cases apart and for its user.

use std::error::Error as StdError;
use std::fmt;
use std::time::Instant;

/// Invalid limits, an item that they cannot charge, or one that was not admitted.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    /// None for what a program may run into often.
    details: Option<Box<Details>>,
}

#[derive(Debug)]
struct Details {
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
    /// The item was made by another [`Pace`](super::Pace) or [`Pacer`](super::Pacer).
    ForeignItem,
    /// The item costs more than a limit ever admits.
    ExceedsLimit,
    /// It is not admitted now.
    Refused(Refused),
    /// It cannot be admitted by its deadline.
    TimedOut,
    /// It is never admitted: a limit pauses, such as `0/s`, or the cost would take centuries to accrue.
    Never,
}

/// What refuses a release, and until when.
///
/// ```
/// # fn main() -> Result<(), throttle::pace::Error> {
/// use std::time::{Duration, Instant};
/// use throttle::pace::{ErrorKind, Pace};
///
/// let now = Instant::now();
/// let pace = Pace::new("100/s\n1/min,key=col:1", now)?;
/// pace.check(("alice", 1), now)?;
/// let ErrorKind::Refused(refused) = pace.check(("alice", 1), now).unwrap_err().kind() else { panic!() };
/// assert_eq!(refused.until, Some(now + Duration::from_secs(60)));
/// assert_eq!(refused.by, Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Refused {
    /// The first instant at which the limits allow it, if no one else goes before. `None` if that depends on how a
    /// release that was admitted ends, or only on those who wait before it.
    pub until: Option<Instant>,
    /// The index of a limit that refuses it, in the order in which they were given; `None` during a pause.
    pub by: Option<usize>,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, details: Some(Box::new(Details { message: message.into(), source: None })) }
    }

    pub(super) fn caused(kind: ErrorKind, message: &str, source: anyhow::Error) -> Self {
        let source = Some(source.into_boxed_dyn_error());
        Error { kind, details: Some(Box::new(Details { message: message.to_owned(), source })) }
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

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error { kind, details: None }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let source = self.details.as_ref()?.source.as_deref();
        source.map(|source| source as &(dyn StdError + 'static))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::ForeignItem => "the item was made for other limits",
            ErrorKind::Refused(Refused { until: Some(_), .. }) => "not admitted yet",
            ErrorKind::Refused(_) => "not admitted before another one",
            ErrorKind::TimedOut => "not admitted in time",
            ErrorKind::Never => "never admitted, by a limit of 0 or at such a cost",
            _ => self.details.as_ref().map_or("", |details| &details.message),
        })
    }
}
