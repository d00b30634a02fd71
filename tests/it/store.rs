//! Limits that processes share: files, servers, losses, and crowds.

mod fleet;
mod protocol;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sqlite")]
mod shared;
mod shared_status;
#[cfg(all(feature = "redis", feature = "sqlite"))]
pub(crate) mod stores;
mod together;
