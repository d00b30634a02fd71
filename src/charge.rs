//! The costs and the keys of an item, by which limits go.

use std::rc::Rc;

use smallvec::SmallVec;

/// The value of a key selector. Short ones need no memory of their own.
pub type Key = SmallVec<[u8; 24]>;

/// The costs of an item, and the keys by which the limits tell items apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Charge {
    /// One for each limit; 0 where it does not apply.
    pub costs: Rc<[u64]>,
    /// One for each distinct key selector.
    pub keys: Rc<[Key]>,
}

/// A [`Charge`] in buffers that are used again for the next item.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    /// One for each limit; 0 where it does not apply.
    pub costs: Vec<u64>,
    /// One for each distinct key selector.
    pub keys: Vec<Key>,
}

impl Draft {
    /// Copies it to be kept with the item.
    pub fn charge(&self) -> Charge {
        Charge { costs: self.costs.as_slice().into(), keys: self.keys.as_slice().into() }
    }

    /// As [`Draft::charge`], in the memory of `last` as far as that is the same.
    pub(crate) fn charge_like(&self, last: &Charge) -> Charge {
        let costs =
            if *last.costs == *self.costs { Rc::clone(&last.costs) } else { self.costs.as_slice().into() };
        let keys = if *last.keys == *self.keys { Rc::clone(&last.keys) } else { self.keys.as_slice().into() };
        Charge { costs, keys }
    }
}
