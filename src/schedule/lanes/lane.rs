//! A queue of waiting items, first in, first out, and its next release.

use std::collections::VecDeque;

use super::batch::{Batcher, Open};
use crate::source::{Delimiter, Items, Segment, Segments};
use crate::time::Time;

/// A queue of items. All have the same keys, unless input order is kept.
#[derive(Default)]
pub(crate) struct Lane {
    waiting: VecDeque<Items>,
    /// The next release; `None` if nothing waits.
    pub(super) open: Option<Open>,
    /// The next release with all that will join it at its release, if slots are booked for its costs.
    ahead: Option<Open>,
    /// The instant of the last release, or of the arrival at an empty lane if that is what counts.
    pub(super) previous: Time,
    /// The first item that gave way to a newer one since the last release; the newest has its turn.
    displaced: Option<u64>,
    /// The instant until which the next release is delayed, once.
    pub(super) delay: Option<Time>,
    /// The instant from which the next release waits for no more items, as none could be read.
    flushed: Option<Time>,
    /// Nothing is released before this instant, whatever the limits say: a server asked for a pause.
    pub(super) hold: Time,
}

impl Lane {
    pub(crate) fn push(&mut self, items: Items, batcher: &Batcher) {
        if let Some((open, front)) = self.open.as_mut().zip(self.waiting.front()) {
            batcher.extend(open, front, &items);
            self.ahead.iter_mut().for_each(|ahead| batcher.join_ahead(ahead, front, &items));
            self.waiting.push_back(items);
        } else {
            self.waiting.push_back(items);
            self.reopen(batcher);
        }
    }

    /// Lets none of its items become next in line before `at`.
    pub(super) fn start_from(&mut self, at: Time) {
        self.previous = at.max(self.previous);
    }

    /// True if an item waits that follows these in the input.
    pub(super) fn is_ahead_of(&self, segment: &Segment) -> bool {
        self.waiting.back().is_some_and(|last| last.segment.first() > segment.first())
    }

    /// Puts items back in their places among those that wait.
    pub(crate) fn requeue(&mut self, mut items: Vec<Items>, batcher: &Batcher) {
        // The last one first: what was just taken goes back to the front one by one, without moving the others.
        items.sort_by_key(|items| items.segment.first());
        for items in items.into_iter().rev() {
            let first = items.segment.first();
            let place = self.waiting.partition_point(|waiting| waiting.segment.first() < first);
            self.waiting.insert(place, items);
        }
        self.reopen(batcher);
    }

    /// Forms the next release again from what waits.
    pub(crate) fn reopen(&mut self, batcher: &Batcher) {
        self.open = self.front().map(|front| batcher.open(front, self.waiting()));
        self.flushed.into_iter().for_each(|at| self.flush(at));
        let open = self.open.as_ref().filter(|_| batcher.composes_ahead());
        self.ahead = open.map(|open| batcher.composed(open, self.waiting()));
    }

    /// True if the next release waits for more items, unless it has waited long enough.
    pub(super) fn lingers(&self) -> bool {
        self.flushed.is_none() && self.open.as_ref().is_some_and(Open::lingers)
    }

    /// Makes the next release wait for no more items from `now` on. Those that come before it leaves still join.
    pub(super) fn flush(&mut self, now: Time) {
        if let Some((open, front)) = self.open.as_mut().zip(self.waiting.front()) {
            self.flushed = Some(now);
            open.complete_by(now, front);
        }
    }

    /// The next release with all that will join it, if its costs are allowed.
    pub(crate) fn composed(&self) -> Option<&Open> {
        self.ahead.as_ref().or(self.open.as_ref())
    }

