//! What users type and read: options, messages, statuses, help, manual, completions, and the state of the source.

mod completions;
mod documented;
mod examples;
mod generated;
mod manual;
mod mistakes;
mod modules;
mod options;
mod packages;
mod statuses;
