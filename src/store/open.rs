//! Opens the store that a STATE names.

use std::time::Duration;

#[cfg(not(feature = "sqlite"))]
use super::absent::file;
#[cfg(not(feature = "redis"))]
use super::absent::redis;
#[cfg(feature = "sqlite")]
use super::file;
#[cfg(feature = "redis")]
use super::redis;
use super::{Policy, Reserve, Status, Store, StoreError};
use crate::config::{Rate, Shared, State};
use crate::exit::Exit;
use crate::time::Time;

/// Opens the store that shares these limits, and says what they are in it.
///
/// `now` shows the time since the machine was started; slots are on the same time line.
///
/// # Errors
/// The state is unavailable, unsafe, or kept for other limits. A server is not asked yet.
pub fn open(
    shared: &Shared,
    rates: &[Rate],
    now: impl Fn() -> Time + Send + 'static,
) -> Result<(Box<dyn Store>, Policy), StoreError> {
    if let State::Server(server) = &shared.state {
        let policy = Policy::new(rates, Reserve::REMOTE);
        return Ok((redis::open(server, policy.clone(), rates, timeout(shared), now)?, policy));
    }
    let policy = Policy::new(rates, Reserve::LOCAL);
    Ok((file::open(&shared.state, policy.clone(), now)?, policy))
}

/// Begins a state anew.
///
/// # Errors
/// It is unavailable.
pub fn reset(shared: &Shared) -> Result<(), StoreError> {
    match &shared.state {
        State::Server(server) => redis::reset(server, timeout(shared)),
        state => file::reset(state),
    }
}

/// How much of a state is used; `None` if there is no such state. `now` shows the time since the machine was started.
///
/// # Errors
/// It is unavailable, or on a server.
pub fn status(state: &State, now: Time) -> Result<Option<Status>, StoreError> {
    if let State::Server(server) = state {
        let error = anyhow::anyhow!(
            "{server}: --status is for states in files; ask the server itself, as with redis-cli"
        );
        return Err(StoreError { exit: Exit::Usage, error });
    }
    file::status(state, now)
}

fn timeout(shared: &Shared) -> Duration {
    Duration::from_nanos(shared.timeout)
}
