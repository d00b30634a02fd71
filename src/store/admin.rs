//! Manages a STATE, if this build includes its store.

#[cfg(feature = "sqlite")]
use std::path::PathBuf;
#[cfg(feature = "redis")]
use std::time::Duration;

#[cfg(not(all(feature = "redis", feature = "sqlite")))]
use anyhow::anyhow;

#[cfg(feature = "redis")]
use super::redis::ServerVault;
use super::shared::{Booking, VaultStore};
use super::vault::Vault;
use super::{Hold, Policy, Reserve, Status, Store, StoreError};
#[cfg(feature = "sqlite")]
use super::{file::FileVault, place};
#[cfg(feature = "redis")]
use crate::config::Server;
use crate::config::{Rate, Shared, State};
use crate::exit::Exit;
use crate::time::Time;

/// A clock that shows the time since boot; slots are on the same time line.
pub type BootClock = Box<dyn Fn() -> Time + Send>;

/// Manages a state: opens, resets and holds it, and reports how it is used.
pub struct Admin {
    vault: Box<dyn Fn(BootClock) -> Result<Box<dyn Vault>, StoreError>>,
    /// Sets the margins that limits do not.
    reserve: Reserve,
}

impl Admin {
    /// # Errors
    /// There is no place for the state, or its store was left out of this build.
    pub fn of(shared: &Shared) -> Result<Self, StoreError> {
        match &shared.state {
            #[cfg(feature = "redis")]
            State::Server(server) => {
                let (server, timeout) = (Server::clone(server), Duration::from_nanos(shared.timeout));
                let vault = move |now| Ok(Box::new(ServerVault::new(server.clone(), timeout, now)) as _);
                Ok(Admin { vault: Box::new(vault), reserve: Reserve::REMOTE })
            }
            #[cfg(feature = "sqlite")]
            State::File(path) => Ok(Admin::in_file(path.clone())),
            #[cfg(feature = "sqlite")]
            State::Name(name) => Ok(Admin::in_file(place(name)?)),
            #[cfg(not(feature = "redis"))]
            State::Server(_) => Err(left_out("servers", "redis, or name a file")),
            #[cfg(not(feature = "sqlite"))]
            State::File(_) | State::Name(_) => Err(left_out("files", "sqlite, or use redis://")),
        }
    }

    #[cfg(feature = "sqlite")]
    fn in_file(path: PathBuf) -> Self {
        let vault = move |now| Ok(Box::new(FileVault::new(&path, now)?) as _);
        Admin { vault: Box::new(vault), reserve: Reserve::LOCAL }
    }

    /// Opens the store that shares these limits, and returns it with their policy.
    ///
    /// # Errors
    /// The state is unavailable, unsafe, or kept for other limits. A server is not asked yet.
    pub fn open(&self, rates: &[Rate], now: BootClock) -> Result<(Box<dyn Store>, Policy), StoreError> {
        let policy = policy(rates, self.reserve)?;
        let store = VaultStore::opened((self.vault)(now)?, policy.clone(), rates, self.reserve)?;
        Ok((Box::new(store), policy))
    }

    /// Starts the state afresh. Processes that use it notice, and release nothing for one window. Returns whether there
    /// was one.
    ///
    /// # Errors
    /// It is unavailable.
    pub fn reset(&self) -> Result<bool, StoreError> {
        (self.vault)(Box::new(|| Time::ZERO))?.forget()
    }

    /// Holds everything in the state for `length` nanoseconds from now on; 0 ends all holds. Returns whether there is
    /// such a state: only a run defines the limits.
    ///
    /// # Errors
    /// It is unavailable.
    pub fn hold(&self, length: u64, now: BootClock) -> Result<bool, StoreError> {
        hold((self.vault)(now)?, length)
    }

    /// Replaces the limits of the state, or begins it with these.
    ///
    /// # Errors
    /// It is unavailable or damaged, or the limits leave no slots.
    pub fn set_limits(&self, rates: &[Rate], now: BootClock) -> Result<(), StoreError> {
        let policy = policy(rates, self.reserve)?;
        VaultStore::set_limits((self.vault)(now)?, policy, rates, self.reserve)
    }

    /// The limits of the state, with their margins; `None` if there is no such state.
    ///
    /// # Errors
    /// It is unavailable or damaged.
    pub fn limits(&self, now: BootClock) -> Result<Option<Vec<Rate>>, StoreError> {
        let found = VaultStore::found((self.vault)(now)?)?;
        Ok(found.map(|shared| shared.rules.policy().rates.clone()))
    }

    /// The use of the state; `None` if there is no such state. Books and writes nothing.
    ///
    /// # Errors
    /// It is unavailable, damaged, or not to be trusted.
    pub fn status(&self, now: BootClock) -> Result<Option<Status>, StoreError> {
        Status::of((self.vault)(now)?)
    }
}

/// Holds everything in a state for `length` nanoseconds from now on; 0 ends all holds. Returns whether there is such a
/// state.
pub(super) fn hold(vault: Box<dyn Vault>, length: u64) -> Result<bool, StoreError> {
    let Some(mut shared) = VaultStore::found(vault)? else { return Ok(false) };
    let lift = |booking: &mut Booking| booking.record.ledger.hold = Hold::default();
    shared.update(b"", |booking| {
        let now = booking.reading.shown;
        booking.record.hold = Hold::new(now, now.saturating_add(length));
        if length == 0 {
            lift(booking);
        }
    })?;
    let keys = if length == 0 { shared.keys()? } else { Vec::new() };
    keys.iter().try_for_each(|key| shared.update(key, lift))?;
    Ok(true)
}

/// The policy for these limits, which leave some slots.
fn policy(rates: &[Rate], reserve: Reserve) -> Result<Policy, StoreError> {
    let policy = Policy::new(rates, reserve);
    policy.check().map_err(|error| StoreError { exit: Exit::Usage, error })?;
    Ok(policy)
}

/// The refusal of a state whose store was left out of this build.
#[cfg(not(all(feature = "redis", feature = "sqlite")))]
fn left_out(what: &str, advice: &str) -> StoreError {
    let error = anyhow!("this throttle was built without {what}: build it with --features {advice}");
    StoreError { exit: Exit::Usage, error }
}

#[cfg(test)]
mod tests {
    #[cfg(not(all(feature = "redis", feature = "sqlite")))]
    #[test]
    fn a_store_that_was_left_out_is_refused_with_advice() {
        use super::*;

        let server = State::Server(Box::new("redis://localhost/n".parse().unwrap()));
        let file = State::Name("n".to_owned());
        let table = [
            (cfg!(feature = "redis"), server, "built without servers: build it with --features redis"),
            (cfg!(feature = "sqlite"), file, "built without files: build it with --features sqlite"),
        ];
        for (_, state, advice) in table.into_iter().filter(|(is_built_in, ..)| !is_built_in) {
            let refusal = Admin::of(&Shared { state, timeout: 0 }).err().unwrap();
            assert_eq!(refusal.exit, Exit::Usage);
            assert!(refusal.to_string().contains(advice), "{refusal}");
        }
    }
}
