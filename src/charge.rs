//! What an item is charged, and to whom.

use std::rc::Rc;

use smallvec::SmallVec;

/// The key of a limit that each key has for itself. Short ones need no memory of their own.
pub type Key = SmallVec<[u8; 24]>;

/// What an item costs under each limit, and the keys that limits go by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Charge {
    /// What each limit charges; 0 where it does not apply.
    pub costs: Rc<[u64]>,
    /// The keys that limits go by.
    pub keys: Rc<[Key]>,
}

/// The charge of one item after the other, in memory that is used again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    /// As in [`Charge`].
    pub costs: Vec<u64>,
    /// As in [`Charge`].
    pub keys: Vec<Key>,
}

impl Draft {
    /// The same, to be kept.
    pub fn charge(&self) -> Charge {
        Charge { costs: self.costs.as_slice().into(), keys: self.keys.as_slice().into() }
    }
}
