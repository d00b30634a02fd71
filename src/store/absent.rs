//! In place of the store on a server, in a build without it: there is no server, so nothing of this is ever called.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Error, bail};

use super::{Answer, Order, Policy, Store, StoreError};
use crate::time::Time;

/// The server that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server(Infallible);

/// Its store.
pub struct RedisStore(Infallible);

impl Server {
    /// Whether a password was written.
    pub fn has_password(&self) -> bool {
        match self.0 {}
    }
}

impl FromStr for Server {
    type Err = Error;

    fn from_str(_: &str) -> Result<Self, Error> {
        bail!("this throttle was built without servers: build it with --features redis, or name a file")
    }
}

impl fmt::Display for Server {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl RedisStore {
    /// Whether it can keep these limits.
    pub fn check(_: &Policy) -> Result<(), Error> {
        Ok(())
    }

    /// A store on a server.
    #[expect(clippy::needless_pass_by_value)]
    pub fn new(server: Server, _: Policy, _: Duration, _: impl Fn() -> Time + Send + 'static) -> Self {
        match server.0 {}
    }
}

impl Store for RedisStore {
    fn book(&mut self, _: &Order) -> Result<Answer, StoreError> {
        match self.0 {}
    }
}

/// Forgets what it keeps.
///
/// # Errors
/// Never.
pub fn reset_server(server: &Server, _: Duration) -> Result<(), StoreError> {
    match server.0 {}
}
