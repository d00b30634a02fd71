//! Forms releases of one or more items. Nothing else opens, extends or closes a release.

use std::rc::Rc;

use crate::config::BatchSize;
use crate::gate::BatchTerms;
use crate::source::{Capacity, Items};
use crate::time::Time;

/// Decides whether the costs of a batch are allowed.
type Allows<'a> = &'a mut dyn FnMut(&[u64]) -> bool;

/// Forms releases from the items that wait in a lane.
pub(crate) struct Batcher {
    batch: BatchSize,
    pub(crate) terms: BatchTerms,
    pub(crate) capacity: Capacity,
    /// The most items, after a batch was too long for the system.
    shrunk: u64,
    /// The most items for now, after a batch took so long to form that its slot had ended.
    timely: u64,
    /// The instant at which the input ended. All lanes must be reopened after this is set.
    pub(crate) ended: Option<Time>,
}

/// The next release of a lane, as far as it is formed.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) items: u64,
    /// The instant at which it is complete, regardless of earlier releases.
    pub(crate) eligible_at: Time,
    /// The cost under each limit.
    pub(crate) costs: Rc<[u64]>,
    /// The room it needs on a command line.
    weight: usize,
    /// The instant at which it closes of its own accord: nothing more fits, it has lingered long enough, or the input
    /// has ended. What arrives later does not join it.
    closes: Option<Time>,
    /// True if nothing can join any more.
    is_full: bool,
    /// True if a slot is booked for its costs, so nothing may join, whatever happens.
    pub(crate) is_fixed: bool,
}

impl Open {
    /// Lets nothing join any more.
    pub(crate) fn fixed(self) -> Self {
        Open { is_full: true, is_fixed: true, ..self }
    }

    /// True if it waits for items to join it.
    pub(crate) fn lingers(&self) -> bool {
        self.closes.is_some() && !self.is_full
    }

    /// Makes it complete at `at`, if it was to be later.
    pub(crate) fn complete_by(&mut self, at: Time, front: &Items) {
        self.eligible_at = self.eligible_at.min(at.max(front.segment.not_before()));
    }

    /// Lets nothing join any more, as of `at`.
    fn close(&mut self, at: Time, front: &Items) {
        self.is_full = true;
        if self.closes.is_some() {
            self.complete_by(at, front);
        }
    }
}

impl Batcher {
    pub(crate) fn new(batch: BatchSize, terms: BatchTerms) -> Self {
        Batcher {
            batch,
            terms,
            capacity: Capacity::UNLIMITED,
            shrunk: u64::MAX,
            timely: u64::MAX,
            ended: None,
        }
    }

    /// True if the cost of a batch depends on what is in it.
    pub(crate) fn sums_costs(&self) -> bool {
        self.forms_batches() && self.terms.sums.contains(&true)
    }

    /// True if slots are booked for the cost of a batch, so it must be known in advance what will join at its release.
    pub(crate) fn composes_ahead(&self) -> bool {
        self.terms.is_ahead && self.sums_costs() && !self.lingers()
    }

