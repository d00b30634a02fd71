//! Items that wait their turn, first in, first out, and what of them would be released next.

use std::collections::VecDeque;

use super::batch::{Batcher, Open};
use crate::source::{Delimiter, Items, Segments};
use crate::time::Time;

/// A queue of items. All go by the same keys, unless the order of the input is kept.
#[derive(Default)]
pub(in crate::schedule) struct Lane {
    waiting: VecDeque<Joined>,
    items: u64,
    /// What would be released next, if anything waits.
    open: Option<Open>,
    /// The same with all that joins it at its release, if a slot is booked for what that costs.
    ahead: Option<Open>,
    /// When the last release happened.
    previous: Time,
    /// The next release is delayed until then, and not again.
    delay: Option<Time>,
    /// Nothing is released before that: a server asked for it, or an item that backs off keeps its place.
    hold: Time,
}

/// Items that joined together.
struct Joined {
    items: Items,
    /// How many items of the lane are before these, counted from anywhere.
    before: i64,
}

impl Joined {
    fn first(&self) -> u64 {
        self.items.segment.first()
    }

    fn after(&self) -> i64 {
        self.before + self.items.segment.items().cast_signed()
    }
}

impl Lane {
    /// An empty one, of which nothing is released before `until`.
    pub(in crate::schedule) fn held(until: Time) -> Self {
        Lane { hold: until, ..Lane::default() }
    }

    /// Releases nothing before `until`.
    pub(in crate::schedule) fn hold(&mut self, until: Time) {
        self.hold = self.hold.max(until);
    }

    pub(in crate::schedule) fn push(&mut self, items: Items, batcher: &Batcher) {
        self.hold = self.hold.max(items.segment.not_before());
        self.items += items.segment.items();
        let before = self.waiting.back().map_or(0, Joined::after);
        if let (Some(open), Some(Joined { items: front, .. })) = (&mut self.open, self.waiting.front()) {
            batcher.extend(open, front, &items, self.items);
            self.ahead.iter_mut().for_each(|ahead| batcher.join_ahead(ahead, front, &items));
            self.waiting.push_back(Joined { items, before });
        } else {
            self.waiting.push_back(Joined { items, before });
            self.reopen(batcher);
        }
    }

    /// Puts items in their places among those that wait. Nothing is released before they may go.
    pub(in crate::schedule) fn requeue(&mut self, items: Vec<Items>, batcher: &Batcher) {
        self.items += items.iter().map(|items| items.segment.items()).sum::<u64>();
        self.hold = items.iter().map(|items| items.segment.not_before()).fold(self.hold, Time::max);
        let last = items.iter().map(|items| items.segment.first()).max();
        let end = self.waiting.partition_point(|part| Some(part.first()) < last);
        let mut front: Vec<_> = self.waiting.drain(..end).map(|part| part.items).chain(items).collect();
        front.sort_by_key(|items| items.segment.first());
        let mut before = self.waiting.front().map_or(0, |part| part.before);
        for items in front.into_iter().rev() {
            before -= items.segment.items().cast_signed();
            self.waiting.push_front(Joined { items, before });
        }
        self.reopen(batcher);
    }

    /// Until when nothing is released, whatever the limits say.
    pub(in crate::schedule) fn held_until(&self) -> Time {
        self.hold
    }

    /// Delays the next release.
    pub(in crate::schedule) fn delay(&mut self, until: Time) {
        self.delay = Some(until);
    }

    /// Whether the next release was delayed, or is.
    pub(in crate::schedule) fn is_delayed(&self) -> bool {
        self.delay.is_some()
    }

    /// Until when the next release is delayed.
    pub(in crate::schedule) fn delayed_until(&self) -> Time {
        self.delay.unwrap_or_default()
    }

    /// Composes anew what would be released next.
    pub(in crate::schedule) fn reopen(&mut self, batcher: &Batcher) {
        let filled = self.arrival_of(batcher.most_items());
        self.open = self.front().map(|front| batcher.open(front, self.waiting().skip(1), filled));
        let open = self.open.as_ref().filter(|_| batcher.composes_ahead());
        self.ahead = open.map(|open| batcher.composed(open, self.waiting()));
    }

    /// When the item with this place in the lane, counted from 1, arrived.
    fn arrival_of(&self, place: u64) -> Option<Time> {
        let front = self.waiting.front().filter(|_| place <= self.items)?;
        let before = front.before + place.cast_signed();
        let at = self.waiting.partition_point(|part| part.after() < before);
        Some(self.waiting.get(at)?.items.segment.arrival())
    }

    /// What would be released next, if its costs were allowed then.
    pub(in crate::schedule) fn composed(&self) -> Option<&Open> {
        self.ahead.as_ref().or(self.open.as_ref())
    }

    /// Lets nothing more join what would be released next.
    pub(in crate::schedule) fn fix(&mut self) {
        self.open = self.composed().cloned().map(Open::fixed);
        self.ahead = None;
    }

    /// Whether nothing joins what would be released next, whatever happens.
    pub(in crate::schedule) fn is_fixed(&self) -> bool {
        self.open.as_ref().is_some_and(Open::is_fixed)
    }

