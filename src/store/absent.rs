//! In place of the store on a server, in a build without it.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};

/// The server that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server(Infallible);

impl Server {
    /// Never asked.
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
