//! The slots of a process, kept as in the program: by `gate::Slots`.

use std::rc::Rc;

use throttle::charge::Key;
use throttle::gate::{BookingTerms, Charges, Gate as _, Overruns, Request, Slots as Held};
use throttle::store::{Answer, Order, Slot};
use throttle::time::Time;

/// The cost of a release.
pub(super) const COSTS: [u64; 1] = [1];

/// Nothing is asked for here.
const TERMS: BookingTerms =
    BookingTerms { span: 1, longest_span: 1, most: Vec::new(), deadline: 0, patience: 0, changes: 0 };

const REQUEST: Request<'static> = Request { since: Time::ZERO, costs: &COSTS, keys: &[] };

pub(super) fn order(count: u64) -> Order {
    Order::new(Key::new(), COSTS, count)
}

/// Slots, and what is known of overruns by others.
#[derive(Clone)]
pub(super) struct Slots {
    held: Rc<Held>,
    /// The release that has begun.
    begun: Charges,
    /// The overruns that it last heard of.
    pub(super) overruns: Overruns,
    /// The report that has not been answered yet.
    report: Option<Order>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            held: Rc::new(Held::new(Vec::new(), TERMS, true)),
            begun: Charges::default(),
            overruns: Overruns::default(),
            report: None,
        }
    }

    /// All slots, earliest first, including those that cannot be used until a report is answered.
    pub(super) fn all(&self) -> Vec<Slot> {
        let Some(report) = &self.report else { return self.held.slots(&REQUEST).collect() };
        let mut held = Held::clone(&self.held);
        let nothing_new = Answer { overruns: self.overruns.clone(), ..Answer::default() };
        held.answered(Time::ZERO, report, &nothing_new);
        held.slots(&REQUEST).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.all().len() as u64
    }

    /// Whether the first usable slot has come.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.held.slots(&REQUEST).next().is_some_and(|slot| slot.at <= now)
    }

    pub(super) fn put(&mut self, now: Time, order: &Order, answer: &Answer) {
        Rc::make_mut(&mut self.held).answered(now, order, answer);
        self.overruns = answer.overruns.clone();
        if order.overrun.is_some() {
            self.report = None;
        }
    }

    /// Drops the slots that are over, and begins a release if a slot allows it.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let held = Rc::make_mut(&mut self.held);
        held.expire(now);
        held.admit(&mut self.begun, now, &Request { since: now, ..REQUEST }, 1).is_ok()
    }

    /// Ends the release. Returns a report if that is too late for its slot.
    pub(super) fn finish(&mut self, now: Time) -> Option<Order> {
        let held = Rc::make_mut(&mut self.held);
        self.report = held.commit(&mut self.begun, now, 1, true).pop();
        self.report.clone()
    }

    /// Continues as if a report had been answered and nothing had been overrun.
    pub(super) fn ignore(&mut self, now: Time, report: &Order) {
        let overruns = self.overruns.clone();
        self.put(now, report, &Answer { overruns, ..Answer::default() });
    }

    /// Removes the slots that are still to come, to give them back.
    pub(super) fn take_surplus(&mut self, now: Time) -> Vec<Slot> {
        let steps = Rc::make_mut(&mut self.held).close(now);
        steps.returned.into_iter().flat_map(|(_, slots)| slots).collect()
    }
}
