//! The requests to a gate, and its answers.

use smallvec::SmallVec;

use crate::charge::{Charge, Key};
use crate::rule::Ask;
use crate::time::Time;

/// A release, as a gate is asked about it: what it is charged, and from when on it may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The instant at which the item became next in line.
    pub since: Time,
    /// The cost under each limit; 0 where the limit does not apply.
    pub costs: &'a [u64],
    /// The values of the limits' key selectors.
    pub keys: &'a [Key],
}

impl<'a> Request<'a> {
    /// A release that is charged this, and became next in line at `since`.
    pub fn new(since: Time, charge: &'a Charge) -> Self {
        Request { since, costs: &charge.costs, keys: &charge.keys }
    }

    pub(super) fn ask(&self, cost: u64) -> Ask {
        Ask { since: self.since, cost }
    }
}

/// Some of a gate's limits and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The limits that all items share.
    Common,
    /// The limits by key, and slots.
    Keyed,
    /// All of them.
    All,
}

/// The costs of a release, and its `since` if the answer depends on it. Requests of one kind get the same answer from
/// [`Scope::Common`], except that it is never before their own `since`.
pub type Kind = (SmallVec<[u64; 4]>, Option<Time>);

/// What a release waits for, or is refused by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// The limit with this index.
    Limit(usize),
    /// The limit with this index, which allows it at no instant as things stand.
    Never(usize),
    /// A slot.
    Slot {
        /// The index of the limit, if only one limit is shared.
        limit: Option<usize>,
        /// The store has said that there is none at once.
        known: bool,
    },
}

impl Blocked {
    /// The index of the limit it waits for, if known.
    pub fn limit(self) -> Option<usize> {
        match self {
            Blocked::Limit(limit) | Blocked::Never(limit) => Some(limit),
            Blocked::Slot { limit, .. } => limit,
        }
    }

    /// False if it may still go at once, once the store has answered.
    pub fn is_known(self) -> bool {
        !matches!(self, Blocked::Slot { known: false, .. })
    }
}