    /// Lets nothing more join the next release.
    pub(crate) fn fix(&mut self) {
        self.open = self.ahead.take().or(self.open.take()).map(Open::fixed);
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_fixed)
    }

    pub(crate) fn front(&self) -> Option<&Items> {
        self.waiting.front()
    }

    /// The number by which it is the lane's turn: that of its front, or of what the front has replaced.
    pub(super) fn turn(&self) -> Option<u64> {
        let front = self.front()?.segment.first();
        Some(self.displaced.map_or(front, |displaced| displaced.min(front)))
    }

    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = &Items> {
        self.waiting.iter()
    }

    /// The first item that was never sent, and its place. Others may be before it.
    pub(crate) fn fresh(&self) -> Option<(usize, &Items)> {
        self.waiting.iter().enumerate().find(|(_, items)| items.segment.attempt() == 1)
    }

    /// The items at the front that are charged the same, and those after them, up to `most` items with the same keys:
    /// the first of each such run, with the number of items in it and before it.
    pub(crate) fn runs(&self, most: u64) -> impl Iterator<Item = (&Items, u64, u64)> {
        let (mut parts, mut before) = (self.waiting().peekable(), 0);
        let keys = self.front().map(|front| &front.charge.keys);
        std::iter::from_fn(move || {
            let first = parts.next_if(|part| before < most && Some(&part.charge.keys) == keys)?;
            let mut items = first.segment.items();
            while let Some(next) = parts.next_if(|part| before + items < most && part.charge == first.charge)
            {
                items += next.segment.items();
            }
            let run = (first, items.min(most - before), before);
            before += items;
            Some(run)
        })
    }

    /// The number of items in the next release, as far as it is formed.
    pub(crate) fn formed(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.items)
    }

    /// The end of the delay of the next release, if it is after `now`, whether or not the limits allow the release.
    pub(crate) fn delayed_until(&self, now: Time) -> Option<Time> {
        self.delay.filter(|until| *until > now)
    }

    /// True if nothing is released at `now`, as a server asked for a pause.
    pub(crate) fn is_held(&self, now: Time) -> bool {
        self.hold > now
    }

    /// The instant at which the next release became next in line and, if later, the end of a hold.
    pub(crate) fn eligible_at(&self) -> Option<Time> {
        Some(self.waits_from()?.max(self.hold))
    }

    /// The instant at which the next release became next in line.
    pub(crate) fn waits_from(&self) -> Option<Time> {
        Some(self.open.as_ref()?.eligible_at.max(self.previous))
    }

    /// Takes out `count` items from `place` on. The last release was at `at`.
    pub(crate) fn take(
        &mut self,
        place: usize,
        count: u64,
        at: Time,
        delimiter: &Delimiter,
        batcher: &Batcher,
    ) -> Segments {
        self.previous = at;
        if place == 0 {
            (self.delay, self.displaced, self.flushed) = (None, None, None);
        }
        let mut left = count;
        let mut taken = Segments::new();
        while let Some(next) = self.waiting.get_mut(place).filter(|_| left > 0) {
            if next.segment.items() > left {
                taken.push(next.segment.split_off(left, delimiter));
                break;
            }
            left -= next.segment.items();
            taken.extend(self.waiting.remove(place).map(|items| items.segment));
        }
        self.reopen(batcher);
        taken
    }

    /// Takes out the items that were never sent, as a newer one takes their place.
    pub(crate) fn take_fresh(&mut self, batcher: &Batcher) -> Vec<Items> {
        let displaced = self.displaced;
        let (fresh, again): (Vec<_>, _) =
            self.clear().into_iter().partition(|items| items.segment.attempt() == 1);
        self.displaced = displaced.or(fresh.first().map(|items| items.segment.first()));
        self.requeue(again, batcher);
        fresh
    }

    /// Takes out all items, and frees the memory.
    pub(crate) fn clear(&mut self) -> Vec<Items> {
        (self.open, self.ahead, self.displaced, self.flushed) = (None, None, None, None);
        std::mem::take(&mut self.waiting).into()
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
    use crate::source::Segment;

    /// Items numbered from `first`, which also is the instant of their arrival.
    fn items(first: u64, count: u64) -> Items {
        let block = Segment::of(b"x\n".repeat(usize::try_from(count).unwrap()), count, Time(first));
        let charge = Charge { costs: Rc::default(), keys: Rc::default() };
        Items { segment: block.at(first, 0), charge }
    }

    /// The arrival of each item.
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
            let (mut next, mut out) = (1, Vec::<Segment>::new());
            for _ in 0..40 {
                match random.u8(..3) {
                    0 => {
                        let count = random.u64(1..5);
                        lane.push(items(next, count), &batcher);
                        next += count;
                    }
                    1 => {
                        let count = random.u64(0..=(arrivals(&lane).len() as u64).min(6));
                        out.extend(lane.take(0, count, Time(0), &delimiter, &batcher));
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
                let items = next - 1 - out.iter().map(Segment::items).sum::<u64>();
                assert!(arrivals.is_sorted() && arrivals.len() as u64 == items, "seed {seed}: {arrivals:?}");
            }
        }
    }
}
