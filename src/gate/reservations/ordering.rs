//! Orders: for the slots that lanes lack, and for giving back those that they do not need.

use std::sync::Arc;

use super::lease::{DemandRun, TotalDemand};
use super::order::{Order, Task};
use super::{Request, Reservations};
use crate::charge::Key;
use crate::time::Time;

/// The next releases of a lane, all alike.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// The first of them.
    pub request: Request<'a>,
    /// The number of releases like this.
    pub count: u64,
    /// A slot further ahead than this, in nanoseconds, is of no use.
    pub within: u64,
    /// The number of other releases of the lane that go before them.
    pub before: u64,
    /// The number of the lane.
    pub lane: usize,
}

/// The steps needed to release waiting items in time.
#[derive(Debug, Default)]
pub struct Steps {
    /// What the store is to do.
    pub orders: Vec<Order>,
    /// Releases that nothing more may join, as slots are booked for their present costs: the cost of each under each
    /// shared limit, and their key; `None` if keys share slots.
    pub closed: Vec<(Option<Key>, Arc<[u64]>)>,
    /// The instant at which to look again.
    pub again: Option<Time>,
}

impl Reservations {
    /// Provides for what lanes demand, in their order, when only `vacancies` more releases can take place.
    pub(in crate::gate) fn want<'a>(
        &mut self,
        now: Time,
        demands: impl Iterator<Item = Demand<'a>>,
        vacancies: u64,
    ) -> Steps {
        self.ends = None;
        // What is not bounded leaves at one go.
        self.pacing.usable.is_serial = vacancies < u64::MAX;
        self.need_nothing();
        let (mut runs, mut last) = (Vec::new(), None);
        for demand in demands {
            let after = last.filter(|(lane, _)| *lane == demand.lane).map(|(_, run)| run);
            last = Some((demand.lane, self.need(&demand, after, &mut runs)));
        }
        let mut steps = Steps { orders: self.take_returned(now), ..Steps::default() };
        self.order(now, &runs, vacancies, &mut steps);
        steps
    }

    /// Forgets what lanes needed.
    fn need_nothing(&mut self) {
        for known in self.keys.values_mut() {
            known.is_asking = known.leases.iter().any(|lease| !lease.coming.is_empty());
            known.leases.iter_mut().for_each(|lease| lease.demand = TotalDemand::default());
        }
    }

    /// Adds a run of a lane, which comes `after` another one. Those that go first in their lanes are one run, if they
    /// are alike. If those before it lack slots, its own will be over when these have come, so it needs others. Returns
    /// the index of the run.
    pub(super) fn need(&mut self, demand: &Demand, after: Option<usize>, runs: &mut Vec<DemandRun>) -> usize {
        let (key, near) = (Key::from(self.key_of(&demand.request)), self.pacing.near(demand));
        let costs = self.costs(&demand.request);
        let lease = self.of(&key).lease(costs);
        let is_behind = after.is_some_and(|after| runs[after].lacks);
        if !is_behind {
            lease.need(demand);
        }
        let run = DemandRun {
            key,
            costs: Arc::clone(&lease.costs),
            near,
            follows: demand.before > 0,
            after,
            lacks: is_behind || lease.demand.count > lease.supply(),
            eligible_at: demand.request.eligible_at,
            within: demand.within,
        };
        if let Some(first) = lease.demand.first.filter(|_| !run.follows) {
            runs[first].join(&run);
            return first;
        }
        lease.demand.first = lease.demand.first.or((!run.follows).then_some(runs.len()));
        runs.push(run);
        runs.len() - 1
    }

    /// Adds the orders for the runs that lanes need to `steps`.
    fn order(&mut self, now: Time, runs: &[DemandRun], vacancies: u64, steps: &mut Steps) {
        let soon = now.saturating_add(self.pacing.lead());
        let is_bounded = vacancies < u64::MAX;
        let taken = if is_bounded { self.until(soon).saturating_add(self.pacing.coming) } else { 0 };
        let mut vacancies = vacancies.saturating_sub(taken);
        let Reservations { by_key, keys, pacing, terms, .. } = self;
        let mut are_served = Vec::<bool>::new();
        for run in runs {
            let DemandRun { key, costs, .. } = run;
            let known = keys.entry(key.clone()).or_default();
            let at = known.open(costs);
            known.leases[at].demand.near += run.near;
            // A slot is of no use as long as those before it in the lane have none, or it is not known which.
            if run.follows && (known.is_asking || run.after.is_some_and(|after| !are_served[after])) {
                are_served.push(false);
                continue;
            }
            let plan = pacing.plan(now, known, &known.leases[at], run, vacancies);
            let lease = &mut known.leases[at];
            let has_slot = !lease.slots.is_empty() && run.eligible_at <= now;
            // From here on, the costs of a batch must stay those its slot is booked for.
            if has_slot || plan.is_ok() {
                steps.closed.push((by_key.then(|| key.clone()), Arc::clone(costs)));
            }
            match plan {
                Err(again) => steps.again = steps.again.into_iter().chain(again).min(),
                Ok(wanted) => {
                    vacancies -= wanted.count;
                    pacing.coming += wanted.count;
                    lease.coming.push((now, wanted.count));
                    lease.not_before = None;
                    steps.orders.push(Order::of(key, costs, terms.changes, Task::Book(wanted)));
                }
            }
            are_served.push(pacing.lacking(lease) == 0);
        }
    }

    /// The number of all slots up to and including `at`.
    pub(super) fn until(&self, at: Time) -> u64 {
        self.keys.values().flat_map(|known| &known.leases).map(|lease| lease.until(at)).sum()
    }

    /// Takes out the slots to give back: those surrendered, and those that are not needed.
    fn take_returned(&mut self, now: Time) -> Vec<Order> {
        let surplus = self.take_surplus(now);
        self.version += u64::from(!surplus.is_empty());
        self.surrendered.drain(..).chain(surplus).collect()
    }

    /// Gives up all slots after `now`.
    pub(super) fn surrender(&mut self, now: Time) {
        self.need_nothing();
        let surplus = self.take_surplus(now);
        self.surrendered.extend(surplus);
    }

    /// Takes out the slots after `now` that are not needed, to be given back; keeps the earliest. Those taken out can
    /// no longer be used here.
    pub(super) fn take_surplus(&mut self, now: Time) -> Vec<Order> {
        let (mut surplus, changes) = (Vec::new(), self.terms.changes);
        self.keys.retain(|key, known| {
            // Until a report is answered, some may be too close to a release that was late.
            let may_be_used = known.may_use_slots();
            for lease in known.leases.iter_mut().filter(|_| may_be_used) {
                let slots = lease.take_surplus(now);
                if !slots.is_empty() {
                    surplus.push(Order::of(key, &lease.costs, changes, Task::GiveBack(slots, None)));
                }
            }
            known.is_of_use()
        });
        // A hash map iterates in random order.
        surplus.sort_by(|a, b| (&a.key, &a.costs).cmp(&(&b.key, &b.costs)));
        surplus
    }

    /// Gives back all slots, as nothing more is released. Slots still to come are awaited, too: call it again as long
    /// as [`Steps::again`] is an instant.
    pub fn close(&mut self, now: Time) -> Steps {
        self.need_nothing();
        let mut orders = self.take_returned(now);
        orders.extend(self.take_turns());
        Steps { orders, again: self.last_answer(now), ..Steps::default() }
    }

    /// Gives up the turns of all orders that were turned away.
    fn take_turns(&mut self) -> Vec<Order> {
        let (mut turns, changes) = (Vec::new(), self.terms.changes);
        for (key, known) in &mut self.keys {
            for lease in &mut known.leases {
                if let Some((at, turn @ Some(_))) = lease.not_before {
                    lease.not_before = Some((at, None));
                    turns.push(Order::of(key, &lease.costs, changes, Task::GiveBack(Vec::new(), turn)));
                }
            }
        }
        turns
    }

    /// At the end of the run: when to stop waiting for answers, if any are still to come.
    pub(super) fn last_answer(&mut self, now: Time) -> Option<Time> {
        if !self.is_asking() {
            return None;
        }
        let ends = *self.ends.get_or_insert_with(|| now.saturating_add(self.terms.patience));
        Some(ends).filter(|ends| *ends > now)
    }
}
