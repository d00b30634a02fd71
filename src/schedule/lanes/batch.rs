//! How items are put together into one release. Nothing else opens, extends or closes one.

use std::rc::Rc;

use crate::config::BatchSize;
use crate::gate::BatchTerms;
use crate::source::{ArgumentError, Capacity, Items};
use crate::time::Time;

/// Forms releases out of items that wait in a lane.
pub(in crate::schedule) struct Batcher {
    batch: BatchSize,
    /// What the gate says of batches.
    terms: BatchTerms,
    /// What the sink takes.
    capacity: Capacity,
    /// A batch was too long for the system: no more items than these.
    shrunk: u64,
    /// A batch took so long to form that its slot was over: for now, no more items than these.
    timely: u64,
    /// When the input ended.
    ended: Option<Time>,
}

/// What a lane would release next.
#[derive(Clone, Debug)]
pub(in crate::schedule) struct Open {
    pub(in crate::schedule) items: u64,
    /// When it was complete, without regard to what was released before.
    pub(in crate::schedule) since: Time,
    /// What it costs under each limit.
    pub(in crate::schedule) costs: Rc<[u64]>,
    /// Its room on a command line.
    weight: usize,
    /// When it closes by itself: it is full, has lingered long enough, or the input has ended.
    closes: Option<Time>,
    /// Nothing can join any more.
    is_full: bool,
    /// A slot is booked for what it costs: nothing joins, whatever happens.
    is_fixed: bool,
}

impl Open {
    /// Lets nothing join any more.
    pub(in crate::schedule) fn fixed(self) -> Self {
        Open { is_full: true, is_fixed: true, ..self }
    }

    pub(in crate::schedule) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// It is complete at an instant, whatever comes after that.
    fn close(&mut self, at: Time, front: &Items) {
        self.closes = Some(at);
        self.since = at.max(front.segment.not_before());
    }
}

impl Batcher {
    pub(in crate::schedule) fn new(batch: BatchSize, terms: BatchTerms) -> Self {
        Batcher {
            batch,
            terms,
            capacity: Capacity::UNLIMITED,
            shrunk: u64::MAX,
            timely: u64::MAX,
            ended: None,
        }
    }

    pub(in crate::schedule) fn set_terms(&mut self, terms: BatchTerms) {
        self.terms = terms;
    }

    /// Whether what a batch costs depends on what is in it.
    pub(in crate::schedule) fn sums_costs(&self) -> bool {
        self.forms_batches() && self.terms.sums.contains(&true)
    }

    /// Whether it has to be known before its release what joins a batch then.
    pub(in crate::schedule) fn composes_ahead(&self) -> bool {
        self.terms.is_ahead && self.sums_costs() && !self.lingers()
    }

