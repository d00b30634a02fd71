//! From a STATE to the store that keeps it.

use anyhow::anyhow;

use super::{Policy, Store, StoreError};
use crate::exit::Exit;
use crate::spec::{Rate, Shared, State};
use crate::world::real::Clock;

/// Opens the store that limits are shared by, and says what they are in it. Instants are those of `clock`.
///
/// # Errors
/// The state is not to be had, not to be trusted, or that of other limits. A server is not asked yet.
pub fn open(_: &Shared, _: &[Rate], _: Clock) -> Result<(Box<dyn Store>, Policy), StoreError> {
    Err(StoreError { exit: Exit::Error, error: anyhow!("there is no store yet") })
}

/// Makes a state anew.
///
/// # Errors
/// It is not to be had.
pub fn reset(_: &State) -> Result<(), StoreError> {
    Err(StoreError { exit: Exit::Error, error: anyhow!("there is no store yet") })
}
