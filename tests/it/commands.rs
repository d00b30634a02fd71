//! Commands and workers: what they get, their ends, retries, holds, output, and logs.

mod batch_log;
mod exec;
mod habits;
mod halts;
mod holds;
mod jobs;
mod jobs_simulated;
mod outputs;
mod placeholders;
mod tags;
mod workers;