    /// The number of waiting items, and their cost under a limit in the batches they would form.
    pub(crate) fn cost_of<'a>(&self, waiting: impl Iterator<Item = &'a Items>, limit: usize) -> (u64, u64) {
        let is_summed = self.terms.sums.get(limit).is_some_and(|&sums| sums);
        let (mut count, mut cost) = (0u64, 0u64);
        for items in waiting {
            count += items.segment.items();
            cost = cost.saturating_add(items.charge.costs[limit].saturating_mul(items.segment.items()));
        }
        (count, if is_summed { cost } else { cost.div_ceil(self.most_items()) })
    }

    /// Notes that a batch of this number of items was too long for the system.
    pub(crate) fn shrink(&mut self, items: u64) {
        self.shrunk = (items / 2).max(1);
    }

    /// Notes that a batch of this number of items was formed too late for its slot. A smaller one may be in time.
    pub(crate) fn was_late(&mut self, items: u64) {
        self.timely = (items / 2).max(1);
    }

    /// Notes that a batch was formed in time.
    pub(crate) fn was_timely(&mut self) {
        self.timely = self.timely.saturating_mul(2);
    }

    pub(crate) fn most_items(&self) -> u64 {
        self.batch.items.get()
    }

    pub(crate) fn forms_batches(&self) -> bool {
        self.most_items() > 1
    }

    /// True if a batch may close before its release.
    pub(crate) fn lingers(&self) -> bool {
        self.batch.linger.is_some()
    }

    /// Opens a release with `front`, the first of those `waiting`. Others join at once if batches linger, otherwise at
    /// the release.
    pub(crate) fn open<'a>(&self, front: &Items, waiting: impl Iterator<Item = &'a Items>) -> Open {
        let arrival = front.segment.arrival();
        let mut open = Open {
            items: 1,
            eligible_at: arrival.max(front.segment.not_before()),
            costs: Rc::clone(&front.charge.costs),
            weight: self.weight(front),
            closes: None,
            is_full: false,
            is_fixed: false,
        };
        // A batch is tried again as a whole: even if less of it could go sooner, and it waits for nothing to join it.
        let is_again = front.segment.attempt() > 1;
        if let Some(linger) = self.batch.linger.filter(|_| !is_again) {
            let lingered = arrival.saturating_add(linger);
            let closes = self.ended.map_or(lingered, |ended| ended.min(lingered));
            open.closes = Some(closes);
            open.eligible_at = closes.max(front.segment.not_before());
        }
        if !self.forms_batches() {
            open.close(arrival, front);
        }
        if self.lingers() || is_again {
            self.fill(&mut open, waiting, &mut |costs| self.ever_admits(costs));
            open.is_full |= is_again;
        }
        open
    }

    /// Extends `open` by `items`, as far as they may join. They have joined the lane of `front`.
    pub(crate) fn extend(&self, open: &mut Open, front: &Items, items: &Items) {
        if open.closes.is_some() {
            self.join_ahead(open, front, items);
        }
    }

    /// Extends `open` by `items` before its release, as far as they may join.
    pub(crate) fn join_ahead(&self, open: &mut Open, front: &Items, items: &Items) {
        self.join(open, front, items, 0, &mut |costs| self.ever_admits(costs));
    }

    /// Completes `open` for its release, with all of `waiting` that may join.
    pub(crate) fn complete<'a>(
        &self,
        open: &Open,
        waiting: impl Iterator<Item = &'a Items>,
        mut allows: impl FnMut(&[u64]) -> bool,
    ) -> Open {
        let mut open = open.clone();
        if !open.is_full && open.closes.is_none() {
            self.fill(&mut open, waiting, &mut allows);
        }
        open
    }

    /// As [`Batcher::complete`], allowing any costs that are ever admitted.
    pub(crate) fn composed<'a>(&self, open: &Open, waiting: impl Iterator<Item = &'a Items>) -> Open {
        self.complete(open, waiting, |costs| self.ever_admits(costs))
    }

    /// Extends `open` by all of `waiting` that may join. The first of them already has.
    fn fill<'a>(&self, open: &mut Open, waiting: impl Iterator<Item = &'a Items>, allows: Allows) {
        let mut waiting = waiting.peekable();
        let Some(&front) = waiting.peek() else { return };
        for (place, items) in waiting.enumerate() {
            self.join(open, front, items, u64::from(place == 0), allows);
            if open.is_full {
                break;
            }
        }
    }

    /// Extends `open` by as many of `items` as may join. The first `joined` already have.
    fn join(&self, open: &mut Open, front: &Items, items: &Items, joined: u64, allows: Allows) {
        let arrival = items.segment.arrival();
        let is_late = open.closes.is_some_and(|closes| arrival > closes);
        if open.is_full || is_late || !items.may_join(front) {
            return open.close(arrival, front);
        }
        let added = &items.charge.costs;
        let grows = self.terms.sums.iter().zip(&**added).any(|(&sums, &cost)| sums && cost > 0);
        let most = self.most_items().min(self.shrunk).min(self.timely).min(self.capacity.items);
        let mut left = items.segment.items() - joined;
        if !grows && self.capacity.line.is_none() {
            let count = left.min(most.saturating_sub(open.items));
            (open.items, left) = (open.items + count, left - count);
        }
        while left > 0 {
            let weight = open.weight.saturating_add(self.weight(items));
            let sum = if grows { self.terms.sum(&open.costs, added) } else { Rc::clone(&open.costs) };
            let fits = open.items < most && self.capacity.holds(weight);
            if !fits || (grows && !allows(&sum)) {
                break;
            }
            (open.items, open.weight, open.costs) = (open.items + 1, weight, sum);
            left -= 1;
        }
        if left > 0 || open.items >= most {
            open.close(arrival, front);
        }
    }

    fn ever_admits(&self, costs: &[u64]) -> bool {
        costs.iter().zip(&self.terms.most).all(|(&cost, most)| most.is_none_or(|most| cost <= most))
    }

    fn weight(&self, items: &Items) -> usize {
        self.capacity.weight(items.segment.bytes().len())
    }
}
