//! What a person sees: messages, progress and statistics.

pub mod audit;
mod notice;
pub mod plot;
pub mod progress;
pub mod report;
pub mod stats;
pub mod stderr;
