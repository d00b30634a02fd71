//! From a STATE to the store that keeps it.

use std::path::PathBuf;
use std::time::Duration;

use super::{FileStore, Policy, RedisStore, Reserve, Server, Store, StoreError, place, reset_server};
use crate::config::{Rate, Shared, State};
use crate::exit::Exit;
use crate::runtime::Clock;

/// Opens the store that limits are shared by, and says what they are in it. Instants are those of `clock`.
///
/// # Errors
/// The state is not to be had, not to be trusted, or that of other limits. A server is not asked yet.
pub fn open(shared: &Shared, rates: &[Rate], clock: Clock) -> Result<(Box<dyn Store>, Policy), StoreError> {
    let now = move || clock.now();
    match place_of(&shared.state)? {
        Place::File(path) => {
            let policy = Policy::new(rates, Reserve::LOCAL);
            Ok((Box::new(FileStore::open(&path, policy.clone(), now)?), policy))
        }
        Place::Server(server) => {
            let policy = Policy::new(rates, Reserve::REMOTE);
            RedisStore::check(&policy).map_err(|error| StoreError { exit: Exit::Usage, error })?;
            let store = RedisStore::new(server.clone(), policy.clone(), timeout(shared), now);
            Ok((Box::new(store), policy))
        }
    }
}

/// Makes a state anew.
///
/// # Errors
/// It is not to be had.
pub fn reset(shared: &Shared) -> Result<(), StoreError> {
    match place_of(&shared.state)? {
        Place::File(path) => FileStore::reset(&path).map(drop),
        Place::Server(server) => reset_server(server, timeout(shared)),
    }
}

fn timeout(shared: &Shared) -> Duration {
    Duration::from_nanos(shared.timeout)
}

enum Place<'a> {
    File(PathBuf),
    Server(&'a Server),
}

fn place_of(state: &State) -> Result<Place<'_>, StoreError> {
    match state {
        State::Name(name) => place(name).map(Place::File),
        State::File(path) => Ok(Place::File(path.clone())),
        State::Server(server) => Ok(Place::Server(server)),
    }
}
