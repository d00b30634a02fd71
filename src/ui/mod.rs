//! What a person sees: messages, progress and statistics.

mod notice;
pub mod progress;
pub mod report;
pub mod stats;
pub mod stderr;
