//! Items that wait their turn, first in, first out, and what of them would be released next.

use std::collections::VecDeque;

use super::batch::{Former, Open};
use crate::source::{Delimiter, Items, Segment};
use crate::time::Time;

/// A queue of items. All go by the same keys, unless the order of the input is kept.
#[derive(Default)]
pub(super) struct Lane {
    waiting: VecDeque<Items>,
    /// How many items wait.
    items: u64,
    /// What would be released next, if anything waits.
    open: Option<Open>,
    /// When the last release happened.
    previous: Time,
    /// Nothing is released before that: a server asked for it, or an item that backs off keeps its place.
    hold: Time,
}

impl Lane {
    pub(super) fn push(&mut self, items: Items, former: &Former) {
        self.hold = self.hold.max(items.segment.not_before());
        self.items += items.segment.items();
        match (&mut self.open, self.waiting.front()) {
            (Some(open), Some(front)) => former.extend(open, front, &items, self.items),
            _ => self.open = Some(former.open(&items, [])),
        }
        self.waiting.push_back(items);
    }

    /// Puts items in their place among those that wait. Nothing is released before they may go.
    pub(super) fn requeue(&mut self, items: Items, former: &Former) {
        self.hold = self.hold.max(items.segment.not_before());
        self.items += items.segment.items();
        let at = self.waiting.partition_point(|other| other.segment.first() < items.segment.first());
        self.waiting.insert(at, items);
        self.reopen(former);
    }

    /// Until when nothing is released, whatever the limits say.
    pub(super) fn held_until(&self) -> Time {
        self.hold
    }

    /// Composes anew what would be released next.
    pub(super) fn reopen(&mut self, former: &Former) {
        self.open = self.waiting.front().map(|front| former.open(front, self.waiting.range(1..)));
    }

    /// What would be released at `now`, if its costs were allowed then.
    pub(super) fn composed(&self, now: Time, former: &Former) -> Option<Open> {
        Some(former.composed(self.open.as_ref()?, self.waiting.iter(), now))
    }

    /// Lets nothing more join what would be released at `now`.
    pub(super) fn fix(&mut self, now: Time, former: &Former) {
        self.open = self.composed(now, former).map(Open::fixed);
    }

    /// Whether nothing joins what would be released next, whatever happens.
    pub(super) fn is_fixed(&self) -> bool {
        self.open.as_ref().is_some_and(Open::is_fixed)
    }

    /// The items in front.
    pub(super) fn front(&self) -> Option<&Items> {
        self.waiting.front()
    }

    /// What would be released next.
    pub(super) fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    /// All that waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Items> {
        self.waiting.iter()
    }

    /// In how many parts all that waits is kept.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many items from the front on are charged the same, up to `most`.
    pub(super) fn alike(&self, most: u64) -> u64 {
        let Some(front) = self.front() else { return 0 };
        let mut count = 0;
        for items in self.waiting.iter().take_while(|items| items.charge == front.charge) {
            count += items.segment.items();
            if count >= most {
                return most;
            }
        }
        count
    }

    /// Since when what would be released next has been next in line.
    pub(super) fn since(&self) -> Option<Time> {
        let since = self.open.as_ref()?.since;
        Some(since.max(self.previous).max(self.hold))
    }

    /// When the last release happened.
    pub(super) fn previous(&self) -> Time {
        self.previous
    }

    /// Takes out the first `count` items, which leave at `at`.
    pub(super) fn take(
        &mut self,
        count: u64,
        at: Time,
        delimiter: &Delimiter,
        former: &Former,
    ) -> Vec<Segment> {
        self.previous = at;
        let mut left = count;
        let mut taken = Vec::new();
        while let Some(items) = self.waiting.front_mut().filter(|_| left > 0) {
            if items.segment.items() > left {
                taken.push(items.segment.split_off(left, delimiter));
                left = 0;
            } else if let Some(items) = self.waiting.pop_front() {
                left -= items.segment.items();
                taken.push(items.segment);
            }
        }
        self.items -= count;
        self.reopen(former);
        taken
    }

    /// The first release was over at `at`, later than it was let go.
    pub(super) fn released(&mut self, at: Time) {
        self.previous = self.previous.max(at);
    }

    /// Gives up what waits to be sent for the first time.
    pub(super) fn take_fresh(&mut self, former: &Former) -> Vec<Items> {
        let (fresh, again): (Vec<_>, _) =
            self.waiting.drain(..).partition(|items| items.segment.attempt() == 1);
        self.waiting = again.into();
        self.items = self.waiting.iter().map(|items| items.segment.items()).sum();
        self.reopen(former);
        fresh
    }

    /// Gives up all that waits, and the memory of it.
    pub(super) fn clear(&mut self) -> VecDeque<Items> {
        self.items = 0;
        self.open = None;
        std::mem::take(&mut self.waiting)
    }
}
