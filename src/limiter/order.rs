//! What is asked of a store of shared limits, and what it says, see [`crate::store`].

use crate::charge::Key;
use crate::time::Time;

/// When a release may happen, on the clock of the process that booked it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Not before.
    pub at: Time,
    /// Not after.
    pub until: Time,
}

/// What is asked of a store: slots for some releases that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The key whose limits are charged; empty if the limits go by no key.
    pub key: Key,
    /// What each limit of the policy charges for one release. At least one is not 0.
    pub costs: Box<[u64]>,
    /// So many slots are of use. At least 1.
    pub count: u64,
    /// Whether slots to come are of use, too. If not, nothing is booked but what is free at once.
    pub waits: bool,
    /// What the last answer gave, if it turned the order away.
    pub turn: Option<Turn>,
}

/// A place in the queue of those who were turned away. What it means is up to the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn(pub u64);

/// What a store says to an order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The slots that were booked, earliest first; fewer than asked for, or none, if the others are beyond the horizon.
    pub slots: Vec<Slot>,
    /// With fewer slots than asked for: when it makes sense to ask for more. If the order does not wait: when the next
    /// one is free, as things stand.
    pub ask_again: Option<Time>,
    /// What to ask again with, so that nobody who comes later goes first.
    pub turn: Option<Turn>,
    /// Something that the user should hear of, such as that state was lost.
    pub warning: Option<String>,
    /// With a warning: when the first slot after it is expected.
    pub silent_until: Option<Time>,
}
