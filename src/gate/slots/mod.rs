//! Slots of shared limits: booked for waiting items, and given back when they are not needed.

mod claims;
mod key_claims;
mod lease;
mod news;
mod order;
mod orders;

use std::borrow::Cow;
use std::rc::Rc;

pub use self::news::News;
pub use self::order::{Answer, BookedBy, NewLimits, Order, Overruns, Slot, Turn};

use self::claims::Claims;
use self::order::Ordered;
use self::orders::Orders;
use super::charges::{Admitted, Claim};
use super::{Charged, Charges, Gate, Opening, Own, Part, Properties, Request, Why};
use crate::charge::Key;
use crate::config::Rate;
use crate::time::{Time, Wall};

/// The terms on which a store gives out slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookingTerms {
    /// The most slots that one order asks for.
    pub span: u64,
    /// The most that one order asks for if answers are slow.
    pub longest_span: u64,
    /// The most that one release may cost under each limit.
    pub most: Vec<u64>,
    /// D: the nanoseconds for which a slot is good.
    pub deadline: u64,
    /// The longest wait for an answer at the end of a run, in nanoseconds.
    pub patience: u64,
    /// The number of changes of the limits since the store was opened.
    pub changes: u64,
}

/// The next releases of a lane, all alike.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// The instant at which it became next in line.
    pub since: Time,
    /// The cost under each limit.
    pub costs: &'a Rc<[u64]>,
    /// The values of the limits' key selectors.
    pub keys: &'a [Key],
    /// The number of releases like this.
    pub count: u64,
    /// A slot further ahead than this, in nanoseconds, is of no use.
    pub within: u64,
}

/// The steps needed to release waiting items in time.
#[derive(Debug, Default)]
pub struct Steps {
    /// Orders to send to the store.
    pub orders: Vec<Order>,
    /// Slots to give back; they are not used any more.
    pub returned: Vec<(Order, Vec<Slot>)>,
    /// Releases that nothing more may join, as slots are booked for their present costs: the cost of each under each
    /// limit, and their key; `None` if keys share slots.
    pub closed: Vec<(Option<Key>, Rc<[u64]>)>,
    /// The instant at which to look again.
    pub again: Option<Time>,
}

/// The gate of shared limits: allows one release in each slot that a store has booked.
///
/// It knows no rule, as the store obeyed the rule when it gave out the slots.
#[derive(Clone)]
pub struct Slots {
    rates: Vec<Rate>,
    properties: Properties,
    wall: Wall,
    /// The clock by which the slots were booked, if that matters.
    booked_by: Option<BookedBy>,
    claims: Claims,
    /// Given up, and to be given back.
    surrendered: Vec<(Order, Vec<Slot>)>,
    orders: Orders,
    charged: Vec<Charged>,
    news: Option<News>,
    revision: u64,
    terms: BookingTerms,
    /// Releases may wait for future slots.
    waits: bool,
    /// The deadline for answers at the end of the run.
    ends: Option<Time>,
}

/// The key that a release is charged to; empty unless each key has its own slots.
fn charged_key(keys: &[Key], by_key: bool) -> &[u8] {
    keys.first().filter(|_| by_key).map_or(&[], |key| key.as_slice())
}

impl Slots {
    /// Slots for limits shared on these terms. If releases may `wait`, future slots are booked, too.
    pub fn new(rates: Vec<Rate>, terms: BookingTerms, wait: bool) -> Self {
        let by_key = rates.iter().any(Rate::is_by_key);
        // No slot is before one already booked. If limits apply only to some items, an item with a long wait would hold
        // up the others, so each books only what is free when it asks.
        let is_mixed = !by_key && rates.iter().any(|rate| rate.only.is_some());
        Slots {
            properties: Properties::new(&rates, Some(&terms), false),
            rates,
            wall: Wall::EPOCH,
            booked_by: None,
            claims: Claims::new(by_key),
            surrendered: Vec::new(),
            orders: Orders::new(terms.span, terms.longest_span, wait && !is_mixed),
            charged: Vec::new(),
            news: None,
            revision: 0,
            terms,
            waits: wait,
            ends: None,
        }
    }

    /// An order by the present limits.
    fn by_present_limits(&self, order: Order) -> Order {
        Order { changes: self.terms.changes, ..order }
    }

    /// The slots for requests like this, earliest first.
    pub fn slots(&self, request: &Request) -> impl Iterator<Item = Slot> {
        self.claims.slots(request)
    }

