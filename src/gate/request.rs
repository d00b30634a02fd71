//! The requests to a gate, and its answers.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::charge::Key;
use crate::rule::Ask;
use crate::time::Time;

/// A release, as a gate is asked about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The instant at which the item became next in line.
    pub since: Time,
    /// The cost under each limit; 0 where the limit does not apply.
    pub costs: &'a [u64],
    /// The values of the limits' key selectors.
    pub keys: &'a [Key],
}

impl Request<'_> {
    /// True if no limit charges it.
    pub fn is_free(&self) -> bool {
        self.costs.iter().all(|&cost| cost == 0)
    }

    pub(super) fn ask(&self, cost: u64) -> Ask {
        Ask { since: self.since, cost }
    }
}

/// A request that owns its data.
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    /// The instant at which its first item became next in line.
    pub since: Time,
    /// The cost under each limit.
    pub costs: Rc<[u64]>,
    /// The values of the limits' key selectors.
    pub keys: Rc<[Key]>,
}

impl OwnedRequest {
    pub(crate) fn request(&self) -> Request<'_> {
        Request { since: self.since, costs: &self.costs, keys: &self.keys }
    }
}

/// A part of a gate's limits and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The limits that all items share.
    Common,
    /// The limits by key, and slots.
    Keyed,
    /// All of them.
    All,
}

/// The costs of a release, and its `since` if the answer depends on it. Requests of one kind get the same answer from
/// [`Part::Common`], except that it is never before their own `since`.
pub type Kind = (SmallVec<[u64; 4]>, Option<Time>);

/// The reason that a release waits or is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The limit with this index.
    Limit(usize),
    /// The limit with this index, which allows it at no instant as things stand.
    Never(usize),
    /// A slot; with the index of the limit if only one limit is shared.
    Slot(Option<usize>),
}

impl Why {
    /// The index of the limit it waits for, if known.
    pub fn limit(self) -> Option<usize> {
        match self {
            Why::Limit(limit) | Why::Never(limit) => Some(limit),
            Why::Slot(limit) => limit,
        }
    }
}
