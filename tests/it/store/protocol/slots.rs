//! The slots of a process, kept as in the program: by a gate.

use std::rc::Rc;

use throttle::charge::Key;
use throttle::gate::{BookingTerms, Gate, Overruns, Pending, Request, Reservations};
use throttle::store::{Answer, Order, Slot, Task};
use throttle::time::{Time, Wall};

/// The cost of a release.
pub(super) const COSTS: [u64; 1] = [1];

const REQUEST: Request<'static> = Request { eligible_at: Time::ZERO, costs: &COSTS, keys: &[], waits: true };

/// A gate of one shared limit. Nothing is asked for here.
fn gate() -> Gate {
    let terms = BookingTerms { span: 1, longest_span: 1, most: vec![1], ..BookingTerms::default() };
    let mut gate = Gate::new(vec!["1/s".parse().expect("a rate")], Time::ZERO, Wall::EPOCH);
    gate.share(terms, true);
    gate
}

/// The slots of a gate, earliest first, as far as they can be used.
fn slots(gate: &Gate) -> impl Iterator<Item = Slot> {
    gate.reservations().expect("a shared limit").slots(&REQUEST)
}

fn slots_mut(gate: &mut Rc<Gate>) -> &mut Reservations {
    Rc::make_mut(gate).reservations_mut().expect("a shared limit")
}

pub(super) fn order(count: u64) -> Order {
    Order::new(Key::new(), COSTS, count)
}

/// Slots, and what is known of overruns by others.
#[derive(Clone)]
pub(super) struct Slots {
    held: Rc<Gate>,
    /// The release that has begun.
    begun: Pending,
    /// The overruns that it last heard of.
    pub(super) overruns: Overruns,
    /// The report that has not been answered yet.
    report: Option<Order>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            held: Rc::new(gate()),
            begun: Pending::default(),
            overruns: Overruns::default(),
            report: None,
        }
    }

    /// All slots, earliest first, including those that cannot be used until a report is answered.
    pub(super) fn all(&self) -> Vec<Slot> {
        let Some(report) = &self.report else { return slots(&self.held).collect() };
        let mut held = Rc::clone(&self.held);
        let nothing_new = Answer { overruns: self.overruns.clone(), ..Answer::default() };
        slots_mut(&mut held).heard(Time::ZERO, report, &nothing_new);
        slots(&held).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.all().len() as u64
    }

    /// Whether the first usable slot has come.
    pub(super) fn is_due(&self, now: Time) -> bool {
        slots(&self.held).next().is_some_and(|slot| slot.at <= now)
    }

    pub(super) fn put(&mut self, now: Time, order: &Order, answer: &Answer) {
        slots_mut(&mut self.held).heard(now, order, answer);
        self.overruns = answer.overruns.clone();
        if order.is_report() {
            self.report = None;
        }
    }

    /// Drops the slots that are over, and begins a release if a slot allows it.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        slots_mut(&mut self.held).expire(now);
        let held = Rc::make_mut(&mut self.held);
        held.admit(&mut self.begun, now, &Request { eligible_at: now, ..REQUEST }, 1).is_ok()
    }

    /// Ends the release. Returns a report if that is too late for its slot.
    pub(super) fn finish(&mut self, now: Time) -> Option<Order> {
        let held = Rc::make_mut(&mut self.held);
        self.report = held.commit(&mut self.begun, now, 1, true, |_, _, _| ()).pop();
        self.report.clone()
    }

    /// Continues as if a report had been answered and nothing had been overrun.
    pub(super) fn ignore(&mut self, now: Time, report: &Order) {
        let overruns = self.overruns.clone();
        self.put(now, report, &Answer { overruns, ..Answer::default() });
    }

    /// Removes the slots that are still to come, to give them back.
    pub(super) fn take_surplus(&mut self, now: Time) -> Vec<Slot> {
        let orders = slots_mut(&mut self.held).close(now).orders.into_iter();
        let slots = orders.map(|order| match order.task {
            Task::GiveBack(slots, _) => slots,
            task => panic!("{task:?}"),
        });
        slots.flatten().collect()
    }
}
