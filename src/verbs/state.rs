//! Maintains the state of shared limits.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::help;
use crate::config::{QueueOptions, Rate, Report, Shared, Upkeep, check_shared};
use crate::exit::Exit;
use crate::printable::{escaped, escaped_json};
use crate::runtime::Clock;
use crate::store::{self, Admin};
use crate::ui;
use crate::ui::report::Reporter;

/// The limits of a state, for a run that gives none.
pub(super) fn stored_limits(shared: &Shared, queue: &QueueOptions) -> Result<Vec<Rate>> {
    let limits = Admin::of(shared)?.limits(Box::new(|| Clock::Boot.now()))?;
    let state = &shared.state;
    let limits = limits.with_context(|| {
        format!(
            "no limit given to share, and there is no state {state} yet, whose limits would hold: add one, such as \
             -r 10/s"
        )
    })?;
    check_shared(&limits, queue)?;
    Ok(limits)
}

/// Lists states; describes, holds or resets one.
pub(crate) fn state(upkeep: &Upkeep) -> Result<Exit> {
    let reporter = Reporter::new(Report::Normal);
    let missing =
        |shared: &Shared| format!("there is no state {}: a run with limits creates it", shared.state);
    match upkeep {
        Upkeep::List(true) => help(&escaped_json(&json!(store::names()).to_string())),
        Upkeep::List(false) => {
            let names: Vec<_> = store::names().iter().map(|name| escaped(name)).collect();
            if names.is_empty() { Ok(Exit::Done) } else { help(&names.join("\n")) }
        }
        Upkeep::Status(shared, as_json) => {
            let status = Admin::of(shared)?.status(Box::new(|| Clock::Boot.now()))?;
            let status = status.with_context(|| missing(shared))?;
            match as_json {
                true => help(&escaped_json(&ui::state::json(&status).to_string())),
                false => help(&ui::state::describe(&status)),
            }
        }
        Upkeep::Hold(shared, length) => {
            let is_there = Admin::of(shared)?.hold(*length, Box::new(|| Clock::Boot.now()))?;
            ensure!(is_there, missing(shared));
            Ok(Exit::Done)
        }
        Upkeep::SetLimits(shared, rates) => {
            reporter.limits(rates);
            Admin::of(shared)?.set_limits(rates, Box::new(|| Clock::Boot.now()))?;
            Ok(Exit::Done)
        }
        Upkeep::Reset(shared) => {
            if !Admin::of(shared)?.reset()? {
                reporter.notice(&format_args!("there is no state {}: nothing is reset", shared.state));
            }
            Ok(Exit::Done)
        }
    }
}
