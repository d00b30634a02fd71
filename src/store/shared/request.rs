//! What processes want of a record, encoded so that one of them can decide for all that wait: they get their slots in
//! the order in which they asked, with one swap.

use std::mem;

use serde::Deserialize;

use super::Booking;
use super::returnable::{BookedIn, Returned};
use crate::charge::Key;
use crate::rule::{pack, unpack};
use crate::store::ledger::BookingRules;
use crate::store::record::Record;
use crate::store::vault::{Reading, Value, between_looks};
use crate::store::{Answer, BookedBy, Order, Overruns, Slot, Turn};
use crate::time::{Time, Wall};

/// The most slots that another process may want at once.
const MAX_SLOTS: u64 = 1000;

/// The most instants in a request or a reply.
const MAX_INSTANTS: u64 = 8 * MAX_SLOTS;

/// Something that a process wants of a record.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// Slots, or to report something; and slots that came too late are given back, by the clock of the vault.
    Book(Order, Vec<Time>),
    /// Slots that were booked at the costs of an order are given back.
    GiveBack(Order, Vec<Returned>),
}

/// What was decided on it. All instants are on the clock of the vault.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reply {
    /// What slots are booked in.
    pub(super) booked_in: BookedIn,
    /// When it was decided.
    pub(super) decided: Time,
    pub(super) answer: Answer,
}

/// A request as another process reads it: an array of these, without their names, as many wait in a small value.
#[derive(Deserialize)]
struct WireRequest {
    /// The checksum of the limits that it is made for.
    limits: u32,
    costs: Box<[u64]>,
    /// `None` if only something is given back, with the turn.
    count: Option<u64>,
    within: u64,
    turn: Option<u64>,
    overrun: Option<Time>,
    hold: Option<Time>,
    /// Instants.
    late: String,
    /// Instants, with what they were booked in.
    returned: Vec<(BookedIn, String)>,
}

/// A reply in the same form.
#[derive(Deserialize)]
struct WireReply {
    booked_in: BookedIn,
    decided: Time,
    /// Instants.
    slots: String,
    ask_again: Option<Time>,
    next: Option<Time>,
    turn: Option<u64>,
    held: Option<Time>,
    overruns: Overruns,
    wall: Option<Wall>,
}

impl Request {
    /// The encoded request, with all instants on the clock of the vault, for these limits, after this number of
    /// changes: whoever has not heard of the last one needs to learn of it.
    pub(super) fn encode(&self, changes: u64, limits: &str, reading: &Reading) -> Value {
        let (order, late, returned) = match self {
            Request::Book(order, late) => (order, &late[..], &[][..]),
            Request::GiveBack(order, returned) => (order, &[][..], &returned[..]),
        };
        if order.changes != changes {
            return Value::new();
        }
        let Order { costs, count, within, turn, overrun, hold, .. } = on_its_clock(order, reading);
        let alike = returned.chunk_by(|one, next| one.booked_in == next.booked_in);
        let instants = |alike: &[Returned]| pack_instants(alike.iter().map(|returned| returned.at));
        let returned: Vec<_> = alike.map(|alike| (alike[0].booked_in, instants(alike))).collect();
        let count = if let Request::Book(..) = self { Some(count) } else { None };
        let (limits, turn) = (crc32fast::hash(limits.as_bytes()), turn.map(|turn| turn.0));
        let late = pack_instants(late.iter().copied());
        let wire = (limits, costs, count, within, turn, overrun, hold, late, returned);
        serde_json::to_vec(&wire).expect("it has no keys")
    }

    /// Reads a request that is kept for `key`. `None` if nobody else can decide on it.
    fn decode(wire: &[u8], rules: &BookingRules, record: &Record) -> Option<WireRequest> {
        let wire: WireRequest = serde_json::from_slice(wire).ok()?;
        let quotas = &rules.policy().quotas;
        let is_for_these = wire.limits == crc32fast::hash(record.limits.as_bytes());
        let is_possible = wire.costs.len() == quotas.len()
            && wire.costs.iter().any(|&cost| cost > 0)
            && wire.costs.iter().zip(quotas).all(|(&cost, quota)| cost <= quota.most());
        Some(wire).filter(|_| is_for_these && is_possible)
    }

    /// Whether this could be what was decided on it.
    pub(super) fn may_be_replied(&self, reply: &Reply) -> bool {
        let Answer { slots, ask_again, .. } = &reply.answer;
        let Request::Book(order, _) = self else { return slots.is_empty() };
        let needs_none = !order.is_for_slots() || order.count == 0;
        slots.len() as u64 <= order.count && (needs_none || !slots.is_empty() || ask_again.is_some())
    }
}

