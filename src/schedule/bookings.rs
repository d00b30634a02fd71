//! Slots of limits that are shared: how many to book, and when.

use std::rc::Rc;

use anyhow::{Error, Result, ensure};

use super::batch::Former;
use super::lane::Lane;
use super::{Action, Notice, Schedule};
use crate::charge::Key;
use crate::exit::Exit;
use crate::limiter::{Answer, ByClaim, Limits, Needed, Order, Turn, Verdict};
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
    /// How many it may ask for if answers take long.
    pub longest_span: u64,
    /// The most that a release may cost under each limit.
    pub most: Vec<u64>,
    /// How long the end of a run waits for an answer, in nanoseconds.
    pub patience: u64,
}

/// What has been asked of the store.
pub(super) struct Bookings {
    terms: BookingTerms,
    /// Whether each key has slots of its own.
    by_key: bool,
    /// Whether slots to come are booked.
    waits: bool,
    orders: ByClaim<Ordered>,
    /// How long the last answer took, in nanoseconds.
    took: u64,
    /// How often the span was halved since no slot had come in time.
    halvings: u32,
    /// What slots are needed for, in the order of the lanes.
    demands: Vec<Demand>,
    /// Where in `demands` each claim stands.
    places: ByClaim<usize>,
    /// Until when an answer is waited for at the end of the run.
    ends: Option<Time>,
}

/// How it stands with a claim.
enum Ordered {
    /// An order for so many is on its way, since then.
    Asked(Time, u64),
    /// It makes no sense to ask before; then with this turn, if there is one.
    NotBefore(Time, Option<Turn>),
}

/// Slots that some lanes need, all for the same claim.
struct Demand {
    key: Key,
    costs: Rc<[u64]>,
    needed: Needed,
}

/// What to do about a demand.
enum Plan {
    Nothing,
    /// Look again at this instant.
    Later(Time),
    Ask(Order),
}

impl Bookings {
    pub(super) fn new(terms: BookingTerms, by_key: bool, waits: bool) -> Self {
        Bookings {
            terms,
            by_key,
            waits,
            orders: ByClaim::default(),
            took: 0,
            halvings: 0,
            demands: Vec::new(),
            places: ByClaim::default(),
            ends: None,
        }
    }

    /// How long before it is due the next slot is asked for, in nanoseconds.
    fn lead(&self) -> u64 {
        LEAD.saturating_add(self.took)
    }

    /// How many slots to ask for at once: those for 50 ms, or for twice as long as an answer takes.
    fn span(&self) -> u64 {
        let times = self.took.saturating_mul(2).div_ceil(LEAD).max(1);
        let span = self.terms.span.saturating_mul(times).min(self.terms.longest_span.max(self.terms.span));
        (span >> self.halvings.min(63)).max(1)
    }

    /// How many slots are on their way.
    fn coming(&self) -> u64 {
        let coming = |order: &Ordered| if let Ordered::Asked(_, count) = order { *count } else { 0 };
        self.orders.values().map(coming).sum()
    }

