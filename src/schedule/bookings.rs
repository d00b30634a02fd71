//! Slots of limits that are shared: how many to book, and when.

use std::collections::HashMap;

use anyhow::{Error, Result, ensure};

use super::{Action, Notice, Schedule};
use crate::charge::Key;
use crate::exit::Exit;
use crate::limiter::{Answer, Limits, Order, Request, Slot, Turn};
use crate::source::{Capacity, Items};
use crate::time::{SECOND, Time};

/// So many nanoseconds before the last slot is due, the next ones are asked for; earlier if answers take longer.
const LEAD: u64 = SECOND / 20;

/// An answer that is of no use is not asked for again at once.
const PAUSE: u64 = SECOND / 100;

/// What a store gives out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookingTerms {
    /// How many slots one order may ask for at most.
    pub span: u64,
    /// The most that a release may cost under each limit.
    pub most: Vec<u64>,
}

/// What has been asked of the store.
pub(super) struct Bookings {
    terms: BookingTerms,
    orders: HashMap<Key, Ordered>,
    /// How long the last answer took, in nanoseconds.
    took: u64,
}

/// How it stands with a key.
enum Ordered {
    /// An order for so many is on its way, since then.
    Asked(Time, u64),
    /// It makes no sense to ask before; then with this turn, if there is one.
    NotBefore(Time, Option<Turn>),
}

/// What to do about a lane.
enum Plan {
    Nothing,
    /// Look again at this instant.
    Later(Time),
    Ask(Order),
}

impl Bookings {
    pub(super) fn new(terms: BookingTerms) -> Self {
        Bookings { terms, orders: HashMap::new(), took: 0 }
    }

    /// How long before it is due the next slot is asked for, in nanoseconds.
    fn lead(&self) -> u64 {
        LEAD.saturating_add(self.took)
    }

    /// How many slots are on their way.
    fn coming(&self) -> u64 {
        let coming = |order: &Ordered| if let Ordered::Asked(_, count) = order { *count } else { 0 };
        self.orders.values().map(coming).sum()
    }

    /// What to do for `wanted` releases that ask this, when some slots are held already, and only `vacancies` more can
    /// be used.
    fn plan(
        &mut self,
        now: Time,
        request: &Request,
        wanted: u64,
        vacancies: u64,
        slots: impl DoubleEndedIterator<Item = Slot>,
    ) -> Plan {
        let mut slots = slots.rev();
        let last = slots.next();
        let held = (last.iter().count() + slots.count()) as u64;
        let lacking = wanted.saturating_sub(held).min(vacancies).min(self.terms.span);
        if lacking == 0 {
            return Plan::Nothing;
        }
        // What backs off is not ready for a slot yet.
        let when =
            last.map_or(request.since, |last| request.since.max(Time(last.at.0.saturating_sub(self.lead()))));
        let key = request.keys.first().cloned().unwrap_or_default();
        let (when, turn) = match self.orders.get(&key) {
            Some(Ordered::Asked(..)) => return Plan::Nothing,
            Some(&Ordered::NotBefore(not_before, turn)) => (when.max(not_before), turn),
            None => (when, None),
        };
        if when > now {
            return Plan::Later(when);
        }
        self.orders.insert(key.clone(), Ordered::Asked(now, lacking));
        Plan::Ask(Order { key, costs: request.costs.into(), count: lacking, turn })
    }

    /// An order has been answered.
    fn note(&mut self, now: Time, order: &Order, answer: &Answer) {
        if let Some(Ordered::Asked(since, _)) = self.orders.remove(&order.key) {
            self.took = now.since(since);
        }
        let pause = if answer.slots.is_empty() { now.checked_add(PAUSE.into()) } else { None };
        if let Some(not_before) = answer.ask_again.or(pause) {
            self.orders.insert(order.key.clone(), Ordered::NotBefore(not_before, answer.turn));
        }
    }

    /// How many items to look at in a lane: more would not be booked.
    fn most(&self) -> u64 {
        2 * self.terms.span
    }
}

impl Schedule {
    /// Has releases wait for slots that a store books, on these terms, instead of for limits of their own.
    pub fn with_bookings(mut self, terms: BookingTerms) -> Self {
        self.rules.limits = Limits::booked();
        self.bookings = Some(Bookings::new(terms));
        self
    }

    /// Has slots booked for what waits. Returns when to look again.
    pub(super) fn book(&mut self, now: Time, capacity: Capacity) -> Option<Time> {
        if self.stopping {
            return None;
        }
        self.plan_bookings(now, capacity).unwrap_or_else(|error| {
            self.give_up(Exit::Error, error);
            None
        })
    }

