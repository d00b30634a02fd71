//! What threads share, and how they wait. Unit tests use loom's, which tries all interleavings.

#[cfg(not(test))]
pub(super) use std::{
    sync::{Mutex, MutexGuard, atomic::AtomicU64},
    thread::{Thread, current, park},
};

#[cfg(test)]
pub(super) use loom::{
    sync::{Mutex, MutexGuard, atomic::AtomicU64},
    thread::{Thread, current, park},
};

use std::time::Instant;

/// Blocks until woken or until `at`. In unit tests no time passes, so it has to be woken.
pub(super) fn park_until(at: Instant) {
    #[cfg(not(test))]
    std::thread::park_timeout(at.saturating_duration_since(Instant::now()));
    #[cfg(test)]
    let _ = at;
    #[cfg(test)]
    park();
}