    pub(in crate::schedule) fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
    }

    pub(in crate::schedule) fn has_vacancy(&self) -> bool {
        self.capacity.vacancies > 0
    }

    /// The sink takes only items before the one of this number.
    pub(in crate::schedule) fn before(&self) -> u64 {
        self.capacity.before
    }

    /// How many items wait, and what they cost a limit in the batches they would make.
    pub(in crate::schedule) fn cost_of<'a>(
        &self,
        waiting: impl Iterator<Item = &'a Items>,
        limit: usize,
    ) -> (u64, u64) {
        let is_summed = self.terms.sums.get(limit).is_some_and(|&sums| sums);
        let (mut count, mut cost) = (0u64, 0u64);
        for items in waiting {
            count += items.segment.items();
            cost = cost.saturating_add(items.charge.costs[limit].saturating_mul(items.segment.items()));
        }
        match is_summed {
            true => (count, cost),
            false => (count, cost.div_ceil(self.most_items())),
        }
    }

    /// Why an item can never be given to a command, if so.
    pub(in crate::schedule) fn argument_error(&self, item: &[u8]) -> Option<ArgumentError> {
        self.capacity.argument_error(item)
    }

    /// Whether items become arguments.
    pub(in crate::schedule) fn fills_arguments(&self) -> bool {
        self.capacity.fills_arguments()
    }

    /// A batch of this number of items was too long for the system.
    pub(in crate::schedule) fn shrink(&mut self, items: u64) {
        self.shrunk = (items / 2).max(1);
    }

    /// A batch of this number of items was formed too late for its slot. If that is as it took so long, a smaller one
    /// may not be.
    pub(in crate::schedule) fn was_late(&mut self, items: u64) {
        self.timely = (items / 2).max(1);
    }

    /// A batch was formed in time.
    pub(in crate::schedule) fn was_timely(&mut self) {
        self.timely = self.timely.saturating_mul(2);
    }

    /// The input has ended. What waits has to be composed anew.
    pub(in crate::schedule) fn end(&mut self, at: Time) {
        self.ended = Some(at);
    }

    pub(in crate::schedule) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The most items that one release is to carry.
    pub(in crate::schedule) fn most_items(&self) -> u64 {
        self.batch.items.get()
    }

    pub(in crate::schedule) fn forms_batches(&self) -> bool {
        self.most_items() > 1
    }

    /// Whether a batch closes by itself, apart from its release.
    pub(in crate::schedule) fn lingers(&self) -> bool {
        self.batch.linger.is_some()
    }

    /// What begins with `front`, with others `behind` it that may join. Without a time to linger, they join at the
    /// release. `filled` is when as many had come as a batch can hold.
    pub(in crate::schedule) fn open<'a>(
        &self,
        front: &Items,
        behind: impl IntoIterator<Item = &'a Items>,
        filled: Option<Time>,
    ) -> Open {
        let arrival = front.segment.arrival();
        let mut open = Open {
            items: 1,
            since: arrival.max(front.segment.not_before()),
            costs: Rc::clone(&front.charge.costs),
            weight: self.weight(front),
            closes: None,
            is_full: !self.forms_batches(),
            is_fixed: false,
        };
        if let Some(linger) = self.batch.linger {
            let lingered = arrival.checked_add(linger.into()).unwrap_or(Time(u64::MAX));
            let closes = [filled, self.ended].into_iter().flatten().fold(lingered, Time::min);
            open.close(closes, front);
            self.join(&mut open, front, front, 1, &mut |costs| self.ever_admits(costs));
            for items in behind {
                if open.is_full || items.segment.arrival() > closes {
                    open.is_full = true;
                    break;
                }
                self.join_ahead(&mut open, front, items);
            }
        }
        open
    }

    /// `items` have joined the lane of `front`, which now holds `total` of them: do they join what is `open`?
    pub(in crate::schedule) fn extend(&self, open: &mut Open, front: &Items, items: &Items, total: u64) {
        let Some(closes) = open.closes else { return };
        if items.segment.arrival() > closes {
            open.is_full = true;
        }
        self.join_ahead(open, front, items);
        if total >= self.most_items() {
            open.close(closes.min(items.segment.arrival()), front);
        }
    }

    /// Lets `items` join what is `open` before its release, as far as they may.
    pub(in crate::schedule) fn join_ahead(&self, open: &mut Open, front: &Items, items: &Items) {
        self.join(open, front, items, 0, &mut |costs| self.ever_admits(costs));
    }

    /// What is `open` as it is released, with all of `waiting` that is allowed as well.
    pub(in crate::schedule) fn complete<'a>(
        &self,
        open: &Open,
        mut waiting: impl Iterator<Item = &'a Items>,
        mut allows: impl FnMut(&[u64]) -> bool,
    ) -> Open {
        let mut open = open.clone();
        let Some(front) = waiting.next().filter(|_| !open.is_full && open.closes.is_none()) else {
            return open;
        };
        self.join(&mut open, front, front, 1, &mut allows);
        for items in waiting {
            if open.is_full {
                break;
            }
            self.join(&mut open, front, items, 0, &mut allows);
        }
        open
    }

    /// What is `open` as it would be released next, if its costs were allowed then.
    pub(in crate::schedule) fn composed<'a>(
        &self,
        open: &Open,
        waiting: impl Iterator<Item = &'a Items>,
    ) -> Open {
        self.complete(open, waiting, |costs| self.ever_admits(costs))
    }

    /// Lets as many of `items` as may be join what is `open`; the first `joined` of them have.
    fn join(
        &self,
        open: &mut Open,
        front: &Items,
        items: &Items,
        joined: u64,
        allows: &mut dyn FnMut(&[u64]) -> bool,
    ) {
        open.is_full |= !items.may_join(front);
        let added = &items.charge.costs;
        let grows = self.grows_by(added);
        let most = self.most_items().min(self.shrunk).min(self.timely).min(self.capacity.items);
        let mut left = items.segment.items() - joined;
        if !grows && self.capacity.line.is_none() {
            let count = left.min(most.saturating_sub(open.items));
            (open.items, left) = (open.items + if open.is_full { 0 } else { count }, left - count);
        }
        while left > 0 && !open.is_full {
            let weight = open.weight.saturating_add(self.weight(items));
            let sum = if grows { self.sum(&open.costs, added) } else { Rc::clone(&open.costs) };
            let fits = open.items < most && self.capacity.holds(weight);
            if !fits || (grows && !allows(&sum)) {
                open.is_full = true;
                break;
            }
            (open.items, open.weight, open.costs) = (open.items + 1, weight, sum);
            left -= 1;
        }
        open.is_full |= left != 0;
    }

    /// Whether a batch costs more with an item of these costs.
    fn grows_by(&self, added: &[u64]) -> bool {
        self.terms.sums.iter().zip(added).any(|(&sums, &cost)| sums && cost > 0)
    }

    /// What releases cost together, for each limit that charges a sum.
    pub(in crate::schedule) fn sum(&self, costs: &[u64], added: &[u64]) -> Rc<[u64]> {
        let pairs = costs.iter().zip(added).zip(&self.terms.sums);
        pairs.map(|((&cost, &added), &sums)| if sums { cost.saturating_add(added) } else { cost }).collect()
    }

    fn ever_admits(&self, costs: &[u64]) -> bool {
        costs.iter().zip(&self.terms.most).all(|(&cost, most)| most.is_none_or(|most| cost <= most))
    }

    fn weight(&self, items: &Items) -> usize {
        self.capacity.weight(items.segment.bytes().len())
    }
}
