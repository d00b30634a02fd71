//! Deadlines of items that are to be sent for the first time.

use std::collections::BTreeMap;

use super::turns::Position;
use crate::source::Segment;
use crate::time::Time;

/// The deadline of each lane: that of its first item that was never sent, which need not be its front.
pub(super) struct Deadlines {
    /// The nanoseconds that an item may wait after its arrival.
    wait: u64,
    /// The deadlines by item number, which is also the order of arrival.
    by_item: BTreeMap<Position, Time>,
    /// The item number, by lane.
    items: Vec<Option<u64>>,
}

impl Deadlines {
    pub(super) fn new(wait: u64) -> Self {
        Deadlines { wait, by_item: BTreeMap::new(), items: Vec::new() }
    }

    /// Sets which item of a lane is the first that was never sent.
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
            && let Some(deadline) = self.of(fresh)
        {
            self.by_item.insert((fresh.first(), at), deadline);
        }
    }

    /// The deadline of an item, if it was never sent.
    pub(super) fn of(&self, segment: &Segment) -> Option<Time> {
        let is_fresh = segment.attempt() == 1;
        segment.arrival().checked_add(self.wait.into()).filter(|_| is_fresh)
    }

    pub(super) fn first(&self) -> Option<Time> {
        self.by_item.first_key_value().map(|(_, &deadline)| deadline)
    }

    /// The lanes whose deadlines are no later than `now`, in input order.
    pub(super) fn until(&self, now: Time) -> impl Iterator<Item = (Time, usize)> {
        let all = self.by_item.iter().map(|(&(_, at), &deadline)| (deadline, at));
        all.take_while(move |(deadline, _)| *deadline <= now)
    }
}