impl WireRequest {
    fn order(&self) -> Order {
        Order {
            count: self.count.unwrap_or(0).min(MAX_SLOTS),
            within: self.within,
            turn: self.turn.map(Turn),
            overrun: self.overrun,
            hold: self.hold,
            ..Order::new(Key::new(), self.costs.clone(), 0)
        }
    }
}

impl Reply {
    fn encode(&self) -> Value {
        let Answer { slots, ask_again, next, turn, held, overruns, booked_by, .. } = &self.answer;
        let slots = pack_instants(slots.iter().map(|slot| slot.at));
        let wall = booked_by.and_then(|by| if let BookedBy::Wall(wall) = by { Some(wall) } else { None });
        let turn = turn.map(|turn| turn.0);
        let wire = (self.booked_in, self.decided, slots, ask_again, next, turn, held, overruns, wall);
        serde_json::to_vec(&wire).expect("it has string keys only")
    }

    /// Reads the reply to a request. `None` if the request was not decided on.
    pub(super) fn decode(wire: &[u8]) -> Option<Self> {
        let wire: WireReply = serde_json::from_slice(wire).ok()?;
        let slots = unpack_instants(&wire.slots)?.into_iter().map(|at| Slot { at, until: at });
        let answer = Answer {
            slots: slots.collect(),
            ask_again: wire.ask_again,
            next: wire.next,
            turn: wire.turn.map(Turn),
            held: wire.held,
            overruns: wire.overruns,
            booked_by: wire.wall.map(BookedBy::Wall),
            ..Answer::default()
        };
        Some(Reply { booked_in: wire.booked_in, decided: wire.decided, answer })
    }
}

impl Booking<'_> {
    /// Decides on a request of this process and on those of others, which wait. Returns the replies; the request of
    /// another that cannot be decided on here gets an empty one.
    pub(super) fn decide(&mut self, own: &Request, others: &[&[u8]]) -> (Reply, Vec<Value>) {
        let read: Vec<_> = others.iter().map(|wire| Request::decode(wire, self.rules, self.record)).collect();
        read.iter().flatten().for_each(|wire| self.take_back_from(wire));
        let own = self.prepare(own);
        let theirs = read.iter().flatten().map(|wire| wire.count.map(|_| wire.order()));
        let orders: Vec<_> = [own].into_iter().chain(theirs).collect();
        let placed: Vec<_> = orders.iter().flatten().cloned().collect();
        let mut answers = self.answers(&placed).into_iter();
        let (booked_in, decided) = (self.booked_in(), self.reading.shown);
        let unanswered = Answer { held: self.held_until(), ..Answer::default() };
        let mut replies = orders.iter().map(|order| {
            let answer = order.as_ref().and_then(|_| answers.next()).unwrap_or_else(|| unanswered.clone());
            Reply { booked_in, decided, answer }
        });
        let own = replies.next().expect("there is one for each order");
        let reply_to = |wire: &Option<WireRequest>| {
            wire.as_ref().and_then(|_| replies.next()).map_or_else(|| b"-".to_vec(), |reply| reply.encode())
        };
        (own, read.iter().map(reply_to).collect())
    }

    /// Takes back what a request of this process gives back. Returns the order to serve; if limits were replaced since,
    /// the process first has to learn of it.
    fn prepare(&mut self, request: &Request) -> Option<Order> {
        let (Request::Book(order, _) | Request::GiveBack(order, _)) = request;
        let is_outdated = order.changes != self.changes;
        match request {
            Request::Book(_, late) if !is_outdated => self.take_back(&order.costs, late.iter().copied()),
            Request::Book(..) => {}
            Request::GiveBack(_, returned) => {
                let returned = returned.iter().map(|returned| (returned.booked_in, returned.at));
                self.take_back_booked(&order.costs, returned);
                if !is_outdated {
                    self.rules.give_up_turn(&mut self.record.ledger, order);
                }
                return None;
            }
        }
        if is_outdated && order.is_for_slots() {
            return None;
        }
        let order = if is_outdated { self.rules.updated(order) } else { order.clone() };
        Some(on_its_clock(&order, self.reading))
    }

    /// Books for orders, which were placed in this order.
    fn answers(&mut self, orders: &[Order]) -> Vec<Answer> {
        let (rules, now, held) = (self.rules, self.reading.shown, self.held_until());
        let ledger = &mut self.record.ledger;
        if let ([order], None) = (orders, held) {
            return vec![rules.book(ledger, now, order)];
        }
        if held.is_none() {
            // What is due before it is known of is of no use.
            let deadline = rules.policy().deadline;
            let on_the_way = self.reading.took().saturating_mul(2).saturating_add(between_looks(deadline));
            return rules.deal(ledger, now, now.saturating_add(on_the_way.min(deadline)), orders);
        }
        let mut answer = |order: &Order| match held.filter(|_| order.is_for_slots()) {
            Some(until) => rules.answer_held(ledger, now, until, order),
            None => rules.book(ledger, now, order),
        };
        orders.iter().map(&mut answer).collect()
    }

    fn held_until(&self) -> Option<Time> {
        self.record.ledger.hold.in_force(self.reading.shown).max(self.held)
    }

    fn booked_in(&self) -> BookedIn {
        (self.record.epoch(), self.record.revision, self.record.wall)
    }

    fn take_back(&mut self, costs: &[u64], slots: impl Iterator<Item = Time>) {
        self.rules.give_back(&mut self.record.ledger, self.reading.shown, costs, slots);
    }

    /// Takes back what a request of another process gives back.
    fn take_back_from(&mut self, wire: &WireRequest) {
        let instants = |text: &str| unpack_instants(text).unwrap_or_default().into_iter();
        self.take_back(&wire.costs, instants(&wire.late));
        for &(booked_in, ref text) in &wire.returned {
            self.take_back_booked(&wire.costs, instants(text).map(|at| (booked_in, at)));
        }
        if wire.count.is_none() {
            self.rules.give_up_turn(&mut self.record.ledger, &wire.order());
        }
    }

    /// Takes back slots that were booked in the same history, under the same limits and by the same wall clock.
    fn take_back_booked(&mut self, costs: &[u64], slots: impl Iterator<Item = (BookedIn, Time)>) {
        let booked_in = self.booked_in();
        self.take_back(costs, slots.filter(|(of, _)| *of == booked_in).map(|(_, at)| at));
    }
}

