//! What is told of a run: audits, forecasts, metrics, plots, and progress.

mod audit;
mod audit_option;
mod forecast;
mod metrics;
mod plot;
mod terminal;
