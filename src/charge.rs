//! Whom a release is charged to.

use smallvec::SmallVec;

/// The key of a limit that each key has for itself. Short ones need no memory of their own.
pub type Key = SmallVec<[u8; 24]>;
