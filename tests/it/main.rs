//! The whole program, as its users run it.
//!
//! Whatever arithmetic can decide is tested on a virtual clock. A test on the real clock asserts that something is *not
//! earlier* than allowed, never that it is fast, apart from generous guards against hangs.

mod audit;
mod audit_option;
mod batch_log;
mod batches;
mod bytes;
mod civil;
mod cli;
mod completions;
mod csv;
mod documented;
mod examples;
mod exec;
mod faults;
mod fleet;
mod forecast;
mod found_rates;
mod fuzz;
mod generated;
mod habits;
mod halts;
mod holds;
mod hours;
mod http;
mod jitter;
mod jobs;
mod jobs_simulated;
mod keys;
mod limit_changes;
mod limit_files;
mod limits;
mod manual;
mod margins;
mod memory_store;
mod metrics;
mod mistakes;
mod nginx;
mod once;
mod outputs;
mod packages;
mod placeholders;
mod plot;
mod property;
mod protocol;
mod random;
#[cfg(feature = "redis")]
mod redis;
mod rooms;
mod running;
#[cfg(feature = "sqlite")]
mod shared;
mod shared_status;
mod signals;
mod simulated;
mod slow_readers;
mod statuses;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod stores;
mod strace;
mod support;
mod tags;
mod terminal;
mod vectors;
mod waits;
mod workers;
