//! A run from input to output: bytes, tables, batches, faults, signals, and when it ends.

mod batches;
mod bytes;
mod csv;
mod faults;
mod fuzz;
mod once;
mod signals;
mod slow_readers;
mod waits;
