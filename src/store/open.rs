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
    let path = file(&shared.state)?;
    let policy = Policy::new(rates, Reserve::LOCAL);
    let store = FileStore::open(&path, policy.clone(), move || clock.now())?;
    Ok((Box::new(store), policy))
}

/// Makes a state anew.
///
/// # Errors
/// It is not to be had.
pub fn reset(state: &State) -> Result<(), StoreError> {
    FileStore::reset(&file(state)?).map(|_| ())
}

fn file(state: &State) -> Result<PathBuf, StoreError> {
    match state {
        State::Name(name) => place(name).map_err(|error| StoreError { exit: Exit::BadStore, error }),
        State::File(path) => Ok(path.clone()),
        State::Server(_) => Err(StoreError { exit: Exit::Error, error: anyhow!("there is no store yet") }),
    }
}
