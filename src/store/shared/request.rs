//! What processes want of a record, encoded so that one of them can decide for all that wait: they get their slots in
//! the order in which they asked, with one swap.

use super::Booking;
use super::returnable::{BookedIn, Returned};
use crate::charge::Key;
use crate::rule::{pack_instants, unpack_instants};
use crate::store::vault::{Reading, Value, Waiting, between_looks};
use crate::store::{Answer, BookedBy, Order, Overruns, Slot, Task, Turn, Wanted};
use crate::time::{Time, Wall};

/// The most slots that another process may want at once.
const MAX_SLOTS: u64 = 1000;

/// The most instants in a request or a reply.
const MAX_INSTANTS: u64 = 8 * MAX_SLOTS;

/// The most parts of a request.
pub(super) const MAX_PARTS: usize = 256;

/// An order, and the slots of its costs that are given back with it. What a process wants of a record is at least one.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) order: Order,
    pub(super) returned: Vec<Returned>,
}

/// What was decided on it. All instants are on the clock of the vault.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reply {
    /// What slots are booked in.
    pub(super) booked_in: BookedIn,
    /// When it was decided.
    pub(super) decided: Time,
    /// One for each part.
    pub(super) answers: Vec<Answer>,
}

/// A request on its way: the checksum of the limits that it is made for, and its parts. An array without names, as many
/// wait in a small value.
type WireRequest = (u32, Vec<WirePart>);

/// Costs, a task, and the instants that are given back, with what they were booked in.
type WirePart = (Box<[u64]>, Task, Vec<(BookedIn, String)>);

/// A reply on its way: what slots are booked in, when it was decided, and the answers.
type WireReply = (BookedIn, Time, Vec<WireAnswer>);

/// The fields of an answer, the slots as packed instants.
type WireAnswer = (String, Option<Time>, Option<Time>, Option<Turn>, Option<Time>, Overruns, Option<Wall>);

/// The request for these parts, with all instants on the clock of the vault, for these limits, after this number of
/// changes. Empty if it was made before the last one: whoever has not heard of that needs to learn of it.
pub(super) fn encode(parts: &[Part], changes: u64, limits: &str, reading: &Reading) -> Value {
    if parts.iter().any(|part| part.order.changes != changes) {
        return Value::new();
    }
    let part = |Part { order, returned }: &Part| {
        let alike = returned.chunk_by(|one, next| one.booked_in == next.booked_in);
        let instants = |alike: &[Returned]| pack_instants(alike.iter().map(|returned| returned.at));
        let returned = alike.map(|alike| (alike[0].booked_in, instants(alike))).collect();
        (order.costs.clone(), on_its_clock(&order.task, reading), returned)
    };
    let wire: WireRequest = (crc32fast::hash(limits.as_bytes()), parts.iter().map(part).collect());
    serde_json::to_vec(&wire).expect("it has string keys only")
}

impl Reply {
    /// True if this could be what was decided on a request for these parts.
    pub(super) fn may_answer(&self, parts: &[Part]) -> bool {
        let may_be = |(Part { order, .. }, Answer { slots, ask_again, .. }): (&Part, &Answer)| {
            let Wanted { count, follows, .. } = order.wanted().unwrap_or_default();
            slots.len() as u64 <= count && (count == 0 || !slots.is_empty() || ask_again.is_some() || follows)
        };
        parts.len() == self.answers.len() && parts.iter().zip(&self.answers).all(may_be)
    }

    fn encode(&self) -> Value {
        let answer = |answer: &Answer| {
            let Answer { slots, ask_again, next, turn, held, overruns, booked_by, .. } = answer;
            let slots = pack_instants(slots.iter().map(|slot| slot.at));
            let wall = booked_by.and_then(|by| if let BookedBy::Wall(wall) = by { Some(wall) } else { None });
            (slots, *ask_again, *next, *turn, *held, overruns.clone(), wall)
        };
        let wire: WireReply = (self.booked_in, self.decided, self.answers.iter().map(answer).collect());
        serde_json::to_vec(&wire).expect("it has string keys only")
    }

