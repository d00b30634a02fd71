//! The slots that a process has, as the program keeps them: in `limiter::Limits`.

use std::rc::Rc;

use throttle::charge::Key;
use throttle::limiter::{Charges, Limits, Needed, Overruns, Request};
use throttle::store::{Answer, Order, Slot};
use throttle::time::Time;

/// What one release costs.
pub(super) const COSTS: [u64; 1] = [1];

const REQUEST: Request<'static> = Request { since: Time::ZERO, costs: &COSTS, keys: &[] };

pub(super) fn order(count: u64) -> Order {
    Order::new(Key::new(), COSTS, count)
}

/// Slots with what is known of those that others have overrun.
#[derive(Clone)]
pub(super) struct Slots {
    limits: Rc<Limits>,
    /// The release that was begun.
    begun: Charges,
    /// What it last heard of.
    pub(super) overruns: Overruns,
    /// The report that is not answered yet.
    report: Option<Order>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            limits: Rc::new(Limits::booked(false)),
            begun: Charges::default(),
            overruns: Overruns::default(),
            report: None,
        }
    }

    /// All of them, earliest first, also those that cannot be used until a report is answered.
    pub(super) fn all(&self) -> Vec<Slot> {
        let Some(report) = &self.report else { return self.limits.slots(&REQUEST).collect() };
        let mut limits = Limits::clone(&self.limits);
        let nothing_new = Answer { overruns: self.overruns.clone(), ..Answer::default() };
        limits.put(Time::ZERO, report, &nothing_new);
        limits.slots(&REQUEST).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.limits.held(&Key::new(), &COSTS).count
    }

    /// Whether the first of those that may be used has come.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.limits.slots(&REQUEST).next().is_some_and(|slot| slot.at <= now)
    }

    pub(super) fn put(&mut self, now: Time, order: &Order, answer: &Answer) {
        Rc::make_mut(&mut self.limits).put(now, order, answer);
        self.overruns = answer.overruns.clone();
        if order.overrun.is_some() {
            self.report = None;
        }
    }

    /// Drops the slots that are over, and begins a release if one allows it.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let limits = Rc::make_mut(&mut self.limits);
        limits.expire_slots(now);
        limits.admit(&mut self.begun, now, &Request { since: now, ..REQUEST }, 1).is_ok()
    }

    /// The release that was begun is over. Returns the report, if that is too late for its slot.
    pub(super) fn finish(&mut self, now: Time) -> Option<Order> {
        let limits = Rc::make_mut(&mut self.limits);
        self.report = limits.commit(&mut self.begun, now, 1, true).pop();
        self.report.clone()
    }

    /// Goes on as though a report had been answered, and nothing overrun.
    pub(super) fn ignore(&mut self, now: Time, report: &Order) {
        let overruns = self.overruns.clone();
        self.put(now, report, &Answer { overruns, ..Answer::default() });
    }

    /// Takes out the slots that are still to come, to be given back.
    pub(super) fn take_surplus(&mut self, now: Time) -> Vec<Slot> {
        let surplus = Rc::make_mut(&mut self.limits).take_surplus(now, |_, _| Needed::default());
        surplus.into_iter().flat_map(|(_, slots)| slots).collect()
    }
}
