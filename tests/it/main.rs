//! The whole program, as its users run it.
//!
//! Whatever arithmetic can decide is tested on a virtual clock. A test on the real clock asserts that something is *not
//! earlier* than allowed, never that it is fast, apart from generous guards against hangs.
//!
//! # Where each promise is tested
//!
//! - no window holds more than its limit: `rules::property`, `reports::audit`, `rules::nginx`
//! - an item goes at the first instant that all limits allow: `rules::property::earliest`, `rules::vectors`
//! - a dry run has the instants of the run, to the nanosecond: `rules::vectors`,
//!   `run::batches::a_dry_run_of_a_command_has_the_capacity_of_the_command`
//! - limits go by the calendar and by hours, also where the clock is set: `rules::hours`, `rules::civil`
//! - no change of limits forgets a release that counts: `rules::limit_changes`, `rules::limit_files`
//! - a rate that nobody knows is found: `rules::found_rates`
//! - a server that counts on arrival refuses no command: `rules::margins`, `rules::nginx`
//! - a blocked key holds up no other: `rules::limits::a_blocked_key_holds_up_no_other`, `rules::keys`
//! - processes that share a limit keep it, whoever is late, stops or dies: `store::fleet`, `store::protocol`,
//!   `store::shared::crowd`, `store::redis::crowds`
//! - a state that is lost or older is noticed and waited out: `store::fleet::losses`, `store::redis::losses`
//! - shared limits are replaced without a window over either: `store::fleet::changes`,
//!   `store::stores::limits_are_replaced_and_keep_their_history`
//! - a slow reader brings no releases closer together: `run::slow_readers`
//! - every byte passes, in order, in bounded memory: `run::bytes`, `run::csv`, `strace`
//! - a failing call loses nothing and is told: `run::faults`, `strace`
//! - a signal ends a run at any moment, and what has not left is not done: `run::signals`
//! - input that fuzzing made is understood or refused: `run::fuzz`
//! - commands get their items, and their ends decide the exit status: `commands::exec`, `commands::placeholders`,
//!   `commands::jobs`
//! - what fails is tried again, within the limits: `commands::jobs_simulated`, `cli::statuses`
//! - a hold that a server asks for is kept: `commands::holds`
//! - a run that broke off is resumed: `commands::jobs::resume`, `commands::batch_log`
//! - a worker answers each item: `commands::workers`
//! - an audit, a forecast, a plot and the metrics say what happened: `rules::property::judged`, `reports`
//! - examples of the manual do what they say: `cli::examples`, `cli::documented`
//! - a mistake is told with what to write: `cli::mistakes`, `cli::options`, `commands::habits`

mod cli;
mod commands;
mod http;
mod memory_store;
mod random;
mod reports;
mod rules;
mod run;
mod simulated;
mod store;
mod strace;
mod support;
