//! Opens the store that a STATE names, if this build has it.

#[cfg(feature = "redis")]
use std::time::Duration;

use anyhow::anyhow;

#[cfg(any(feature = "redis", feature = "sqlite"))]
use super::Reserve;
#[cfg(feature = "sqlite")]
use super::file;
#[cfg(feature = "redis")]
use super::redis;
use super::{Policy, Status, Store, StoreError};
use crate::config::{Rate, Shared, State};
use crate::exit::Exit;
use crate::time::Time;

/// Opens the store that shares these limits, and returns it with their policy.
///
/// `now` shows the time since the machine was started; slots are on the same time line.
///
/// # Errors
/// The state is unavailable, unsafe, or kept for other limits. A server is not asked yet.
#[cfg_attr(not(any(feature = "redis", feature = "sqlite")), expect(unused_variables))]
pub fn open(
    shared: &Shared,
    rates: &[Rate],
    now: impl Fn() -> Time + Send + 'static,
) -> Result<(Box<dyn Store>, Policy), StoreError> {
    match &shared.state {
        #[cfg(feature = "redis")]
        State::Server(server) => {
            let (policy, timeout) =
                (Policy::new(rates, Reserve::REMOTE), Duration::from_nanos(shared.timeout));
            Ok((redis::open(server, policy.clone(), rates, timeout, now)?, policy))
        }
        #[cfg(feature = "sqlite")]
        state @ (State::Name(_) | State::File(_)) => {
            let policy = Policy::new(rates, Reserve::LOCAL);
            policy.check().map_err(|error| StoreError { exit: Exit::Usage, error })?;
            Ok((file::open(state, policy.clone(), now)?, policy))
        }
        #[cfg(not(all(feature = "redis", feature = "sqlite")))]
        state => Err(absent(state)),
    }
}

/// Begins a state anew.
///
/// # Errors
/// It is unavailable.
pub fn reset(shared: &Shared) -> Result<(), StoreError> {
    match &shared.state {
        #[cfg(feature = "redis")]
        State::Server(server) => redis::reset(server, Duration::from_nanos(shared.timeout)),
        #[cfg(feature = "sqlite")]
        state @ (State::Name(_) | State::File(_)) => file::reset(state),
        #[cfg(not(all(feature = "redis", feature = "sqlite")))]
        state => Err(absent(state)),
    }
}

/// Holds all that is kept in a state for `length` nanoseconds from now on; with 0, nothing is held any more.
///
/// # Errors
/// It is unavailable, or there is none: only a run says what the limits are.
#[cfg_attr(not(feature = "sqlite"), expect(unused_variables))]
#[cfg_attr(not(any(feature = "redis", feature = "sqlite")), expect(unreachable_code))]
pub fn hold(shared: &Shared, length: u64, now: impl Fn() -> Time + Send + 'static) -> Result<(), StoreError> {
    let is_there: bool = match &shared.state {
        #[cfg(feature = "redis")]
        State::Server(server) => redis::hold(server, Duration::from_nanos(shared.timeout), length)?,
        #[cfg(feature = "sqlite")]
        state @ (State::Name(_) | State::File(_)) => file::hold(state, length, now)?,
        #[cfg(not(all(feature = "redis", feature = "sqlite")))]
        state => return Err(absent(state)),
    };
    if is_there {
        return Ok(());
    }
    let error = anyhow!("{}: there is no state to hold: a run with limits begins it", shared.state);
    Err(StoreError { exit: Exit::Error, error })
}

/// The use of a state; `None` if there is no such state. `now` is the time since the machine was started.
///
/// # Errors
/// It is unavailable.
#[cfg_attr(not(feature = "sqlite"), expect(unused_variables))]
pub fn status(shared: &Shared, now: Time) -> Result<Option<Status>, StoreError> {
    match &shared.state {
        #[cfg(feature = "redis")]
        State::Server(server) => redis::status(server, Duration::from_nanos(shared.timeout)),
        #[cfg(feature = "sqlite")]
        state @ (State::Name(_) | State::File(_)) => file::status(state, now),
        #[cfg(not(all(feature = "redis", feature = "sqlite")))]
        state => Err(absent(state)),
    }
}

/// The refusal of a state whose store was left out of this build.
#[cfg(not(all(feature = "redis", feature = "sqlite")))]
fn absent(state: &State) -> StoreError {
    let error = match state {
        State::Server(_) => {
            anyhow!("this throttle was built without servers: build it with --features redis, or name a file")
        }
        State::Name(_) | State::File(_) => {
            anyhow!("this throttle was built without files: build it with --features sqlite, or use redis://")
        }
    };
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
            let refusal = reset(&Shared { state, timeout: 0 }).unwrap_err();
            assert_eq!(refusal.exit, Exit::Usage);
            assert!(refusal.to_string().contains(advice), "{refusal}");
        }
    }
}