    /// Reads the reply to a request. `None` if the request was not decided on.
    pub(super) fn decode(wire: &[u8]) -> Option<Self> {
        let (booked_in, decided, answers): WireReply = serde_json::from_slice(wire).ok()?;
        let answer = |(slots, ask_again, next, turn, held, overruns, wall): WireAnswer| {
            let slots =
                unpack_instants(&slots, MAX_INSTANTS)?.into_iter().map(|at| Slot { at, until: at }).collect();
            let booked_by = wall.map(BookedBy::Wall);
            Some(Answer { slots, ask_again, next, turn, held, overruns, booked_by, ..Answer::default() })
        };
        let answers = answers.into_iter().map(answer).collect::<Option<_>>()?;
        Some(Reply { booked_in, decided, answers })
    }
}

impl Booking<'_> {
    /// Decides on a request of this process and on those of others, which wait. Returns the replies; the request of
    /// another that cannot be decided on here gets an empty one.
    pub(super) fn decide(&mut self, own: &[Part], waiting: &[Waiting]) -> (Reply, Vec<Waiting>) {
        let read: Vec<_> = waiting.iter().map(|(_, wire)| self.read(wire)).collect();
        let of_others = read.iter().flatten().flatten();
        own.iter().chain(of_others.clone()).for_each(|part| self.take_back(part));
        // Those of others are on the clock of the vault already.
        let ours = own.iter().map(|Part { order, .. }| order.with(on_its_clock(&order.task, self.reading)));
        let orders = ours.chain(of_others.map(|part| part.order.clone()));
        let orders: Vec<_> = orders.map(|order| self.current(order)).collect();
        let placed: Vec<_> = orders.iter().flatten().cloned().collect();
        let mut answers = self.answers(&placed, orders.len() > own.len()).into_iter();
        let (booked_in, decided) = (self.booked_in(), self.reading.shown);
        let unanswered = Answer { held: self.held_until(), ..Answer::default() };
        let mut answers = orders
            .iter()
            .map(|order| order.as_ref().and_then(|_| answers.next()).unwrap_or_else(|| unanswered.clone()));
        let mut reply = |parts: &[Part]| Reply {
            booked_in,
            decided,
            answers: answers.by_ref().take(parts.len()).collect(),
        };
        let own = reply(own);
        let reply_to = |((id, _), parts): (&Waiting, &Option<Vec<Part>>)| {
            (id.clone(), parts.as_ref().map_or_else(|| b"-".to_vec(), |parts| reply(parts).encode()))
        };
        (own, waiting.iter().zip(&read).map(reply_to).collect())
    }

    /// Reads the request of another process. `None` if only that one can decide on it.
    fn read(&self, wire: &[u8]) -> Option<Vec<Part>> {
        let (limits, parts): WireRequest = serde_json::from_slice(wire).ok()?;
        let ours = crc32fast::hash(self.record.limits.as_bytes());
        if limits != ours || !(1..=MAX_PARTS).contains(&parts.len()) {
            return None;
        }
        let mut left = (MAX_SLOTS, MAX_INSTANTS);
        parts.into_iter().map(|part| self.read_part(part, &mut left)).collect()
    }

    /// A part of a request that may want, and give back, no more slots than are left.
    fn read_part(
        &self,
        (costs, mut task, packed): WirePart,
        (wanted, given_back): &mut (u64, u64),
    ) -> Option<Part> {
        let quotas = &self.rules.policy().quotas;
        let is_possible = costs.len() == quotas.len()
            && costs.iter().any(|&cost| cost > 0)
            && costs.iter().zip(quotas).all(|(&cost, quota)| cost <= quota.most());
        if let Task::Book(Wanted { count, .. }) | Task::Late(count, _) = &mut task {
            *count = (*wanted).min(*count);
            *wanted -= *count;
        }
        let mut returned = Vec::new();
        for (booked_in, text) in packed {
            let instants = unpack_instants(&text, *given_back)?;
            *given_back -= instants.len() as u64;
            returned.extend(instants.into_iter().map(|at| Returned { booked_in, at }));
        }
        let order = Order { key: Key::new(), costs, changes: self.changes, task };
        is_possible.then_some(Part { order, returned })
    }

    /// Takes back what is given back: slots that were booked in the same history, under the same limits and by the same
    /// wall clock, and a turn.
    fn take_back(&mut self, Part { order, returned }: &Part) {
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
    fn current(&self, order: Order) -> Option<Order> {
        match order.task {
            Task::GiveBack(..) => None,
            _ if order.changes == self.changes => Some(order),
            Task::Book(_) => None,
            Task::Late(..) | Task::Hold(_) => Some(self.rules.updated(&order)),
        }
    }

    /// Books for orders, which were placed in this order, some of them by `others`.
    fn answers(&mut self, orders: &[Order], others: bool) -> Vec<Answer> {
        let (rules, now, held) = (self.rules, self.reading.shown, self.held_until());
        let ledger = &mut self.record.ledger;
        if held.is_none() {
            // What is due before another process knows of it is of no use.
            let validity = rules.policy().validity;
            let on_the_way = self.reading.took().saturating_mul(2).saturating_add(between_looks(validity));
            let is_on_the_way = others && orders.len() > 1;
            let from = if is_on_the_way { now.saturating_add(on_the_way.min(validity)) } else { now };
            return rules.deal(ledger, now, from, orders);
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

    fn request(order: Order, returned: Vec<Returned>) -> [Part; 1] {
        [Part { order, returned }]
    }

    fn nothing() -> [Part; 1] {
        request(Order::new(Key::new(), [1], 0).with(Task::GiveBack(Vec::new(), None)), Vec::new())
    }

    fn reading(shown: u64) -> Reading {
        Reading { asked: Time(90), shown: Time(shown), answered: Time(110), wall: Wall::EPOCH }
    }

    /// The share of each is less than its chain costs.
    #[test]
    fn what_is_dealt_to_those_who_wait_is_taken_by_them() {
        let rules = BookingRules::new(Policy::new(&["100/s".parse::<Rate>().unwrap()], Reserve::REMOTE));
        let now = Time(1 << 40);
        let order = |by, cost, follows| {
            let wanted = Wanted { count: 1, within: u64::MAX, follows, by, ..Wanted::default() };
            Order::new(Key::new(), [cost], 0).with(Task::Book(wanted))
        };
        let orders: Vec<_> = (0..12).flat_map(|by| [order(by, 20, false), order(by, 21, true)]).collect();
        let answers = rules.deal(&mut rules.begin(now), now, now, &orders);
        for (orders, answers) in orders.chunks(2).zip(answers.chunks(2)) {
            let parts = orders.iter().map(|order| Part { order: order.clone(), returned: Vec::new() });
            let request: Vec<_> = parts.collect();
            let reply = Reply { booked_in: BookedIn::default(), decided: now, answers: answers.to_vec() };
            assert!(answers.iter().any(|answer| !answer.slots.is_empty()) && reply.may_answer(&request));
        }
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
                answers: vec![answer; random.usize(1..4)],
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
            let request = request(order, returned);
            let reading = Reading { asked: Time(100), answered: Time(100), ..reading(now) };
            let booking =
                |record| Booking { rules: &rules, record, reading: &reading, held: None, changes: 0 };
            let (own, _) = booking(&mut ours).decide(&request, &[]);
            let wire = encode(&request, 0, &theirs.limits, &reading);
            let (_, replies) = booking(&mut theirs).decide(&nothing(), &[(Vec::new(), wire)]);
            let reply = Reply::decode(&replies[0].1).expect("a reply");
            let slots = |reply: &Reply| reply.answers[0].slots.iter().map(|slot| slot.at).collect::<Vec<_>>();
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
        let request = |order, limits| encode(&request(order, Vec::new()), 0, limits, &reading);
        let limits = &rules.policy().text;
        let table = [
            request(order(&[1]), "8/s"),
            request(order(&[1, 1]), limits),
            request(order(&[0]), limits),
            request(order(&[10]), limits),
            b"{".to_vec(),
            Vec::new(),
        ];
        let (_, replies) = booking.decide(&nothing(), &table.map(|wire| (Vec::new(), wire)));
        let decoded = replies.iter().filter_map(|(_, reply)| Reply::decode(reply));
        assert_eq!((replies.len(), decoded.count()), (6, 0));
        assert_eq!(record, before);
    }

    #[test]
    fn random_words_are_no_request_and_no_reply() {
        let mut random = fastrand::Rng::with_seed(3);
        let (rules, reading) = (rules(), reading(7));
        let mut record = record(rules.begin(Time(5)));
        let returned = vec![Returned { booked_in: (1, 0, Wall::EPOCH), at: Time(3) }];
        let request = request(Order::new(Key::new(), [1], 4), returned);
        let answers = vec![Answer::default()];
        let reply = Reply { booked_in: (1, 0, Wall::EPOCH), decided: Time(2), answers };
        for wire in [encode(&request, 0, &record.limits, &reading), reply.encode()] {
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