    /// Adds the orders for `claims`, which lanes need, to `steps`.
    fn order(&mut self, now: Time, claims: &[Claim], vacancies: u64, steps: &mut Steps) {
        let soon = now.saturating_add(self.orders.lead());
        let is_bounded = vacancies < u64::MAX;
        let taken = if is_bounded { self.claims.until(soon).saturating_add(self.orders.coming) } else { 0 };
        let mut vacancies = vacancies.saturating_sub(taken);
        let by_key = self.claims.by_key;
        for (key, costs) in claims {
            let known = self.claims.of(key);
            let heard = known.heard.map(|heard| (heard, known.confirm_from));
            let lease = known.lease(costs);
            let plan = self.orders.plan(now, key, lease, heard, vacancies);
            let has_slot = !lease.slots.is_empty() && lease.demand.since <= now;
            // From here on, the costs of a batch must stay those its slot is booked for.
            if has_slot || plan.is_ok() {
                steps.closed.push((by_key.then(|| key.clone()), Rc::clone(costs)));
            }
            match plan {
                Err(again) => steps.again = steps.again.into_iter().chain(again).min(),
                Ok(order) => {
                    vacancies -= order.count;
                    self.orders.coming += order.count;
                    lease.ordered = Some(Ordered::Coming(now, order.count));
                    steps.orders.push(order);
                }
            }
        }
    }

    /// At the end of the run: when to stop waiting for answers, if any are still to come.
    fn last_answer(&mut self, now: Time) -> Option<Time> {
        if self.orders.coming == 0 {
            return None;
        }
        let ends = *self.ends.get_or_insert_with(|| now.saturating_add(self.terms.patience));
        Some(ends).filter(|ends| *ends > now)
    }

    /// Notes that answers for this key later than `at` may have become more lenient.
    fn tell(&mut self, at: Time, key: &Key) {
        let are_keyed = self.claims.by_key;
        self.news.get_or_insert_with(|| News::new(at, are_keyed)).add(at, key);
    }

    /// Takes out the slots to give back: those surrendered, and those that are not needed.
    fn take_returned(&mut self, now: Time) -> Vec<(Order, Vec<Slot>)> {
        let surplus = self.claims.take_surplus(now);
        self.revision += u64::from(!surplus.is_empty());
        let returned = self.surrendered.drain(..).chain(surplus);
        returned.map(|(order, slots)| (Order { changes: self.terms.changes, ..order }, slots)).collect()
    }

    /// Gives up all slots that were booked by another clock than this. All who share limits book by the same one.
    fn keep_booked_by(&mut self, now: Time, clock: Option<BookedBy>) {
        if self.booked_by != clock && self.booked_by.is_some() {
            self.surrendered.extend(self.claims.forget_booked(now));
            self.revision += 1;
        }
        self.booked_by = clock;
    }

    /// Records an answer, and has the lanes it may concern ask again.
    fn note(&mut self, now: Time, order: &Order, answer: &Answer) {
        let known = self.claims.of(&order.key);
        let (was_held, is_unconfirmed) = (known.held_until > now, known.has_unconfirmed());
        self.claims.hear(now, order, answer);
        self.revision += 1;
        if !order.is_for_slots() || was_held || answer.held.is_some() {
            self.tell(now, &order.key);
        }
        if is_unconfirmed || order.within == 0 && answer.next.is_some() {
            self.tell(Time(u64::MAX), &order.key);
        }
        // New slots may be earlier than those held: slots that other runs gave back.
        if let Some(first) = answer.slots.first() {
            self.tell(first.at, &order.key);
        }
    }
}

