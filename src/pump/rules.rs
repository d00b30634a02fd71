//! What a release of a lane asks of the limits, alone or as a batch.

use std::rc::Rc;

use super::lane::Lane;
use crate::charge::Charge;
use crate::config::{Batch, OnLimit, Rate};
use crate::limiter::{All, Claim, Verdict};
use crate::source::Parcel;
use crate::time::Time;

/// The limits and all that bears on how they are asked.
pub(super) struct Rules {
    pub(super) limits: All,
    pub(super) on_limit: OnLimit,
    pub(super) batch: Batch,
    /// Whether a batch is charged the sum of its items' costs, for each limit; otherwise it is charged as one item.
    sums: Vec<bool>,
    /// When the input ended.
    pub(super) ended: Option<Time>,
}

/// What a lane would release next.
pub(super) struct Next {
    pub(super) records: u64,
    pub(super) since: Time,
    pub(super) costs: Rc<[u64]>,
}

impl Rules {
    pub(super) fn new(rates: &[Rate], limits: All, on_limit: OnLimit, batch: Batch) -> Self {
        let mut rules = Rules { limits, on_limit, batch, sums: Vec::new(), ended: None };
        rules.set_sums(rates);
        rules
    }

    /// Whether what is in front of a lane goes as of its arrival or not at all. What is tried again did go, and waits.
    pub(super) fn judges(&self, front: &Parcel) -> bool {
        self.on_limit.never_waits() && front.attempt() == 1
    }

    pub(super) fn set_sums(&mut self, rates: &[Rate]) {
        self.sums = rates.iter().map(|rate| rate.cost.is_some()).collect();
    }

    /// When the batch in front of a lane is closed: it is full, has lingered long enough, or the input has ended.
    /// `None` if its release closes it.
    fn closes(&self, lane: &Lane) -> Option<Time> {
        let linger = self.batch.linger?;
        let first = lane.front()?.arrival();
        let lingered = first.checked_add(linger.into()).unwrap_or(Time(u64::MAX));
        let full = arrival(lane, self.batch.items.get());
        Some([full, self.ended].into_iter().flatten().fold(lingered, Time::min))
    }

    /// What decides when the lane's next release may happen: all of a batch that closes by itself, otherwise the
    /// item in front, which others may join.
    pub(super) fn next(&self, lane: &Lane) -> Option<Next> {
        let front = lane.front()?;
        let Some(closes) = self.closes(lane) else {
            let since = lane.since(front.arrival());
            return Some(Next { records: 1, since, costs: Rc::clone(&front.class().costs) });
        };
        let since = lane.since(closes);
        let (records, costs) = self.fill(lane, closes, since, |verdict| verdict != Verdict::Never);
        Some(Next { records, since, costs: costs.into() })
    }

    /// What is released at `now`, when `next` may be: with it, all of a batch that has arrived and may go as well.
    pub(super) fn complete(&self, lane: &Lane, next: Next, now: Time) -> Next {
        if self.batch.items.get() == 1 || self.batch.linger.is_some() {
            return next;
        }
        let (records, costs) = self.fill(lane, now, next.since, |verdict| verdict.allows(now));
        Next { records, costs: costs.into(), ..next }
    }

    /// How many records a batch has that holds what has arrived by `until`, as long as `admits` likes the answer of
    /// the limits, and what they cost together. At least one.
    fn fill(
        &self,
        lane: &Lane,
        until: Time,
        since: Time,
        admits: impl Fn(Verdict) -> bool,
    ) -> (u64, Vec<u64>) {
        let Some(front) = lane.front() else { return (0, Vec::new()) };
        let keys = &front.class().keys;
        let is_alike = |parcel: &&Parcel| parcel.may_join(front);
        let arrived = lane.parcels().take_while(|parcel| parcel.arrival() <= until).take_while(is_alike);
        let (mut records, mut costs) = (1, front.class().costs.to_vec());
        let each = arrived.flat_map(|parcel| (0..parcel.records()).map(|_| &parcel.class().costs)).skip(1);
        for added in each.take(usize::try_from(self.batch.items.get() - 1).unwrap_or(usize::MAX)) {
            let sum: Vec<_> = self.add(&costs, added);
            let is_dearer = sum != costs;
            if is_dearer && !admits(self.limits.earliest(&Claim { since, costs: &sum, keys })) {
                break;
            }
            (records, costs) = (records + 1, sum);
        }
        (records, costs)
    }

    /// What records cost that are released together.
    pub(super) fn sum(&self, classes: impl Iterator<Item = Charge>) -> Option<Charge> {
        classes.reduce(|sum, class| Charge { costs: self.add(&sum.costs, &class.costs).into(), ..sum })
    }

    fn add(&self, costs: &[u64], added: &[u64]) -> Vec<u64> {
        let pairs = costs.iter().zip(added).zip(&self.sums);
        pairs.map(|((&cost, &added), &sums)| if sums { cost.saturating_add(added) } else { cost }).collect()
    }
}

/// When the `nth` record of a lane arrived, counted from 1.
fn arrival(lane: &Lane, nth: u64) -> Option<Time> {
    let mut records = 0;
    let parcel = lane.parcels().find(|parcel| {
        records += parcel.records();
        records >= nth
    });
    parcel.map(Parcel::arrival)
}
