//! The costs and keys of an item, which limits are applied to.

use std::rc::Rc;

use smallvec::SmallVec;

/// The value of a key selector. Short ones are stored inline.
pub type Key = SmallVec<[u8; 24]>;

/// The costs of an item under each limit, and the keys that keyed limits group it by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Charge {
    /// One for each limit; 0 where the limit does not apply.
    pub costs: Rc<[u64]>,
    /// One for each distinct key selector.
    pub keys: Rc<[Key]>,
}

/// A [`Charge`] in buffers that are reused for the next item.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    /// One for each limit; 0 where the limit does not apply.
    pub costs: Vec<u64>,
    /// One for each distinct key selector.
    pub keys: Vec<Key>,
}

impl Draft {
    /// Returns a copy to keep with the item.
    pub fn charge(&self) -> Charge {
        Charge { costs: self.costs.as_slice().into(), keys: self.keys.as_slice().into() }
    }

    /// As [`Draft::charge`], sharing the memory of `last` where the two are equal.
    pub(crate) fn charge_like(&self, last: &Charge) -> Charge {
        let costs =
            if *last.costs == *self.costs { Rc::clone(&last.costs) } else { self.costs.as_slice().into() };
        let keys = if *last.keys == *self.keys { Rc::clone(&last.keys) } else { self.keys.as_slice().into() };
        Charge { costs, keys }
    }
}
