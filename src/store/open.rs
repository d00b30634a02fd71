//! From a STATE to the store that keeps it.

use std::path::PathBuf;

use anyhow::anyhow;

use super::{FileStore, Policy, Reserve, Store, StoreError, place};
use crate::exit::Exit;
use crate::spec::{Rate, Shared, State};
use crate::world::real::Clock;

/// Opens the store that limits are shared by, and says what they are in it. Instants are those of `clock`.
///
/// # Errors
/// The state is not to be had, not to be trusted, or that of other limits. A server is not asked yet.
pub fn open(shared: &Shared, rates: &[Rate], clock: Clock) -> Result<(Box<dyn Store>, Policy), StoreError> {
    let now = move || clock.now();
    if let Some(path) = path(&shared.state)? {
        let policy = Policy::new(rates, Reserve::LOCAL);
        return Ok((Box::new(FileStore::open(&path, policy.clone(), now)?), policy));
    }
    Err(StoreError { exit: Exit::Error, error: anyhow!("there are no servers yet") })
}

/// Makes a state anew.
///
/// # Errors
/// It is not to be had.
pub fn reset(state: &State) -> Result<(), StoreError> {
    match path(state)? {
        Some(path) => FileStore::reset(&path).map(drop),
        None => Err(StoreError { exit: Exit::Error, error: anyhow!("there are no servers yet") }),
    }
}

/// The file that a state is kept in, if it is one.
fn path(state: &State) -> Result<Option<PathBuf>, StoreError> {
    match state {
        State::Name(name) => place(name).map(Some).map_err(|error| StoreError { exit: Exit::Error, error }),
        State::File(path) => Ok(Some(path.clone())),
        State::Server(_) => Ok(None),
    }
}
