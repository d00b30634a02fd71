//! The state of shared limits.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::config::{Rate, Shared, State, Upkeep, VARIABLE, parse_duration};
use crate::time::SECOND;

const STORE_TIMEOUT: u64 = 60 * SECOND;

/// Where limits are shared, and upkeep of that state.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown, clippy::struct_excessive_bools)]
pub(crate) struct StateArgs {
    /// Share the limits with all runs that use STATE
    ///
    /// NAME is a file in ~/.local/state/throttle; anything with a slash is a path. redis://HOST/NAME,
    /// rediss://HOST/NAME (TLS), redis+sentinel://HOST/MASTER/NAME and unix:///SOCKET?name=NAME are servers. @FILE
    /// holds one of these. The default is $THROTTLE_STATE.
    #[arg(short, long, value_name = "STATE")]
    pub(crate) state: Option<String>,

    /// Longest wait for a server, then 69 [default: 1m]
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) store_timeout: Option<u64>,

    /// Forget what STATE has recorded; do nothing else
    #[arg(long, conflicts_with = "dry_run", hide_short_help = true)]
    pub(crate) reset_state: bool,

    /// Replace STATE's limits; what was used stays used
    #[arg(long, hide_short_help = true)]
    #[arg(conflicts_with_all = ["reset_state", "status", "hold", "dry_run"])]
    pub(crate) set_limits: bool,

    /// Print how much of STATE's limits is used
    ///
    /// Also holds and what waits. Without -s, the names of all states.
    #[arg(long, hide_short_help = true)]
    #[arg(conflicts_with_all = ["reset_state", "dry_run", "stats"])]
    pub(crate) status: bool,

    /// With --status: print it as JSON
    #[arg(long, hide_short_help = true)]
    pub(crate) json: bool,

    /// Hold all runs of STATE for DUR; do nothing else
    ///
    /// 0 lifts all holds, including those of servers.
    #[arg(long, value_name = "DUR", value_parser = parse_duration, hide_short_help = true)]
    #[arg(allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["reset_state", "status", "dry_run"])]
    pub(crate) hold: Option<u64>,
}

impl StateArgs {
    /// Warns of a file with the password of a server that others may read.
    pub(crate) fn warning(&self, shared: &Shared) -> Option<String> {
        let State::Server(server) = &shared.state else { return None };
        let text = self.state.clone().or_else(|| env::var(VARIABLE).ok())?;
        let file = text.strip_prefix('@').filter(|_| server.password.is_some())?;
        let mode = fs::metadata(file).ok()?.permissions().mode();
        (mode & 0o044 != 0)
            .then(|| format!("other users may read {file}, which has a password: chmod go= it"))
    }

    /// What `option` does to the state. `limits` are those given.
    pub(crate) fn upkeep(&self, option: &str, shared: Option<Shared>, limits: Vec<Rate>) -> Result<Upkeep> {
        let Some(shared) = shared else {
            ensure!(self.status, "{option} needs a state: add -s STATE");
            return Ok(Upkeep::List(self.json));
        };
        ensure!(!self.set_limits || !limits.is_empty(), "--set-limits needs limits: add -r RATE");
        Ok(match self.hold {
            Some(length) => Upkeep::Hold(shared, length),
            None if self.set_limits => Upkeep::SetLimits(shared, limits),
            None if self.status => Upkeep::Status(shared, self.json),
            None => Upkeep::Reset(shared),
        })
    }

    /// The state given by -s, or else by the environment, which is ignored with an option that `books_nothing`.
    pub(crate) fn shared(&self, books_nothing: Option<&str>) -> Result<Option<Shared>> {
        if let Some(option) = books_nothing {
            ensure!(self.state.is_none(), "{option} books nothing: leave out --state");
            ensure!(self.store_timeout.is_none(), "{option} books nothing: leave out --store-timeout");
            return Ok(None);
        }
        let state = match &self.state {
            // Not parsed by clap, which repeats what it cannot read: there may be a password in it.
            Some(state) => {
                Some(State::parse_public(state, |file| fs::read_to_string(file)).context("--state")?)
            }
            None => state_of_environment()?,
        };
        ensure!(
            self.store_timeout.is_none() || state.is_some(),
            "--store-timeout is for shared limits: add -s STATE"
        );
        let timeout = self.store_timeout.unwrap_or(STORE_TIMEOUT);
        Ok(state.map(|state| Shared { state, timeout }))
    }
}

fn state_of_environment() -> Result<Option<State>> {
    let Some(text) = env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = text.to_str().with_context(|| format!("${VARIABLE} is not UTF-8"))?;
    State::parse_private(text, |file| fs::read_to_string(file))
        .with_context(|| format!("${VARIABLE}"))
        .map(Some)
}
