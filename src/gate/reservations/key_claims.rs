//! The claims of one key, and what the store has said about it.

use smallvec::SmallVec;

use super::lease::Lease;
use super::order::{Answer, Order, Task};
use crate::time::Time;

/// The leases of one key, by the costs of a release.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyClaims {
    /// Inline for one, as a key rarely has more than one set of costs.
    pub(super) leases: SmallVec<[Lease; 1]>,
    /// The costs of overruns under each limit, by the last answer.
    overrun: Box<[u64]>,
    /// The instant of the last answer.
    pub(super) heard: Option<Time>,
    /// As in the last answer.
    pub(super) confirm_from: Option<Time>,
    /// Slots were asked for and the store had not answered when lanes were last asked what they need.
    pub(super) is_asking: bool,
    /// The number of unanswered reports.
    pub(super) reports: usize,
    /// The end of a hold, as far as is known here; the origin if there is none.
    pub(super) held_until: Time,
}

impl KeyClaims {
    pub(super) fn find(&self, costs: &[u64]) -> Option<&Lease> {
        self.leases.iter().find(|lease| *lease.costs == *costs)
    }

    /// The index of the lease for these costs, opened if there is none.
    pub(super) fn open(&mut self, costs: &[u64]) -> usize {
        let known = self.leases.iter().position(|lease| *lease.costs == *costs);
        known.unwrap_or_else(|| {
            self.leases.push(Lease { costs: costs.into(), ..Lease::default() });
            self.leases.len() - 1
        })
    }

    /// The lease for these costs, opened if there is none.
    pub(super) fn lease(&mut self, costs: &[u64]) -> &mut Lease {
        let at = self.open(costs);
        &mut self.leases[at]
    }

    /// False until all reports are answered: it is not known which slots are too close to a release that was late.
    pub(super) fn may_use_slots(&self) -> bool {
        self.reports == 0
    }

    /// True if the last answer is good enough to use a slot at this instant.
    pub(super) fn confirms(&self, at: Time) -> bool {
        self.confirm_from.is_none_or(|from| at < from)
    }

    /// True if a slot can be used only after another answer.
    pub(super) fn has_unconfirmed(&self) -> bool {
        self.last().is_some_and(|last| !self.confirms(last))
    }

    /// The instant of the last slot.
    pub(super) fn last(&self) -> Option<Time> {
        self.leases.iter().filter_map(|lease| lease.slots.back()).map(|last| last.at).max()
    }

    /// The limits have changed, so no slot is good any more.
    pub(super) fn follow_change(&mut self) {
        self.leases.clear();
        self.overrun = Box::default();
    }

    /// True if anything is left to remember. Without leases, overruns need not be.
    pub(super) fn is_of_use(&mut self) -> bool {
        self.leases.retain(|lease| lease.is_of_use());
        self.reports > 0 || self.held_until > Time::ZERO || !self.leases.is_empty()
    }

    pub(super) fn forget_past(&mut self, now: Time) {
        self.leases.iter_mut().for_each(|lease| lease.forget_past(now));
        if self.held_until <= now {
            self.held_until = Time::ZERO;
        }
    }

    /// Applies the answer of a store, at `now`.
    pub(super) fn apply(&mut self, now: Time, order: &Order, answer: &Answer) {
        if answer.lost {
            self.leases.iter_mut().for_each(|lease| lease.slots.clear());
        }
        // First drop the slots that are over, or they would be given up instead of ones that are too close to an
        // overrun.
        self.leases.iter_mut().for_each(|lease| _ = lease.expire(now));
        self.reports -= usize::from(order.is_report()).min(self.reports);
        self.confirm_from = answer.confirm_from.or(self.confirm_from);
        let is_first = self.heard.replace(now).is_none();
        let before = std::mem::replace(&mut self.overrun, answer.overruns.costs.clone());
        if !is_first {
            self.give_up_for(answer.overruns.since(&before, order), answer.overruns.until);
        }
        match answer.held {
            Some(until) => self.hold(until),
            // Otherwise it lifts no hold: an answer to an order from before our report may not know of it, and the
            // report of an overrun is answered whether or not there is a hold.
            None if self.reports > 0 || matches!(order.task, Task::Late(..)) => {}
            None => self.held_until = Time::ZERO,
        }
        let lease = self.lease(&order.costs);
        // An item that does not wait may still be judged by the earlier answer.
        if let Some(wanted) = order.wanted().filter(|wanted| !answer.is_undecided(*wanted)) {
            if answer.next.is_some() || !wanted.is_at_once() {
                lease.next = answer.next;
            }
            // No slot is near enough to replace one.
            if answer.slots.is_empty() && !wanted.is_at_once() {
                lease.lost = 0;
            }
        }
        lease.put(answer.slots.iter().copied());
    }

    /// Holds the key until an instant, and drops its slots before that.
    pub(super) fn hold(&mut self, until: Time) {
        self.held_until = until;
        self.leases.iter_mut().for_each(|lease| lease.slots.retain(|slot| slot.at >= until));
    }

    /// Drops the first slots before `until`, to make up for overruns, as long as costs are `left`.
    fn give_up_for(&mut self, mut left: Box<[u64]>, until: Time) {
        let is_charged =
            |left: &[u64], costs: &[u64]| left.iter().zip(costs).any(|(left, cost)| left.min(cost) > &0);
        loop {
            let such = self.leases.iter_mut().filter(|lease| is_charged(&left, &lease.costs));
            let firsts = such.filter_map(|lease| Some((lease.slots.front()?.at, lease)));
            let first = firsts.min_by_key(|(at, _)| *at).filter(|(at, _)| *at < until);
            let Some((_, Lease { costs, slots, .. })) = first else { return };
            slots.pop_front();
            left.iter_mut().zip(costs.iter()).for_each(|(left, cost)| *left = left.saturating_sub(*cost));
        }
    }
}
