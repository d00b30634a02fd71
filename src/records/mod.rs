//! Reads records with the instants at which they happened: lines with a time stamp, and the job log, which is also
//! written here.

mod arrivals;
mod completed;
mod escape;
mod failed;
mod file;
mod json;
mod log;
mod numbers;
mod recorded;
mod row;
mod tsv;

pub(crate) use self::arrivals::{ReorderBuffer, stamped};
pub use self::completed::Completed;
pub use self::failed::FailedItems;
pub use self::log::JobLog;
pub(crate) use self::recorded::Moment;
pub use self::row::Entry;
