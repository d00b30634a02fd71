//! Turns bytes into segments of records, and these into items with costs and keys.

#[cfg(feature = "cli")]
mod advice;
mod canonical;
mod capacity;
mod charger;
mod csv;
mod delimiter;
mod fields;
mod file_range;
mod header;
mod host;
#[cfg(feature = "cli")]
mod input;
mod items;
mod json;
mod keyless;
mod part;
mod reader;
#[cfg(feature = "cli")]
mod rejects;
mod release_charges;
mod segment;
mod select;
mod stamp;

use anyhow::{Error, anyhow};

#[cfg(feature = "cli")]
pub(crate) use advice::Advice;
pub(crate) use capacity::LONG_LINE;
pub use capacity::{Capacity, CommandLine};
pub use charger::Charger;
pub(crate) use charger::only_key;
pub use delimiter::Delimiter;
pub use fields::Fields;
pub(crate) use file_range::FileRange;
pub(crate) use header::header_taker;
#[cfg(feature = "cli")]
pub use input::Done;
#[cfg(feature = "cli")]
pub(crate) use input::Input;
pub use items::Batch;
pub(crate) use items::{Items, Segments};
pub(crate) use keyless::Keyless;
pub(crate) use part::parse_cost;
pub use reader::Reader;
#[cfg(feature = "cli")]
pub(crate) use rejects::Unfit;
pub(crate) use release_charges::ReleaseCharges;
pub use segment::Segment;
pub(crate) use stamp::{Fault, Stamps};

/// The error for a record that lacks a valid arrival, cost or other part that is needed. `why` has an excerpt of it.
pub(crate) fn bad_item(record: u64, why: &str) -> Error {
    anyhow!("item {record}: {why}")
}
