//! What a person sees: messages, progress and statistics.

pub mod audit;
pub mod hints;
mod line;
mod notice;
pub mod plot;
pub mod progress;
pub mod prometheus;
pub mod report;
pub mod state;
pub mod stats;
pub mod stderr;
mod terminal;
mod wall;
