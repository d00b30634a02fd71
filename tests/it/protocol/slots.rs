//! The slots that a process has, as the program keeps them: in `gate::Slots`.

use std::rc::Rc;

use throttle::charge::Key;
use throttle::gate::{BookingTerms, Charges, Gate as _, Overruns, Request, Slots as Held};
use throttle::store::{Answer, Order, Slot};
use throttle::time::Time;

/// What one release costs.
pub(super) const COSTS: [u64; 1] = [1];

/// Nothing is asked for here.
const TERMS: BookingTerms = BookingTerms { span: 1, longest_span: 1, most: Vec::new(), patience: 0 };

const REQUEST: Request<'static> = Request { since: Time::ZERO, costs: &COSTS, keys: &[] };

pub(super) fn order(count: u64) -> Order {
    Order::new(Key::new(), COSTS, count)
}

/// Slots with what is known of those that others have overrun.
#[derive(Clone)]
pub(super) struct Slots {
    held: Rc<Held>,
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
            held: Rc::new(Held::new(Vec::new(), TERMS, true)),
            begun: Charges::default(),
            overruns: Overruns::default(),
            report: None,
        }
    }

    /// All of them, earliest first, also those that cannot be used until a report is answered.
    pub(super) fn all(&self) -> Vec<Slot> {
        let Some(report) = &self.report else { return self.held.slots(&REQUEST).collect() };
        let mut held = Held::clone(&self.held);
        let nothing_new = Answer { overruns: self.overruns.clone(), ..Answer::default() };
        held.answered(Time::ZERO, report, &nothing_new);
        held.slots(&REQUEST).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.held.count(&Key::new(), &COSTS)
    }

    /// Whether the first of those that may be used has come.
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

    /// Drops the slots that are over, and begins a release if one allows it.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let held = Rc::make_mut(&mut self.held);
        held.expire(now);
        held.admit(&mut self.begun, now, &Request { since: now, ..REQUEST }, 1).is_ok()
    }

    /// The release that was begun is over. Returns the report, if that is too late for its slot.
    pub(super) fn finish(&mut self, now: Time) -> Option<Order> {
        let held = Rc::make_mut(&mut self.held);
        self.report = held.commit(&mut self.begun, now, 1, true).pop();
        self.report.clone()
    }

    /// Goes on as though a report had been answered, and nothing overrun.
    pub(super) fn ignore(&mut self, now: Time, report: &Order) {
        let overruns = self.overruns.clone();
        self.put(now, report, &Answer { overruns, ..Answer::default() });
    }

    /// Takes out the slots that are still to come, to be given back.
    pub(super) fn take_surplus(&mut self, now: Time) -> Vec<Slot> {
        let needs = Rc::make_mut(&mut self.held).close(now);
        needs.returned.into_iter().flat_map(|(_, slots)| slots).collect()
    }
}