    /// What the lanes need at `now`, gathered by claim.
    ///
    /// # Errors
    /// An item costs more than the store ever grants.
    fn gather<'a>(
        &mut self,
        now: Time,
        lanes: impl Iterator<Item = &'a Lane>,
        former: &Former,
    ) -> Result<()> {
        self.demands.clear();
        self.places.clear();
        let batch = former.most_items();
        let most = self.most().saturating_mul(batch);
        for lane in lanes {
            let Some((front, since)) = lane.front().zip(lane.since()) else { continue };
            let (costs, count) = match former.sums_costs() {
                // What the batch after this one will cost is not known yet.
                true => (lane.composed(now, former).map(|open| open.costs), 1),
                false => (lane.open().map(|open| Rc::clone(&open.costs)), lane.alike(most).div_ceil(batch)),
            };
            let Some(costs) = costs.filter(|costs| costs.iter().any(|&cost| cost > 0)) else { continue };
            check_ever_admitted(&self.terms, front, &costs)?;
            let key = self.key(lane);
            self.demand(key, &costs, Needed { count, since });
        }
        Ok(())
    }

    /// The key that a lane is charged to.
    fn key(&self, lane: &Lane) -> Key {
        let keys = lane.front().map(|front| &front.charge.keys).filter(|_| self.by_key);
        keys.and_then(|keys| keys.first()).cloned().unwrap_or_default()
    }

    fn demand(&mut self, key: Key, costs: &Rc<[u64]>, needed: Needed) {
        let place = *self.places.get_or_insert_with(&key, costs, || self.demands.len());
        match self.demands.get_mut(place) {
            Some(Demand { needed: sum, .. }) => {
                let (count, since) = (sum.count + needed.count, sum.since.min(needed.since));
                *sum = Needed { count, since };
            }
            None => self.demands.push(Demand { key, costs: Rc::clone(costs), needed }),
        }
    }

    /// How many slots for a claim are of use.
    fn needed(&self, key: &[u8], costs: &[u64]) -> Needed {
        self.places.get(key, costs).map_or(Needed::default(), |place| self.demands[*place].needed)
    }

    /// What to do about a demand when some slots are `held` already, the last of them at `last`, and only `vacancies`
    /// more can be used.
    fn plan(&mut self, now: Time, place: usize, vacancies: u64, held: u64, last: Option<Time>) -> Plan {
        let Demand { key, costs, needed: Needed { count, since } } = &self.demands[place];
        let lacking = count.saturating_sub(held).min(vacancies).min(self.span());
        if lacking == 0 {
            return Plan::Nothing;
        }
        // What backs off is not ready for a slot yet.
        let when = last.map_or(*since, |last| (*since).max(Time(last.0.saturating_sub(self.lead()))));
        let (when, turn) = match self.orders.get(key, costs) {
            Some(Ordered::Asked(..)) => return Plan::Nothing,
            Some(&Ordered::NotBefore(not_before, turn)) => (when.max(not_before), turn),
            None => (when, None),
        };
        if when > now {
            return Plan::Later(when);
        }
        self.orders.insert(key, costs, Ordered::Asked(now, lacking));
        Plan::Ask(Order {
            key: key.clone(),
            costs: (**costs).into(),
            count: lacking,
            waits: self.waits,
            turn,
        })
    }

    /// An order has been answered.
    fn note(&mut self, now: Time, order: &Order, answer: &Answer) {
        if let Some(Ordered::Asked(since, _)) = self.orders.remove(&order.key, &order.costs) {
            self.took = now.since(since);
        }
        // The more are booked at once, the longer it takes.
        let is_in_time = answer.slots.iter().any(|slot| slot.until >= now);
        if is_in_time {
            self.halvings = self.halvings.saturating_sub(1);
        } else if !answer.slots.is_empty() {
            self.halvings = (self.halvings + 1).min(16);
        }
        let pause = if answer.slots.is_empty() { now.checked_add(PAUSE.into()) } else { None };
        if let Some(not_before) = answer.ask_again.or(pause) {
            let not_before = Ordered::NotBefore(not_before, answer.turn);
            self.orders.insert(&order.key, &(*order.costs).into(), not_before);
        }
    }

    /// At the end of the run: until when an answer is waited for, if any is to come.
    fn last_answer(&mut self, now: Time) -> Option<Time> {
        if self.coming() == 0 {
            return None;
        }
        let patience = self.terms.patience;
        let ends = *self.ends.get_or_insert_with(|| Time(now.0.saturating_add(patience)));
        Some(ends).filter(|ends| *ends > now)
    }

    /// How many items to look at in a lane: more would not be booked.
    fn most(&self) -> u64 {
        2 * self.span()
    }
}

