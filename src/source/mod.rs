//! From bytes to segments of records, and to items with their costs and keys.

mod canonical;
mod capacity;
mod charger;
mod delimiter;
mod fields;
mod file_range;
mod host;
mod intake;
mod items;
mod json;
mod part;
mod reader;
mod segment;
mod select;
mod stamp;
mod together;

use std::fmt;
use std::io;

pub use capacity::{ArgumentError, Capacity, CommandLine};
pub use charger::Charger;
pub use delimiter::Delimiter;
pub use fields::Fields;
pub(crate) use file_range::FileRange;
pub use intake::Done;
pub(crate) use intake::Intake;
pub use items::Batch;
pub(crate) use items::{Items, Segments};
pub use reader::Reader;
pub use segment::Segment;
pub(crate) use stamp::{Fault, Stamps};
pub(crate) use together::Together;

/// Errors for which there is no more input, though its end was not reached.
#[derive(Debug)]
pub enum SourceError {
    /// It cannot be read.
    Read(io::Error),
    /// A record is longer than allowed.
    TooLong {
        /// Its number, counted from 1.
        record: u64,
        /// Its start: bytes from the start of the input.
        offset: u64,
        /// The longest that is allowed, in bytes.
        max: usize,
    },
    /// A record does not say what it should: when it arrived, or what it costs.
    Item {
        /// Its number, counted from 1.
        record: u64,
        /// In words, with an excerpt of the item.
        why: String,
    },
}

impl std::error::Error for SourceError {}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Read(error) => write!(f, "cannot read the input: {error}"),
            SourceError::TooLong { record, offset, max } => write!(
                f,
                "item {record}, at byte {offset}, is longer than {max} bytes: raise --max-record, or check the \
                 delimiter"
            ),
            SourceError::Item { record, why } => write!(f, "item {record}: {why}"),
        }
    }
}
