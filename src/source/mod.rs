//! From bytes to blocks of records.

mod bad_item;
mod block;
mod capacity;
mod charger;
mod delimiter;
mod field;
mod fields;
mod host;
mod intake;
mod items;
mod json;
mod part;
mod reader;
mod select;
mod stamp;
mod together;

use std::fmt;
use std::io;

pub use bad_item::BadItem;
pub use block::Block;
pub use capacity::{ArgumentError, Capacity, CommandLine};
pub use charger::Charger;
pub use delimiter::Delimiter;
pub use fields::Fields;
pub(crate) use intake::is_blank;
pub use intake::{Done, Intake};
pub use items::{Batch, Items, Segment, Segments};
pub use reader::Reader;
pub use select::Extractor;
pub(crate) use stamp::{Fault, Stamps};
pub use together::Together;

/// Why there is no more input, though its end was not reached.
#[derive(Debug)]
pub enum SourceError {
    /// It cannot be read.
    Read(io::Error),
    /// A record is longer than allowed.
    TooLong {
        /// Its number, counted from 1.
        record: u64,
        /// Where it begins: bytes from the start of the input.
        offset: u64,
        /// What is allowed, in bytes.
        max: usize,
    },
    /// A record does not say what it should: when it arrived, or what it costs.
    Item {
        /// Its number, counted from 1.
        record: u64,
        /// What is wrong with it.
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
