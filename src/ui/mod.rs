//! Messages, progress and statistics for a person.

pub(crate) mod audit;
pub(crate) mod hints;
mod learned;
mod line;
mod notice;
pub(crate) mod number;
pub(crate) mod plot;
pub(crate) mod progress;
pub(crate) mod prometheus;
pub mod report;
pub(crate) mod state;
pub(crate) mod stats;
pub mod stderr;
mod terminal;
mod wall;
