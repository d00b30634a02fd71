//! Looking after the state of shared limits.

use anyhow::{Context, Result};

use super::help;
use crate::config::{Shared, Upkeep};
use crate::exit::Exit;
use crate::printable::escaped;
use crate::runtime::Clock;
use crate::{store, ui};

/// Lists states, tells of one, or makes it anew.
pub(crate) fn state(upkeep: &Upkeep) -> Result<Exit> {
    match upkeep {
        Upkeep::List => {
            let names: Vec<_> = store::names().iter().map(|name| escaped(name)).collect();
            help(&names.join("\n"))
        }
        Upkeep::Status(shared) => help(&status(shared)?),
        Upkeep::Hold(shared, length) => {
            store::hold(shared, *length, || Clock::Boot.now())?;
            Ok(Exit::Done)
        }
        Upkeep::Reset(shared) => {
            store::reset(shared)?;
            Ok(Exit::Done)
        }
    }
}

fn status(shared: &Shared) -> Result<String> {
    let status = store::status(shared, Clock::Boot.now())?;
    let status = status.with_context(|| format!("there is no state {}", shared.state))?;
    Ok(ui::state::describe(&status))
}