impl Gate for Slots {
    fn rates(&self) -> &[Rate] {
        &self.rates
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn revision(&self, part: Part) -> u64 {
        match part {
            Part::Common => 0,
            Part::Keyed | Part::All => self.revision,
        }
    }

    /// Slots booked by a clock that has been set since may be in another period of the calendar, or in the hours of a
    /// limit. If it was set by no more than half of what they keep from the ends of these, they are good.
    fn set_wall(&mut self, now: Time, wall: Wall) {
        self.wall = wall;
        if let Some(BookedBy::Wall(by)) = self.booked_by
            && wall.differs(by, self.terms.deadline / 2)
        {
            self.keep_booked_by(now, None);
        }
    }

    fn ask(&self, part: Part, request: &Request, _: Time) -> Opening {
        match part {
            Part::Common => Opening::at(request.since),
            Part::Keyed | Part::All => self.claims.opening(request),
        }
    }

    fn judged(&self, request: &Request) -> Opening {
        match self.claims.expected(request) {
            Some(_) => Opening::at(request.since),
            None => self.claims.opening(request),
        }
    }

    fn why(&self, request: &Request, _: Time) -> Option<Why> {
        // With several shared limits, it is not known which one.
        Some(Why::Slot(only_charged(request.costs).filter(|_| self.claims.waits_for_limit(request))))
    }

    fn refusing(&mut self, _: &mut Charges, request: &Request) -> Option<Why> {
        let is_refused =
            self.claims.expected(request).is_some() && self.claims.slots(request).next().is_none();
        is_refused.then(|| Why::Slot(only_charged(request.costs)))
    }

    fn fits(&mut self, _: &mut Charges, now: Time, request: &Request) -> bool {
        self.claims.is_open(now, request)
    }

    fn admit(&mut self, charges: &mut Charges, now: Time, request: &Request, most: u64) -> Result<u64, Part> {
        charges.begin(&[]);
        let taken = (!request.is_free()).then(|| self.claims.take(now, request, most));
        let count = taken.as_ref().map_or(most, |taken| taken.slots.len() as u64);
        if count == 0 {
            return Err(Part::Keyed);
        }
        self.revision += u64::from(taken.is_some());
        charges.add(Admitted { since: request.since, count, taken });
        Ok(count)
    }

    fn commit(&mut self, charges: &mut Charges, now: Time, left: u64, _: bool) -> Vec<Order> {
        let mut reports = Vec::new();
        charges.take_all(left, |release, count, _| {
            let taken = release.taken.into_iter();
            reports
                .extend(taken.filter_map(|taken| self.claims.commit(now, taken, count, &mut self.charged)));
        });
        self.revision += 1;
        reports.into_iter().map(|report| self.by_present_limits(report)).collect()
    }

    fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    fn charged(&self) -> &[Charged] {
        &self.charged
    }

    fn foreseen(&self, now: Time) -> Cow<'_, Own> {
        Cow::Owned(Own::new(self.rates.clone(), now, self.wall))
    }

    fn most_demanded(&self) -> u64 {
        // No more slots than these are booked at a time.
        2 * self.orders.span()
    }

    fn prepare(&mut self, now: Time, demands: &mut dyn Iterator<Item = Demand>, vacancies: u64) -> Steps {
        self.ends = None;
        self.claims.need_nothing();
        let demands = demands.filter(|demand| demand.costs.iter().any(|&cost| cost > 0));
        let claims: Vec<_> = demands.filter_map(|demand| self.claims.need(&demand)).collect();
        let mut steps = Steps { returned: self.take_returned(now), ..Steps::default() };
        self.order(now, &claims, vacancies, &mut steps);
        steps.orders.iter_mut().for_each(|order| order.changes = self.terms.changes);
        steps
    }

    fn close(&mut self, now: Time) -> Steps {
        self.claims.need_nothing();
        let mut returned = self.take_returned(now);
        let turns = self.claims.take_turns().into_iter();
        returned.extend(turns.map(|order| (self.by_present_limits(order), Vec::new())));
        Steps { returned, again: self.last_answer(now), ..Steps::default() }
    }

    fn bound(&self) -> &[u64] {
        &self.terms.most
    }

    fn follow(&mut self, terms: &BookingTerms) -> bool {
        let is_new = terms.changes > self.terms.changes;
        if is_new {
            self.terms = BookingTerms { patience: self.terms.patience, ..terms.clone() };
        }
        is_new
    }

    fn change(&mut self, now: Time, rates: Vec<Rate>) {
        let mut claims = std::mem::take(&mut self.claims);
        let new = Slots::new(rates, self.terms.clone(), self.waits);
        claims.follow_change(new.claims.by_key);
        let (wall, news, revision) = (self.wall, Some(News::new(now, false)), self.revision + 1);
        *self = Slots { wall, claims, news, revision, ..new };
    }

    fn answered(&mut self, now: Time, order: &Order, answer: &Answer) {
        let is_outdated = order.changes != self.terms.changes;
        if answer.booked_by.is_some() {
            self.keep_booked_by(now, answer.booked_by);
        }
        if order.is_for_slots() && !is_outdated {
            let ordered = &mut self.claims.of(&order.key).lease(&order.costs).ordered;
            *ordered = self.orders.answered(now, *ordered, order, answer);
        }
        self.note(now, order, answer);
    }

    fn is_asking(&self) -> bool {
        self.orders.coming > 0
    }

    fn store_failed(&mut self) {
        self.orders.coming = 0;
    }

    fn expire(&mut self, now: Time) -> bool {
        let is_any = self.claims.expire(now);
        self.revision += u64::from(is_any);
        is_any
    }

    fn expected(&self, request: &Request) -> Option<Time> {
        self.claims.expected(request)
    }

