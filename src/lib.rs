//! The works of `throttle`, which paces the items of a pipe.
//!
//! ```text
//!                  events                    actions
//! source ─ items ─▶ ┌────────────────────────┐ ─ Send(batch) ─▶ sink: stdout | command
//! jobs ─── ends ──▶ │ schedule  (pure)       │ ─ Book(order) ─▶ store
//! store ── slots ─▶ │  queue · batch · gate  │ ─ Wait(until) ─▶ clock
//! signals, files ─▶ └────────────────────────┘ ─ Tell ────────▶ ui
//! ```
//!
//! The scheduler in [`schedule`] decides, and knows no clock, thread or descriptor; what may leave when is up to its
//! [`gate`], and the rules are in [`rule`]. The one loop, which asks the scheduler what to do and does it, is
//! [`runtime::Driver`].

pub mod audit;
pub mod charge;
pub mod cli;
pub mod config;
pub mod exit;
pub mod gate;
pub mod inherited;
pub mod interrupt;
mod output;
pub mod pace;
mod pipe;
mod printable;
pub mod records;
pub mod rule;
pub mod runtime;
pub mod schedule;
pub mod sink;
pub mod source;
pub mod store;
pub mod time;
pub mod ui;
mod verbs;

use std::ffi::OsString;

use crate::cli::Instead;
use crate::config::{Action, Config, Report};
use crate::exit::Exit;
use crate::store::StoreError;
use crate::ui::report::Reporter;
use crate::verbs::Setup;

/// Runs the program with these arguments, of which the first is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let done = match cli::parse(args) {
        Ok(config) => with_items(&config),
        Err(Instead::State(upkeep)) => verbs::state(&upkeep),
        Err(Instead::Help(text)) => verbs::help(&text),
        Err(Instead::Mistake(text)) => {
            Reporter::new(Report::Normal).notice(&text);
            return Exit::Usage;
        }
    };
    done.unwrap_or_else(|error| {
        Reporter::new(Report::Normal).error(&error);
        error.downcast_ref::<StoreError>().map_or(Exit::Error, |error| error.exit)
    })
}

fn with_items(config: &Config) -> anyhow::Result<Exit> {
    let setup = Setup::new(config)?;
    match &config.action {
        Action::Pass | Action::Run(_) => verbs::run(setup),
        Action::Once(once) => verbs::once(setup, once),
        Action::DryRun { arrivals, at, .. } => verbs::plan(setup, arrivals.as_ref(), *at),
        Action::Audit(arrivals) => verbs::audit(setup, arrivals),
    }
}
