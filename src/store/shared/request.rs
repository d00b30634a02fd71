//! What processes want of a record, encoded so that one of them can decide for all that wait: they get their slots in
//! the order in which they asked, with one swap.

use std::mem;

use super::Booking;
use super::returnable::{BookedIn, Returned};
use crate::charge::Key;
use crate::rule::{pack, unpack};
use crate::store::vault::{Reading, Value, between_looks};
use crate::store::{Answer, BookedBy, Order, Overruns, Slot, Task, Turn, Wanted};
use crate::time::{Time, Wall};

/// The most slots that another process may want at once.
const MAX_SLOTS: u64 = 1000;

/// The most instants in a request or a reply.
const MAX_INSTANTS: u64 = 8 * MAX_SLOTS;

/// What a process wants of a record.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) order: Order,
    /// The slots of these costs that it gives back.
    pub(super) returned: Vec<Returned>,
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

/// A request on its way: the checksum of the limits that it is made for, its costs and task, and the instants that it
/// gives back, with what they were booked in. An array without names, as many wait in a small value.
type WireRequest = (u32, Box<[u64]>, Task, Vec<(BookedIn, String)>);

/// A reply on its way: what slots are booked in, when it was decided, and the fields of its answer, the slots as packed
/// instants.
type WireReply =
    (BookedIn, Time, String, Option<Time>, Option<Time>, Option<Turn>, Option<Time>, Overruns, Option<Wall>);

impl Request {
    /// The encoded request, with all instants on the clock of the vault, for these limits, after this number of
    /// changes: whoever has not heard of the last one needs to learn of it.
    pub(super) fn encode(&self, changes: u64, limits: &str, reading: &Reading) -> Value {
        let Order { costs, task, .. } = &self.order;
        if self.order.changes != changes {
            return Value::new();
        }
        let alike = self.returned.chunk_by(|one, next| one.booked_in == next.booked_in);
        let instants = |alike: &[Returned]| pack_instants(alike.iter().map(|returned| returned.at));
        let returned: Vec<_> = alike.map(|alike| (alike[0].booked_in, instants(alike))).collect();
        let wire = (crc32fast::hash(limits.as_bytes()), costs, on_its_clock(task, reading), returned);
        serde_json::to_vec(&wire).expect("it has string keys only")
    }

    /// Whether this could be what was decided on it.
    pub(super) fn may_be_replied(&self, reply: &Reply) -> bool {
        let Answer { slots, ask_again, .. } = &reply.answer;
        let Wanted { count, .. } = self.order.wanted().unwrap_or_default();
        slots.len() as u64 <= count && (count == 0 || !slots.is_empty() || ask_again.is_some())
    }
}

impl Reply {
    fn encode(&self) -> Value {
        let Answer { slots, ask_again, next, turn, held, overruns, booked_by, .. } = &self.answer;
        let slots = pack_instants(slots.iter().map(|slot| slot.at));
        let wall = booked_by.and_then(|by| if let BookedBy::Wall(wall) = by { Some(wall) } else { None });
        let wire = (self.booked_in, self.decided, slots, ask_again, next, turn, held, overruns, wall);
        serde_json::to_vec(&wire).expect("it has string keys only")
    }

    /// Reads the reply to a request. `None` if the request was not decided on.
    pub(super) fn decode(wire: &[u8]) -> Option<Self> {
        let wire: WireReply = serde_json::from_slice(wire).ok()?;
        let (booked_in, decided, slots, ask_again, next, turn, held, overruns, wall) = wire;
        let slots = unpack_instants(&slots)?.into_iter().map(|at| Slot { at, until: at }).collect();
        let booked_by = wall.map(BookedBy::Wall);
        let answer = Answer { slots, ask_again, next, turn, held, overruns, booked_by, ..Answer::default() };
        Some(Reply { booked_in, decided, answer })
    }
}