/// Instants as text, in their order: the nanoseconds from each to the next, the first since the clock began, and how
/// many such steps follow each other.
fn pack_instants(instants: impl Iterator<Item = Time>) -> String {
    let (mut text, mut before, mut instants) = (String::new(), Time::ZERO, instants.collect::<Vec<_>>());
    instants.sort_unstable();
    let steps = instants.into_iter().map(|at| at.since(mem::replace(&mut before, at)));
    for steps in steps.collect::<Vec<_>>().chunk_by(u64::eq) {
        pack(&mut text, steps[0]);
        pack(&mut text, steps.len() as u64);
    }
    text
}

/// The instants that a text consists of. `None` for another text, and for too many.
fn unpack_instants(text: &str) -> Option<Vec<Time>> {
    let (mut numbers, mut instants, mut at) = (unpack(text), Vec::new(), Time::ZERO);
    while let Some(step) = numbers.next() {
        let (step, count) = (step?, numbers.next()??);
        if count > MAX_INSTANTS - instants.len() as u64 {
            return None;
        }
        instants.extend((0..count).map(|_| {
            at = at.saturating_add(step);
            at
        }));
    }
    Some(instants)
}

/// An order with its instants on the clock of the vault.
fn on_its_clock(order: &Order, reading: &Reading) -> Order {
    let of_ours = |at: Option<Time>| at.map(|at| reading.of_ours(at));
    Order { overrun: of_ours(order.overrun), hold: of_ours(order.hold), ..order.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rate;
    use crate::store::ledger::Ledger;
    use crate::store::vault::Origin;
    use crate::store::{Policy, Reserve};

    fn rules() -> BookingRules {
        BookingRules::new(Policy::new(&["9/s".parse::<Rate>().unwrap()], Reserve::REMOTE))
    }

    fn record(ledger: Ledger) -> Record {
        Record::new(&rules().policy().text, Origin::default(), Wall::EPOCH, Time(5), ledger)
    }

    fn reading(shown: u64) -> Reading {
        Reading { asked: Time(90), shown: Time(shown), answered: Time(110), wall: Wall::EPOCH }
    }

    #[test]
    fn a_reply_reads_back() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let some = |random: &mut fastrand::Rng| random.bool().then(|| Time(random.u64(..)));
            let mut instants: Vec<_> = (0..random.usize(0..9)).map(|_| Time(random.u64(..))).collect();
            instants.sort_unstable();
            let answer = Answer {
                slots: instants.into_iter().map(|at| Slot { at, until: at }).collect(),
                ask_again: some(&mut random),
                next: some(&mut random),
                held: some(&mut random),
                turn: some(&mut random).map(|at| Turn(at.0)),
                overruns: Overruns { costs: [random.u64(..)].into(), until: Time(random.u64(..)) },
                booked_by: random.bool().then_some(BookedBy::Wall(Wall::EPOCH)),
                ..Answer::default()
            };
            let reply = Reply {
                booked_in: (random.u64(..), random.u64(..), Wall::EPOCH),
                decided: Time(random.u64(..)),
                answer,
            };
            let wire = reply.encode();
            assert!(!wire.iter().any(|byte| b"\t\n".contains(byte)));
            assert_eq!(Reply::decode(&wire), Some(reply));
        }
    }

    /// Whoever decides, the same is booked.
    #[test]
    fn another_process_decides_in_the_same_way() {
        let mut random = fastrand::Rng::with_seed(2);
        let rules = rules();
        let (mut ours, mut theirs) = (record(rules.begin(Time(5))), record(rules.begin(Time(5))));
        let mut now = 1_000_000_000;
        for _ in 0..300 {
            now += random.u64(0..300_000_000);
            let order = Order::new(Key::new(), [random.u64(1..3)], random.u64(0..6));
            let order = Order { within: [0, now, u64::MAX][random.usize(..3)], ..order };
            let at = Time(random.u64(90..110));
            let order = match random.u8(0..8) {
                0 => Order { overrun: Some(at), ..order },
                1 => Order { hold: Some(Time(at.0 + 900_000)), ..order },
                _ => order,
            };
            let given = vec![Returned { booked_in: (ours.epoch(), 0, Wall::EPOCH), at: ours.ledger.newest }];
            let request = match random.u8(0..8) {
                0 => Request::GiveBack(order, given),
                _ => Request::Book(order, Vec::new()),
            };
            let reading = Reading { asked: Time(100), answered: Time(100), ..reading(now) };
            let booking =
                |record| Booking { rules: &rules, record, reading: &reading, held: None, changes: 0 };
            let (own, _) = booking(&mut ours).decide(&request, &[]);
            let wire = request.encode(0, &theirs.limits, &reading);
            let nothing = Request::GiveBack(Order::new(Key::new(), [1], 0), Vec::new());
            let (_, replies) = booking(&mut theirs).decide(&nothing, &[&wire]);
            let reply = Reply::decode(&replies[0]).expect("a reply");
            let slots = |reply: &Reply| reply.answer.slots.iter().map(|slot| slot.at).collect::<Vec<_>>();
            assert_eq!(slots(&own), slots(&reply), "{request:?}");
            assert_eq!(own.booked_in, reply.booked_in);
            assert_eq!(ours.ledger, theirs.ledger, "{request:?}");
        }
    }

    #[test]
    fn a_request_for_other_limits_is_left_to_the_one_who_made_it() {
        let rules = rules();
        let mut record = record(rules.begin(Time(5)));
        let before = record.clone();
        let reading = reading(1_000_000_000);
        let mut booking =
            Booking { rules: &rules, record: &mut record, reading: &reading, held: None, changes: 0 };
        let order = |costs: &[u64]| Order::new(Key::new(), costs, 1);
        let request = |order| Request::Book(order, Vec::new());
        let limits = &rules.policy().text;
        let table = [
            request(order(&[1])).encode(0, "8/s", &reading),
            request(order(&[1, 1])).encode(0, limits, &reading),
            request(order(&[0])).encode(0, limits, &reading),
            request(order(&[10])).encode(0, limits, &reading),
            b"{".to_vec(),
            Vec::new(),
        ];
        let others: Vec<_> = table.iter().map(Vec::as_slice).collect();
        let nothing = Request::GiveBack(order(&[1]), Vec::new());
        let (_, replies) = booking.decide(&nothing, &others);
        assert_eq!((replies.len(), replies.iter().filter_map(|reply| Reply::decode(reply)).count()), (6, 0));
        assert_eq!(record, before);
    }

    #[test]
    fn random_words_are_no_request_and_no_reply() {
        let mut random = fastrand::Rng::with_seed(3);
        let (rules, reading) = (rules(), reading(7));
        let record = record(rules.begin(Time(5)));
        let request = Request::Book(Order::new(Key::new(), [1], 4), vec![Time(3)]);
        let reply = Reply { booked_in: (1, 0, Wall::EPOCH), decided: Time(2), answer: Answer::default() };
        for wire in [request.encode(0, &record.limits, &reading), reply.encode()] {
            for _ in 0..5000 {
                let mut wire = wire.clone();
                (0..random.usize(1..4)).for_each(|_| {
                    let at = random.usize(..wire.len());
                    wire[at] = random.u8(..);
                });
                Request::decode(&wire, &rules, &record);
                Reply::decode(&wire);
            }
        }
    }
}
