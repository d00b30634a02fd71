//! Until when items may wait that are to be sent for the first time.

use std::collections::BTreeMap;

use super::turns::Position;
use crate::source::Segment;
use crate::time::Time;

/// The deadline of each lane: that of the first of its items that was not sent yet, which need not be its front.
pub(super) struct Deadlines {
    /// Nanoseconds from the arrival of an item on.
    wait: u64,
    /// By the number of the item, as arrivals are in that order.
    by_item: BTreeMap<Position, Time>,
    /// The number of the item, by lane.
    items: Vec<Option<u64>>,
}

impl Deadlines {
    pub(super) fn new(wait: u64) -> Self {
        Deadlines { wait, by_item: BTreeMap::new(), items: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        *self = Deadlines::new(self.wait);
    }

    /// The first item of a lane that was not sent yet is this one now.
    pub(super) fn set(&mut self, at: usize, fresh: Option<&Segment>) {
        if self.items.len() <= at {
            self.items.resize(at + 1, None);
        }
        let item = fresh.map(Segment::first);
        let known = std::mem::replace(&mut self.items[at], item);
        if known == item {
            return;
        }
        known.into_iter().for_each(|item| _ = self.by_item.remove(&(item, at)));
        if let Some(fresh) = fresh
            && let Some(deadline) = fresh.arrival().checked_add(self.wait.into())
        {
            self.by_item.insert((fresh.first(), at), deadline);
        }
    }

    pub(super) fn first(&self) -> Option<Time> {
        self.by_item.first_key_value().map(|(_, &deadline)| deadline)
    }

    /// The lanes whose deadlines are no later than `now`, in the order of the input.
    pub(super) fn until(&self, now: Time) -> impl Iterator<Item = (Time, usize)> {
        let all = self.by_item.iter().map(|(&(_, at), &deadline)| (deadline, at));
        all.take_while(move |(deadline, _)| *deadline <= now)
    }
}
