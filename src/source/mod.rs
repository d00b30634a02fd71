//! Turns bytes into segments of records, and these into items with costs and keys.

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

/// Why reading stopped before the end of the input.
#[derive(Debug)]
pub enum SourceError {
    /// The input cannot be read.
    Read(io::Error),
    /// A record is longer than allowed.
    TooLong {
        /// The number of the record, counted from 1.
        record: u64,
        /// Where it starts, in bytes from the start of the input.
        offset: u64,
        /// The longest record allowed, in bytes.
        max: usize,
    },
    /// A record lacks a valid arrival, cost or other part that is needed.
    Item {
        /// The number of the record, counted from 1.
        record: u64,
        /// The reason, with an excerpt of the item.
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