    fn hold(&mut self, now: Time, request: &Request, until: Time) -> Option<Order> {
        let order = self.claims.hold(request, until);
        self.revision += 1;
        self.tell(now, &order.key);
        Some(self.by_present_limits(order))
    }

    fn held_until(&self, request: &Request) -> Time {
        self.claims.held_until(request)
    }
}

/// The only limit that charges something, if there is just one.
fn only_charged(costs: &[u64]) -> Option<usize> {
    let mut charged = (0..costs.len()).filter(|&limit| costs[limit] > 0);
    charged.next().filter(|_| charged.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Defaults, RateText};

    fn terms(deadline: u64) -> BookingTerms {
        BookingTerms { span: 20, longest_span: 30, most: vec![400], deadline, patience: 7, changes: 0 }
    }

    /// At the end, an answer still to come is waited for, but not for ever.
    #[test]
    fn the_end_waits_for_an_answer_for_a_while() {
        let terms = terms(0);
        let mut slots = Slots::new(Vec::new(), terms, true);
        assert_eq!(slots.last_answer(Time(0)), None);
        let (since, costs) = (Time(1), Rc::from([1]));
        let demand = Demand { since, costs: &costs, keys: &[], count: 3, within: u64::MAX };
        let steps = slots.prepare(Time(1), &mut [demand].into_iter(), 9);
        assert_eq!(steps.orders.len(), 1);
        assert_eq!([1, 7].map(|now| slots.last_answer(Time(now))), [Some(Time(8)), Some(Time(8))]);
        assert_eq!(slots.last_answer(Time(8)), None);
    }

    #[test]
    fn slots_are_given_up_once_the_wall_clock_is_set() {
        let terms = terms(4);
        let rate: RateText = "2/d,algo=calendar,tz=UTC".parse().unwrap();
        let rate = rate.resolve(&Defaults::default()).unwrap();
        let mut slots = Slots::new(vec![rate], terms, true);
        let (key, costs) = (Key::new(), Rc::from([1]));
        let order = |count| Order::new(key.clone(), [1], count);
        let booked = [3, 9].map(|at| Slot { at: Time(at), until: Time(at + 5) });
        let ask_again = Some(Time(90));
        let answer = |shown| {
            let booked_by = Some(BookedBy::Wall(Wall::new(Time(1), Time(shown))));
            Answer { slots: booked.into(), ask_again, booked_by, ..Answer::default() }
        };
        let count = |slots: &Slots| slots.claims.until(Time(u64::MAX));
        slots.set_wall(Time(1), Wall::new(Time(1), Time(51)));
        slots.answered(Time(1), &order(2), &answer(50));
        // By up to half of the reserve, altogether.
        for shown in [53, 54, 55] {
            slots.set_wall(Time(4), Wall::new(Time(4), Time(shown)));
            assert_eq!(count(&slots), 2);
        }
        slots.set_wall(Time(4), Wall::new(Time(4), Time(56)));
        assert_eq!(count(&slots), 0);
        let since = Time(1);
        let demand = Demand { since, costs: &costs, keys: &[], count: 3, within: u64::MAX };
        let steps = slots.prepare(Time(4), &mut [demand].into_iter(), 9);
        // The first one had begun.
        assert_eq!(steps.returned, [(order(1), vec![booked[1]])]);
        assert_eq!(steps.orders.len(), 1);
        // Those on their way were booked by the clock as it was.
        slots.answered(Time(5), &order(2), &answer(50));
        slots.set_wall(Time(5), Wall::new(Time(5), Time(57)));
        assert_eq!((count(&slots), slots.surrendered.len()), (0, 1));
        assert!(slots.claims.of(&key).lease(&costs).ordered.is_none());
        // Those of another run were booked by another clock, so that state has let go of ours.
        [52, 53].into_iter().for_each(|shown| slots.answered(Time(5), &order(2), &answer(shown)));
        assert_eq!((count(&slots), slots.surrendered.len()), (2, 2));
        // A server has its own clock.
        let mut far = Slots::new(slots.rates, slots.terms, true);
        for (times_set, given_up) in [(0, 0), (0, 0), (1, 1)] {
            let slots = if times_set == 0 && count(&far) > 0 { vec![] } else { booked.into() };
            let booked_by = Some(BookedBy::Server(times_set));
            far.answered(Time(1), &order(2), &Answer { slots, booked_by, ..answer(50) });
            far.set_wall(Time(1), Wall::new(Time(1), Time(90)));
            assert_eq!((count(&far), far.surrendered.len()), (2, given_up));
        }
    }
}