impl Schedule {
    /// Has releases wait for slots that a store books, on these terms, instead of for limits of their own.
    pub fn with_bookings(mut self, terms: BookingTerms) -> Self {
        let by_key = self.rates.iter().any(|rate| rate.key.is_some() && rate.only.is_none());
        // No slot is before one that is booked already. Where limits are for some items only, one of these that has to wait
        // for long would hold up the others; so each takes what is free when it asks.
        let is_mixed = !by_key && self.rates.iter().any(|rate| rate.only.is_some());
        let waits = !is_mixed && !self.rules.on_limit.never_waits();
        self.rules.limits = Limits::booked(by_key);
        self.rules.former.set_most(&terms.most);
        self.bookings = Some(Bookings::new(terms, by_key, waits));
        self
    }

    /// Has slots booked for what waits, and those given back that are not needed. Returns when to look again.
    pub(super) fn book(&mut self, now: Time, capacity: Capacity, gathers: bool) -> Option<Time> {
        if self.stopping || self.has_released_all() {
            return self.give_back_all(now);
        }
        self.plan_bookings(now, capacity, gathers).unwrap_or_else(|error| {
            self.give_up(Exit::Error, error);
            None
        })
    }

    fn plan_bookings(&mut self, now: Time, capacity: Capacity, gathers: bool) -> Result<Option<Time>> {
        let Some(bookings) = &mut self.bookings else { return Ok(None) };
        bookings.ends = None;
        if gathers {
            // What arrives at this instant may be in the same batch, or take the place of what waits.
            return Ok(Some(now).filter(|_| !self.queue.is_empty()));
        }
        bookings.gather(now, self.queue.occupied(), &self.rules.former)?;
        let surplus = self.rules.limits.take_surplus(now, |key, costs| bookings.needed(key, costs));
        self.actions.extend(surplus.into_iter().map(|(order, slots)| Action::GiveBack(order, slots)));
        let soon = Time(now.0.saturating_add(bookings.lead()));
        let taken = self.rules.limits.slots_until(soon).saturating_add(bookings.coming());
        let mut vacancies = capacity.vacancies.saturating_sub(taken);
        let mut again: Option<Time> = None;
        for place in 0..bookings.demands.len() {
            let Demand { key, costs, .. } = &bookings.demands[place];
            let (held, last) = self.rules.limits.slots_of(key, costs);
            let plan = bookings.plan(now, place, vacancies, held, last);
            let Demand { key, costs, needed } = &bookings.demands[place];
            let has_slot = held > 0 && needed.since <= now;
            // From here on, a batch costs what its slot is booked for.
            if self.rules.former.sums_costs() && (has_slot || matches!(plan, Plan::Ask(_))) {
                let is_meant = |lane: &Lane| bookings.key(lane) == *key;
                if self.queue.fix(now, costs, is_meant, &self.rules) && has_slot {
                    again = Some(now);
                }
            }
            match plan {
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

    /// Nothing more is released, so that all slots go back, those on their way as well. Returns until when these are
    /// waited for.
    fn give_back_all(&mut self, now: Time) -> Option<Time> {
        let bookings = self.bookings.as_mut()?;
        let surplus = self.rules.limits.take_surplus(now, |_, _| Needed::default());
        self.actions.extend(surplus.into_iter().map(|(order, slots)| Action::GiveBack(order, slots)));
        bookings.last_answer(now)
    }

    /// The store has answered.
    pub fn booked(&mut self, now: Time, order: &Order, answer: Answer) {
        self.bookings.iter_mut().for_each(|bookings| bookings.note(now, order, &answer));
        self.rules.limits.put(&order.key, &order.costs, &answer.slots);
        if let Some(at) = answer.ask_again.filter(|_| !order.waits) {
            self.rules.limits.refuse_until(now, &order.key, &order.costs, at);
            self.queue.reconsider(&self.rules);
        }
        // They may be earlier than those held: slots that others gave back.
        if let Some(first) = answer.slots.first() {
            self.queue.reconsider_after(Verdict::At(first.at), &self.rules);
        }
        if let Some(what) = answer.warning {
            let silent = answer.silent_until.map(|until| until.since(now));
            self.tell(Notice::StateLost { what, silent });
        }
    }

    /// The store cannot be asked any more.
    pub fn booking_failed(&mut self, exit: Exit, error: Error) {
        self.bookings.iter_mut().for_each(|bookings| bookings.orders.clear());
        self.give_up(exit, error);
    }
}

/// Whether a release is ever granted.
fn check_ever_admitted(terms: &BookingTerms, front: &Items, costs: &[u64]) -> Result<()> {
    for (most, cost) in terms.most.iter().zip(costs) {
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
    use crate::limiter::Slot;

    const SECONDS: [Time; 4] = [Time(0), Time(SECOND), Time(2 * SECOND), Time(3 * SECOND)];

    fn bookings() -> Bookings {
        Bookings::new(BookingTerms { span: 20, longest_span: 30, most: vec![400], patience: 7 }, false, true)
    }

    /// How many are asked for at an instant, or when to look again.
    fn plan(
        bookings: &mut Bookings,
        now: Time,
        wanted: u64,
        vacancies: u64,
        held: &[Time],
    ) -> Result<u64, Option<Time>> {
        bookings.demands.clear();
        bookings.places.clear();
        let needed = Needed { count: wanted, since: SECONDS[1] };
        bookings.demand(Key::new(), &[1].into(), needed);
        match bookings.plan(now, 0, vacancies, held.len() as u64, held.last().copied()) {
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
    fn less_is_asked_for_while_slots_come_too_late() {
        let [_, one, two, three] = SECONDS;
        let mut bookings = bookings();
        let order = Order { key: Key::new(), costs: [1].into(), count: 20, waits: true, turn: None };
        let slots = |until| Answer { slots: vec![Slot { at: one, until }], ..Answer::default() };
        let mut spans = Vec::new();
        for until in [one, one, three, three] {
            bookings.note(two, &order, &slots(until));
            spans.push(bookings.span());
        }
        assert_eq!(spans, [10, 5, 10, 20]);
    }

    #[test]
    fn one_order_at_a_time_and_none_before_it_makes_sense() {
        let [_, one, two, three] = SECONDS;
        let mut bookings = bookings();
        let order = Order { key: Key::new(), costs: [1].into(), count: 3, waits: true, turn: None };
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

    /// An answer that is on its way at the end is waited for, but not for ever.
    #[test]
    fn the_end_waits_for_an_answer_for_a_while() {
        let [zero, one, ..] = SECONDS;
        let mut bookings = bookings();
        assert_eq!(bookings.last_answer(zero), None);
        assert_eq!(plan(&mut bookings, one, 3, 9, &[]), Ok(3));
        let ends = Time(one.0 + 7);
        assert_eq!([one, Time(one.0 + 6)].map(|now| bookings.last_answer(now)), [Some(ends), Some(ends)]);
        assert_eq!(bookings.last_answer(ends), None);
    }

    #[test]
    fn lanes_that_are_charged_the_same_need_slots_together() {
        let [zero, one, two, _] = SECONDS;
        let mut bookings = bookings();
        let (cheap, dear): (Rc<[u64]>, Rc<[u64]>) = ([1].into(), [2].into());
        for (costs, count, since) in [(&cheap, 3, two), (&dear, 1, zero), (&cheap, 2, one)] {
            bookings.demand(Key::new(), costs, Needed { count, since });
        }
        assert_eq!(bookings.needed(&[], &cheap), Needed { count: 5, since: one });
        assert_eq!(bookings.needed(&[], &dear), Needed { count: 1, since: zero });
        assert_eq!(bookings.needed(b"a", &dear), Needed::default());
    }
}