    fn plan_bookings(&mut self, now: Time, capacity: Capacity) -> Result<Option<Time>> {
        let Some(bookings) = &mut self.bookings else { return Ok(None) };
        let soon = Time(now.0.saturating_add(bookings.lead()));
        let taken = self.rules.limits.slots_until(soon).saturating_add(bookings.coming());
        let mut vacancies = capacity.vacancies.saturating_sub(taken);
        let mut again: Option<Time> = None;
        let batch = self.rules.former.most_items();
        for lane in self.queue.occupied() {
            let Some(((front, open), since)) = lane.front().zip(lane.open()).zip(lane.since()) else {
                continue;
            };
            let request = Request { since, costs: &open.costs, keys: &front.charge.keys };
            if request.is_free() {
                continue;
            }
            check_ever_admitted(&bookings.terms, front, &request)?;
            let wanted = lane.alike(bookings.most().saturating_mul(batch)).div_ceil(batch);
            match bookings.plan(now, &request, wanted, vacancies, self.rules.limits.slots(&request)) {
                Plan::Nothing => {}
                Plan::Later(at) => again = Some(again.map_or(at, |other| other.min(at))),
                Plan::Ask(order) => {
                    vacancies -= order.count;
                    self.actions.push_back(Action::Book(order));
                }
            }
        }
        Ok(again)
    }

    /// The store has answered.
    pub fn booked(&mut self, now: Time, order: &Order, answer: Answer) {
        self.bookings.iter_mut().for_each(|bookings| bookings.note(now, order, &answer));
        self.rules.limits.put(&order.key, &order.costs, &answer.slots);
        self.queue.reconsider(&self.rules);
        answer.warning.into_iter().for_each(|warning| self.tell(Notice::Warning(warning)));
    }

    /// The store cannot be asked any more.
    pub fn booking_failed(&mut self, exit: Exit, error: Error) {
        self.give_up(exit, error);
    }
}

/// Whether a request is ever granted.
fn check_ever_admitted(terms: &BookingTerms, front: &Items, request: &Request) -> Result<()> {
    for (most, cost) in terms.most.iter().zip(request.costs) {
        ensure!(
            cost <= most,
            "item {}: its cost of {cost} is more than the shared limit ever admits, {most}",
            front.segment.first()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: [Time; 4] = [Time(0), Time(SECOND), Time(2 * SECOND), Time(3 * SECOND)];

    fn bookings() -> Bookings {
        Bookings::new(BookingTerms { span: 20, most: vec![400] })
    }

    fn request(since: Time) -> Request<'static> {
        Request { since, costs: &[1], keys: &[] }
    }

    fn slots(instants: &[Time]) -> impl DoubleEndedIterator<Item = Slot> {
        instants.iter().map(|&at| Slot { at, until: at })
    }

    /// How many are asked for at an instant, or when to look again.
    fn plan(
        bookings: &mut Bookings,
        now: Time,
        wanted: u64,
        vacancies: u64,
        held: &[Time],
    ) -> Result<u64, Option<Time>> {
        match bookings.plan(now, &request(SECONDS[1]), wanted, vacancies, slots(held)) {
            Plan::Ask(order) => Ok(order.count),
            Plan::Later(at) => Err(Some(at)),
            Plan::Nothing => Err(None),
        }
    }

    #[test]
    fn no_more_is_booked_than_can_be_used() {
        let [zero, one, two, _] = SECONDS;
        let table: [(Time, u64, u64, &[Time], Result<u64, Option<Time>>); 8] = [
            (one, 3, 9, &[], Ok(3)),
            (one, 99, 99, &[], Ok(20)),
            // Commands run, and more cannot be started.
            (one, 3, 0, &[], Err(None)),
            (one, 3, 2, &[], Ok(2)),
            (one, 1, 9, &[one], Err(None)),
            // The last slot is a while off; the next is asked for shortly before.
            (one, 3, 9, &[two], Err(Some(Time(1_950_000_000)))),
            (two, 3, 9, &[two], Ok(2)),
            // It backs off.
            (zero, 3, 9, &[], Err(Some(one))),
        ];
        for (now, wanted, vacancies, held, expected) in table {
            let found = plan(&mut bookings(), now, wanted, vacancies, held);
            assert_eq!(found, expected, "{wanted} of {vacancies}, {held:?}");
        }
    }

    #[test]
    fn one_order_at_a_time_and_none_before_it_makes_sense() {
        let [_, one, two, three] = SECONDS;
        let mut bookings = bookings();
        let order = Order { key: Key::new(), costs: [1].into(), count: 3, turn: None };
        assert_eq!(plan(&mut bookings, one, 3, 9, &[]), Ok(3));
        assert_eq!((plan(&mut bookings, one, 9, 9, &[]), bookings.coming()), (Err(None), 3));
        bookings.note(two, &order, &Answer { ask_again: Some(three), ..Answer::default() });
        assert_eq!(plan(&mut bookings, two, 3, 9, &[]), Err(Some(three)));
        assert_eq!(plan(&mut bookings, three, 3, 9, &[]), Ok(3));
        // An answer that is of no use is not asked for again at once.
        bookings.note(three, &order, &Answer::default());
        assert_eq!(plan(&mut bookings, three, 3, 9, &[]), Err(Some(Time(3_010_000_000))));
        // That the first answer took a second is no longer of concern.
        assert_eq!((bookings.took, bookings.lead()), (0, LEAD));
    }
}
