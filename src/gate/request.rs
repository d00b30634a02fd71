//! What a gate is asked, and what it answers.

use std::rc::Rc;

use smallvec::SmallVec;

use super::Limit;
use crate::charge::Key;
use crate::rule::Ask;
use crate::time::Time;

/// A release, as a gate is asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The instant at which the item became next in line.
    pub since: Time,
    /// The charge of each limit; 0 where it does not apply.
    pub costs: &'a [u64],
    /// The keys that limits go by.
    pub keys: &'a [Key],
}

impl<'a> Request<'a> {
    /// It is charged by no limit.
    pub fn is_free(&self) -> bool {
        self.costs.iter().all(|&cost| cost == 0)
    }

    pub(super) fn key(&self, limit: &Limit) -> &'a [u8] {
        limit.key.map_or(&[], |key| self.keys[key].as_slice())
    }

    pub(super) fn ask(&self, cost: u64) -> Ask {
        Ask { since: self.since, cost }
    }
}

/// A request that is kept.
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    /// The instant at which its first item became next in line.
    pub since: Time,
    /// The charge of each limit.
    pub costs: Rc<[u64]>,
    /// The keys that limits go by.
    pub keys: Rc<[Key]>,
}

impl OwnedRequest {
    pub(crate) fn request(&self) -> Request<'_> {
        Request { since: self.since, costs: &self.costs, keys: &self.keys }
    }
}

/// A part of the limits and slots that a gate goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The limits that all items use up together.
    Common,
    /// The limits that go by key, and slots.
    Keyed,
    /// All of them.
    All,
}

/// The costs of a release, and its `since` if the answer depends on it: those of one kind get the same answer of
/// [`Part::Common`], apart from being no earlier than they asked.
pub type Kind = (SmallVec<[u64; 4]>, Option<Time>);

/// Why a release was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The limit, by its place; none if it is any of several that are shared.
    pub limit: Option<usize>,
    /// The instant at which it would have been allowed, if a store has said so. Otherwise, ask.
    pub allowed: Option<Time>,
}

/// The reason that a release waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A limit, by its place.
    Limit(usize),
    /// A limit, by its place, which allows it at no instant as things stand.
    Never(usize),
    /// A slot; if only one limit is shared, it is that one's.
    Slot(Option<usize>),
}

impl Why {
    /// The limit that is waited for, if it is known.
    pub fn limit(self) -> Option<usize> {
        match self {
            Why::Limit(limit) | Why::Never(limit) => Some(limit),
            Why::Slot(limit) => limit,
        }
    }
}