    /// The items in front.
    pub(in crate::schedule) fn front(&self) -> Option<&Items> {
        self.waiting.front().map(|part| &part.items)
    }

    pub(in crate::schedule) fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    pub(in crate::schedule) fn waiting(&self) -> impl Iterator<Item = &Items> {
        self.waiting.iter().map(|part| &part.items)
    }

    pub(in crate::schedule) fn items(&self) -> u64 {
        self.items
    }

    /// In how many parts all that waits is kept.
    pub(in crate::schedule) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many items from the front on are charged the same, up to `most`.
    pub(in crate::schedule) fn alike(&self, most: u64) -> u64 {
        let Some(front) = self.front() else { return 0 };
        let mut count = 0;
        for items in self.waiting().take_while(|items| items.charge == front.charge) {
            count += items.segment.items();
            if count >= most {
                return most;
            }
        }
        count
    }

    /// Since when what would be released next has been next in line.
    pub(in crate::schedule) fn since(&self) -> Option<Time> {
        let since = self.open.as_ref()?.since;
        Some(since.max(self.previous).max(self.hold))
    }

    pub(in crate::schedule) fn previous(&self) -> Time {
        self.previous
    }

    /// Takes out the first `count` items, which leave at `at`.
    pub(in crate::schedule) fn take(
        &mut self,
        count: u64,
        at: Time,
        delimiter: &Delimiter,
        batcher: &Batcher,
    ) -> Segments {
        self.previous = at;
        self.delay = None;
        let mut left = count;
        let mut taken = Segments::new();
        while let Some(part) = self.waiting.front_mut().filter(|_| left > 0) {
            if part.items.segment.items() > left {
                taken.push(part.items.segment.split_off(left, delimiter));
                part.before += left.cast_signed();
                left = 0;
            } else if let Some(Joined { items, .. }) = self.waiting.pop_front() {
                left -= items.segment.items();
                taken.push(items.segment);
            }
        }
        self.items -= count;
        self.reopen(batcher);
        taken
    }

    /// The first release was over at `at`, later than it was let go.
    pub(in crate::schedule) fn released(&mut self, at: Time) {
        self.previous = self.previous.max(at);
    }

    /// Gives up what waits to be sent for the first time.
    pub(in crate::schedule) fn take_fresh(&mut self, batcher: &Batcher) -> Vec<Items> {
        let (fresh, again): (Vec<_>, _) =
            self.clear().into_iter().partition(|items| items.segment.attempt() == 1);
        self.requeue(again, batcher);
        fresh
    }

    /// Gives up all that waits, and the memory of it.
    pub(in crate::schedule) fn clear(&mut self) -> Vec<Items> {
        self.items = 0;
        (self.open, self.ahead) = (None, None);
        std::mem::take(&mut self.waiting).into_iter().map(|part| part.items).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use fastrand::Rng;

    use super::*;
    use crate::charge::Charge;
    use crate::config::BatchSize;
    use crate::gate::BatchTerms;
    use crate::source::{Block, Segment};

    /// So many items, of which the first has this number; its arrival is as late as its number.
    fn items(first: u64, count: u64) -> Items {
        let block = Block::of(b"x\n".repeat(usize::try_from(count).unwrap()), count, Time(first));
        let charge = Charge { costs: Rc::default(), keys: Rc::default() };
        Items { segment: Segment::new(block, first, 0), charge }
    }

    /// The arrivals of all items, one by one.
    fn arrivals(lane: &Lane) -> Vec<Time> {
        let arrivals =
            |items: &Items| vec![items.segment.arrival(); usize::try_from(items.segment.items()).unwrap()];
        lane.waiting().flat_map(arrivals).collect()
    }

    #[test]
    fn places_are_found_whatever_joined_left_or_came_back() {
        let batcher =
            Batcher::new(BatchSize { items: 3.try_into().unwrap(), linger: None }, BatchTerms::default());
        let delimiter = Delimiter::new(b"\n");
        for seed in 0..200 {
            let (mut random, mut lane) = (Rng::with_seed(seed), Lane::default());
            let (mut next, mut out) = (1, Vec::new());
            for _ in 0..40 {
                match random.u8(..3) {
                    0 => {
                        let count = random.u64(1..5);
                        lane.push(items(next, count), &batcher);
                        next += count;
                    }
                    1 => {
                        let count = random.u64(0..=lane.items.min(6));
                        out.extend(lane.take(count, Time(0), &delimiter, &batcher));
                    }
                    _ => {
                        let charge = items(1, 1).charge;
                        random.shuffle(&mut out);
                        let again = out.drain(..random.usize(0..=out.len()));
                        let again = again.map(|segment| Items { segment, charge: charge.clone() }).collect();
                        lane.requeue(again, &batcher);
                    }
                }
                let arrivals = arrivals(&lane);
                assert!(
                    arrivals.is_sorted() && arrivals.len() as u64 == lane.items,
                    "seed {seed}: {arrivals:?}"
                );
                for (place, arrival) in (1..).zip(arrivals.iter().copied().map(Some).chain([None])) {
                    assert_eq!(lane.arrival_of(place), arrival, "seed {seed}, place {place}: {arrivals:?}");
                }
            }
        }
    }
}
