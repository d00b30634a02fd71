//! The whole program, as its users meet it.
//!
//! What arithmetic can tell is tested on a virtual clock. A test on the real one asserts that something is *not
//! earlier* than allowed, never that it is fast, but for guards against hanging that are far longer than need be.

mod audit;
mod audit_option;
mod bytes;
mod cli;
mod exec;
mod faults;
mod fleet;
mod fuzz;
mod generated;
mod jobs;
mod jobs_simulated;
mod keys;
mod limit_files;
mod limits;
mod nginx;
mod plot;
mod property;
#[cfg(feature = "redis")]
mod redis;
mod shared;
mod signals;
mod simulated;
#[cfg(feature = "redis")]
mod stores;
mod strace;
mod support;
mod vectors;
