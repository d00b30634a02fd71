//! Limits kept in a Redis server, tested with a real one.

pub(crate) mod client;
pub(crate) mod proxy;
pub(crate) mod server;

mod away;
mod booking;
mod calendar;
mod cluster;
mod crowds;
mod losses;
mod program;
mod queue;
mod refusals;
mod sentinels;
#[cfg(feature = "tls")]
mod tls;
