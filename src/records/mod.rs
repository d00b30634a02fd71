//! Records that tell when they happened: lines with a time stamp, and the log of commands, which is written here, too.

mod arrivals;
mod escape;
mod file;
mod json;
mod log;
mod numbers;
mod recorded;
mod row;
mod tsv;

pub(crate) use self::arrivals::{InOrder, stamped};
pub use self::log::{Completed, JobLog};
pub(crate) use self::recorded::Moment;
pub use self::row::Entry;
