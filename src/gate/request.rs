//! The requests to a gate, and its answers.

use smallvec::SmallVec;

use crate::charge::{Charge, Key};
use crate::rule::Ask;
use crate::time::Time;

/// A release, as a gate is asked about it: what it is charged, and from when on it may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The instant at which the item became next in line.
    pub eligible_at: Time,
    /// The cost under each limit; 0 where the limit does not apply.
    pub costs: &'a [u64],
    /// The values of the limits' key selectors.
    pub keys: &'a [Key],
    /// False if it is refused unless it may go as soon as it is next in line.
    pub waits: bool,
}

impl<'a> Request<'a> {
    /// A release that is charged this, became next in line at `eligible_at`, and may wait.
    pub fn new(eligible_at: Time, charge: &'a Charge) -> Self {
        Request { eligible_at, costs: &charge.costs, keys: &charge.keys, waits: true }
    }

    pub(crate) fn ask(&self, cost: u64) -> Ask {
        Ask { eligible_at: self.eligible_at, cost }
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

/// The costs of a release, and its `eligible_at` if the answer depends on it. Requests of one kind get the same answer
/// from [`Scope::Common`], except that it is never before their own `eligible_at`.
pub type Kind = (SmallVec<[u64; 4]>, Option<Time>);

/// Why a release may not go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// What it waits for, or is refused by.
    pub by: By,
    /// An instant before which it may not go; others may make it later. `None` if it depends on an event, such as the
    /// end of a command or the answer of a store, or was not looked for.
    pub until: Option<Time>,
}

/// What a release waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The limit with this index, of this run.
    Limit(usize),
    /// A slot; with the index of the limit, if only one limit is shared and it holds the slot back.
    Slot(Option<usize>),
    /// The end of a hold in all runs that share limits.
    Hold,
}

impl Blocked {
    /// By a limit of this run, without looking for how long.
    pub(super) fn by_limit(limit: usize) -> Self {
        Blocked { by: By::Limit(limit), until: None }
    }

    /// The index of the limit it waits for, if known.
    pub fn limit(self) -> Option<usize> {
        match self.by {
            By::Limit(limit) => Some(limit),
            By::Slot(limit) => limit,
            By::Hold => None,
        }
    }

    /// False if it may still go at once, when the store has answered.
    pub(super) fn is_known(self) -> bool {
        !matches!(self.by, By::Slot(_)) || self.until.is_some()
    }
}