impl Booking<'_> {
    /// Decides on a request of this process and on those of others, which wait. Returns the replies; the request of
    /// another that cannot be decided on here gets an empty one.
    pub(super) fn decide(&mut self, own: &Request, others: &[&[u8]]) -> (Reply, Vec<Value>) {
        let read: Vec<_> = others.iter().map(|wire| self.read(wire)).collect();
        read.iter().flatten().chain([own]).for_each(|request| self.take_back(request));
        let own = self.current(&own.order);
        let own = own.map(|order| order.with(on_its_clock(&order.task, self.reading)));
        let theirs = read.iter().flatten().map(|request| self.current(&request.order));
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
        let reply_to = |request: &Option<Request>| {
            request
                .as_ref()
                .and_then(|_| replies.next())
                .map_or_else(|| b"-".to_vec(), |reply| reply.encode())
        };
        (own, read.iter().map(reply_to).collect())
    }

    /// Reads the request of another process. `None` if only that one can decide on it.
    fn read(&self, wire: &[u8]) -> Option<Request> {
        let (limits, costs, mut task, packed): WireRequest = serde_json::from_slice(wire).ok()?;
        let quotas = &self.rules.policy().quotas;
        let is_possible = limits == crc32fast::hash(self.record.limits.as_bytes())
            && costs.len() == quotas.len()
            && costs.iter().any(|&cost| cost > 0)
            && costs.iter().zip(quotas).all(|(&cost, quota)| cost <= quota.most());
        if let Task::Book(Wanted { count, .. }) | Task::Late(count, _) = &mut task {
            *count = MAX_SLOTS.min(*count);
        }
        let mut returned = Vec::new();
        for (booked_in, text) in packed {
            returned.extend(unpack_instants(&text)?.into_iter().map(|at| Returned { booked_in, at }));
            if returned.len() as u64 > MAX_INSTANTS {
                return None;
            }
        }
        let order = Order { key: Key::new(), costs, changes: self.changes, task };
        is_possible.then_some(Request { order, returned })
    }

    /// Takes back what a request gives back: slots that were booked in the same history, under the same limits and by
    /// the same wall clock, and a turn.
    fn take_back(&mut self, Request { order, returned }: &Request) {
        let (booked_in, now) = (self.booked_in(), self.reading.shown);
        let Booking { rules, record, .. } = self;
        let slots = returned.iter().filter(|returned| returned.booked_in == booked_in);
        rules.give_back(&mut record.ledger, now, &order.costs, slots.map(|returned| returned.at));
        if let Task::GiveBack(_, Some(turn)) = order.task
            && order.changes == self.changes
        {
            rules.give_up_turn(&mut record.ledger, &order.costs, turn);
        }
    }

    /// The order to answer, by the present limits. If these were replaced since, the process first has to learn of it,
    /// unless it is a report.
    fn current(&self, order: &Order) -> Option<Order> {
        match order.task {
            Task::GiveBack(..) => None,
            _ if order.changes == self.changes => Some(order.clone()),
            Task::Book(_) => None,
            Task::Late(..) | Task::Hold(_) => Some(self.rules.updated(order)),
        }
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
            let validity = rules.policy().validity;
            let on_the_way = self.reading.took().saturating_mul(2).saturating_add(between_looks(validity));
            return rules.deal(ledger, now, now.saturating_add(on_the_way.min(validity)), orders);
        }
        let mut answer = |order: &Order| match held.zip(order.wanted()) {
            Some((until, wanted)) => rules.answer_held(ledger, now, until, wanted),
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

/// A task with its instants on the clock of the vault.
fn on_its_clock(task: &Task, reading: &Reading) -> Task {
    match *task {
        Task::Late(count, at) => Task::Late(count, reading.of_ours(at)),
        Task::Hold(until) => Task::Hold(reading.of_ours(until)),
        _ => task.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rate;
    use crate::store::ledger::{BookingRules, Ledger};
    use crate::store::record::Record;
    use crate::store::vault::Origin;
    use crate::store::{Policy, Reserve};

    fn rules() -> BookingRules {
        BookingRules::new(Policy::new(&["9/s".parse::<Rate>().unwrap()], Reserve::REMOTE))
    }

    fn record(ledger: Ledger) -> Record {
        Record::new(&rules().policy().text, Origin::default(), Wall::EPOCH, Time(5), ledger)
    }

    fn nothing() -> Request {
        let order = Order::new(Key::new(), [1], 0).with(Task::GiveBack(Vec::new(), None));
        Request { order, returned: Vec::new() }
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
            let (count, within) = (random.u64(0..6), [0, now, u64::MAX][random.usize(..3)]);
            let (at, turn) = (Time(random.u64(90..110)), random.bool().then(|| Turn(random.u64(..2 * now))));
            let newest = Returned { booked_in: (ours.epoch(), 0, Wall::EPOCH), at: ours.ledger.newest };
            let (task, returned) = match random.u8(0..8) {
                0 => (Task::Late(count, at), Vec::new()),
                1 => (Task::Hold(Time(at.0 + 900_000)), Vec::new()),
                2 => (Task::GiveBack(Vec::new(), turn), vec![newest]),
                _ => (Task::Book(Wanted { count, within, ..Wanted::default() }), Vec::new()),
            };
            let order = Order::new(Key::new(), [random.u64(1..3)], 0).with(task);
            let request = Request { order, returned };
            let reading = Reading { asked: Time(100), answered: Time(100), ..reading(now) };
            let booking =
                |record| Booking { rules: &rules, record, reading: &reading, held: None, changes: 0 };
            let (own, _) = booking(&mut ours).decide(&request, &[]);
            let wire = request.encode(0, &theirs.limits, &reading);
            let (_, replies) = booking(&mut theirs).decide(&nothing(), &[&wire]);
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
        let request = |order| Request { order, returned: Vec::new() };
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
        let (_, replies) = booking.decide(&nothing(), &others);
        assert_eq!((replies.len(), replies.iter().filter_map(|reply| Reply::decode(reply)).count()), (6, 0));
        assert_eq!(record, before);
    }

    #[test]
    fn random_words_are_no_request_and_no_reply() {
        let mut random = fastrand::Rng::with_seed(3);
        let (rules, reading) = (rules(), reading(7));
        let mut record = record(rules.begin(Time(5)));
        let returned = vec![Returned { booked_in: (1, 0, Wall::EPOCH), at: Time(3) }];
        let request = Request { order: Order::new(Key::new(), [1], 4), returned };
        let reply = Reply { booked_in: (1, 0, Wall::EPOCH), decided: Time(2), answer: Answer::default() };
        for wire in [request.encode(0, &record.limits, &reading), reply.encode()] {
            for _ in 0..5000 {
                let mut wire = wire.clone();
                (0..random.usize(1..4)).for_each(|_| {
                    let at = random.usize(..wire.len());
                    wire[at] = random.u8(..);
                });
                let record = &mut record;
                Booking { rules: &rules, record, reading: &reading, held: None, changes: 0 }.read(&wire);
                Reply::decode(&wire);
            }
        }
    }
}
