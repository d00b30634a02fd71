//! Finds the keeper of a STATE, if this build has it.

#[cfg(not(all(feature = "redis", feature = "sqlite")))]
use anyhow::anyhow;

#[cfg(feature = "sqlite")]
use super::file::StateFile;
#[cfg(feature = "sqlite")]
use super::place;
#[cfg(feature = "redis")]
use super::redis::Remote;
use super::{Policy, Status, Store, StoreError};
use crate::config::{Rate, Shared, State};
#[cfg(not(all(feature = "redis", feature = "sqlite")))]
use crate::exit::Exit;
use crate::time::Time;

/// A clock that shows the time since the machine was started; slots are on the same time line.
pub type BootClock = Box<dyn Fn() -> Time + Send>;

/// Looks after a state: opens, resets and holds it, and tells how it is used.
pub trait Keeper {
    /// Opens the store that shares these limits, and returns it with their policy.
    ///
    /// # Errors
    /// The state is unavailable, unsafe, or kept for other limits. A server is not asked yet.
    fn open(&self, rates: &[Rate], now: BootClock) -> Result<(Box<dyn Store>, Policy), StoreError>;

    /// Begins the state anew. Processes that use it notice, and are silent for one window.
    ///
    /// # Errors
    /// It is unavailable.
    fn reset(&self) -> Result<(), StoreError>;

    /// Holds all that is kept in the state for `length` nanoseconds from now on; with 0, nothing is held any more.
    /// Returns whether there is such a state: only a run says what the limits are.
    ///
    /// # Errors
    /// It is unavailable.
    fn hold(&self, length: u64, now: BootClock) -> Result<bool, StoreError>;

    /// The use of the state; `None` if there is no such state. Nothing is booked or written.
    ///
    /// # Errors
    /// It is unavailable, damaged, or not to be trusted.
    fn status(&self, now: Time) -> Result<Option<Status>, StoreError>;
}

/// The keeper of a state.
///
/// # Errors
/// There is no place for it, or its store was left out of this build.
pub fn keeper(shared: &Shared) -> Result<Box<dyn Keeper>, StoreError> {
    match &shared.state {
        #[cfg(feature = "redis")]
        State::Server(server) => Ok(Box::new(Remote::new(server, shared.timeout))),
        #[cfg(feature = "sqlite")]
        State::File(path) => Ok(Box::new(StateFile(path.clone()))),
        #[cfg(feature = "sqlite")]
        State::Name(name) => Ok(Box::new(StateFile(place(name)?))),
        #[cfg(not(feature = "redis"))]
        State::Server(_) => Err(left_out("servers", "redis, or name a file")),
        #[cfg(not(feature = "sqlite"))]
        State::File(_) | State::Name(_) => Err(left_out("files", "sqlite, or use redis://")),
    }
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
            let refusal = keeper(&Shared { state, timeout: 0 }).err().unwrap();
            assert_eq!(refusal.exit, Exit::Usage);
            assert!(refusal.to_string().contains(advice), "{refusal}");
        }
    }
}
