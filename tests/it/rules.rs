//! What is released when: algorithms, hours, keys, costs, ranges, and limits that change.

mod civil;
mod found_rates;
pub(crate) mod hours;
mod jitter;
mod keys;
mod limit_changes;
mod limit_files;
mod limits;
mod margins;
mod nginx;
mod property;
mod running;
mod vectors;
