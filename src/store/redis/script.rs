//! The booking script, which runs in the server, with its input and output.

use redis::{Cmd, Value, from_redis_value};

use super::calendar::ScriptCalendar;
use super::clock::{Exchange, Micros};
use super::connection::Connection;
use super::failure::ServerFailure;
use super::nodes::NodeId;
use super::observations::KEPT_FOR;
use super::returnable::NodeSlot;
use super::shared_policy::SharedPolicy;
use super::stored_script::StoredScript;
use super::terms::{EXACT, ScriptTerms};
use crate::printable::escaped;
use crate::rule::Algorithm;
use crate::store::hold::LOOK;
use crate::store::ledger::{LONGEST_QUEUE, NEAR};
use crate::store::{Order, Turn};
use crate::time::Time;

/// The script `what`, preceded by the numbers that are the same in the process, the functions that all rules share, and
/// each rule.
pub(super) fn with_rules(what: &str) -> StoredScript {
    let [near, look, slack] = [NEAR, LOOK, KEPT_FOR].map(|nanos| nanos / 1000);
    let shared = format!(
        "local NEAR = {near}\nlocal LONGEST_QUEUE = {LONGEST_QUEUE}\nlocal LOOK = {look}\nlocal SLACK = {slack}\n"
    );
    let rules = Algorithm::ALL.map(|algorithm| algorithm.facts().script);
    // Each in a block of its own, so that no rule sees the functions of another.
    let rules = rules.map(|rule| format!("do\n{rule}end\n")).concat();
    StoredScript::new([&shared, include_str!("scripts/state.lua"), &rules, what].concat())
}

/// A share of D that is many times as long as the script takes for one slot.
const NANOS_A_SLOT: u64 = 40_000;

/// The last observation of a limit; all 0 if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// The instant at which the history began, which identifies it.
    pub(super) epoch: u64,
    /// The number of times that it was written in this history, and the random number of the last time.
    pub(super) times: u64,
    pub(super) stamp: u64,
    pub(super) newest: Micros,
    /// The instant from which none of it matters any more.
    pub(super) matters_until: Micros,
    /// The cost of all releases that were late for their slots.
    pub(super) late: u64,
    /// The instant from which no slot is too close to these.
    pub(super) close: Micros,
}

#[derive(Clone, Debug)]
pub(super) struct ScriptCharge {
    pub(super) index: usize,
    pub(super) cost: u64,
    pub(super) seen: Seen,
    pub(super) is_distrusted: bool,
    pub(super) calendar: ScriptCalendar,
}

#[derive(Clone, Copy)]
pub(super) struct BookingRequest<'a> {
    pub(super) key: &'a [u8],
    pub(super) shared: &'a SharedPolicy,
    /// The least milliseconds for which the policy is kept.
    pub(super) keep: u64,
    pub(super) order: &'a Order,
    /// The charges of one slot; none if the request only checks that the limits are ours.
    pub(super) charges: &'a [ScriptCharge],
    /// Slots to give back, which had the same charges.
    pub(super) given: &'a [Micros],
}

impl<'a> BookingRequest<'a> {
    /// A request that charges nothing.
    pub(super) fn new(key: &'a [u8], shared: &'a SharedPolicy, order: &'a Order) -> Self {
        BookingRequest { key, shared, keep: 0, order, charges: &[], given: &[] }
    }

    /// The number of slots. Many at once make the script take long; it must take less than D, so that the answer comes
    /// in time.
    fn count(&self) -> u64 {
        let most = (self.shared.policy.deadline / NANOS_A_SLOT).max(1);
        if self.order.overrun.is_some() { 0 } else { self.order.count.min(most) }
    }

    /// Asks by the `script`. `now` is our clock, which is read before and after.
    pub(super) fn ask(
        &self,
        script: &StoredScript,
        connection: &mut Connection,
        now: &dyn Fn() -> Time,
    ) -> Result<BookedSlots, ServerFailure> {
        let asked = now();
        let value = script.ask(connection, &self.call(script, asked))?;
        let answered = now();
        match value {
            Value::BulkString(other) => {
                Err(ServerFailure::OtherLimits(escaped(&String::from_utf8_lossy(&other))))
            }
            value => read(value, asked, answered)
                .filter(|booked| is_sound(booked, self))
                .ok_or_else(ServerFailure::nonsense),
        }
    }

    fn call(&self, script: &StoredScript, asked: Time) -> Cmd {
        let &BookingRequest { shared, order, charges, given, .. } = self;
        let policy = &shared.policy;
        let mut call = script.call(self.key);
        call.arg(&policy.text).arg(policy.quotas.len());
        call.arg(fastrand::u64(1..EXACT)).arg(policy.horizon / 1000);
        call.arg(self.count()).arg(shared.began).arg(self.keep);
        call.arg(order.turn.map_or(0, |turn| turn.0)).arg(policy.far_span());
        call.arg(units(&shared.terms));
        let costs = charges.iter().map(|charge| (charge.index, charge.cost));
        call.arg(fingerprint(costs)).arg(given.len()).arg((order.within / 1000).min(EXACT));
        // The script runs later than it is asked, so it takes the end of a late release to be later than it was.
        let (late, ago) = order.overrun.map_or((0, 0), |over| (order.count, asked.since(over) / 1000));
        let pause = order.hold.map_or(0, |until| until.since(asked).div_ceil(1000));
        call.arg(late).arg(ago).arg(pause);
        for ScriptCharge { index, cost, seen, is_distrusted, calendar } in charges {
            call.arg(index);
            shared.terms[*index].tell(&mut call, policy.deadline);
            let starts_empty = policy.quotas[*index].starts_empty;
            call.arg(u8::from(starts_empty)).arg(cost).arg(u8::from(*is_distrusted));
            call.arg(seen.epoch).arg(seen.times).arg(seen.stamp).arg(seen.newest).arg(seen.matters_until);
            call.arg(calendar);
        }
        call.arg(given);
        call
    }
}

/// The result of the checks before the booking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    /// Less is kept than was seen before.
    Lost,
    /// Slots are further ahead than they can have been booked.
    SetBack,
    /// The state was distrusted, as requested.
    Distrusted,
    /// The calendar in the request is for another time than the server's clock shows. Nothing was done.
    NotCovered,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) struct BookedSlots {
    pub(super) exchange: Exchange,
    pub(super) ask_again: Option<Micros>,
    /// The slot after these, as things stand.
    pub(super) next: Option<Micros>,
    pub(super) turn: Option<Turn>,
    pub(super) found: Found,
    /// True if the policy was in force before.
    pub(super) is_kept: bool,
    /// The end of a hold, if there is one.
    pub(super) held: Option<Micros>,
    pub(super) slots: Vec<Micros>,
    pub(super) seen: Vec<Seen>,
}

impl BookedSlots {
    /// The end of a hold by our clock.
    pub(super) fn held_until(&self) -> Option<Time> {
        self.held.map(|until| self.exchange.not_before(until))
    }
}

/// A question to a node, with its answer.
pub(super) struct Asked {
    pub(super) node: NodeId,
    pub(super) charges: Vec<ScriptCharge>,
    pub(super) booked: BookedSlots,
}

impl Asked {
    /// True if the server has another history than was seen before, of a limit whose past still matters.
    pub(super) fn is_of_another_history(&self) -> bool {
        let is_another = |(charge, seen): (&ScriptCharge, &Seen)| {
            let known = charge.seen;
            known.epoch > 0 && known.epoch != seen.epoch && known.matters_until > self.booked.exchange.server
        };
        self.charges.iter().zip(&self.booked.seen).any(is_another)
    }

    /// True if the state in which earlier slots were booked is gone.
    pub(super) fn is_after_loss(&self) -> bool {
        !matches!(self.booked.found, Found::Nothing | Found::NotCovered) || self.is_of_another_history()
    }

    pub(super) fn slots(&self) -> Vec<NodeSlot> {
        self.booked.slots.iter().map(|&micros| NodeSlot { node: self.node, micros }).collect()
    }
}

/// The key under which the state of a name, or of one key of its limits, is kept.
pub(super) fn redis_key(name: &str, key: &[u8]) -> Vec<u8> {
    let slash = if key.is_empty() { "" } else { "/" };
    [b"throttle:", name.as_bytes(), slash.as_bytes(), key].concat()
}

/// A number for the costs of a release, each with the limit that it charges: slots are only handed on at the same
/// costs. By FNV-1a, in as many bits as a double holds.
pub(super) fn fingerprint(costs: impl IntoIterator<Item = (usize, u64)>) -> u64 {
    let numbers = costs.into_iter().flat_map(|(limit, cost)| [limit as u64, cost]);
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    numbers.flat_map(u64::to_be_bytes).fold(0xcbf2_9ce4_8422_2325, step) >> 11
}

/// The number of units in all logs.
pub(super) fn units(terms: &[ScriptTerms]) -> u64 {
    terms.iter().map(ScriptTerms::end_of_log).max().unwrap_or(0)
}

/// True of an answer that the script may give to this request.
fn is_sound(booked: &BookedSlots, request: &BookingRequest) -> bool {
    let now = booked.exchange.server;
    let horizon = now.saturating_add(request.shared.policy.horizon / 1000);
    booked.seen.len() == if booked.found == Found::NotCovered { 0 } else { request.charges.len() }
        && booked.slots.len() as u64 <= request.count()
        && booked.slots.is_sorted()
        && booked.slots.iter().all(|slot| (now..=horizon).contains(slot))
}

fn read(value: Value, asked: Time, answered: Time) -> Option<BookedSlots> {
    let (server, ask_again, found, slots, seen, turn, is_kept, held, next) = from_redis_value(value).ok()?;
    let (found, seen, is_kept): (usize, Vec<[u64; 7]>, u8) = (found, seen, is_kept);
    let all = [Found::Nothing, Found::Lost, Found::SetBack, Found::Distrusted, Found::NotCovered];
    let found = *all.get(found)?;
    // Negative numbers have become large ones.
    let numbers = seen.as_flattened().iter().chain([&server, &ask_again, &turn, &held, &next]);
    if *numbers.max()? >= u64::MAX / 2 {
        return None;
    }
    let of_limit = |[epoch, times, stamp, newest, matters_until, late, close]: [u64; 7]| Seen {
        epoch,
        times,
        stamp,
        newest,
        matters_until,
        late,
        close,
    };
    let [ask_again, turn, held, next] = [ask_again, turn, held, next].map(|at| Some(at).filter(|&at| at > 0));
    let (turn, is_kept, seen) = (turn.map(Turn), is_kept == 1, seen.into_iter().map(of_limit).collect());
    let exchange = Exchange { asked, server, answered };
    Some(BookedSlots { exchange, ask_again, next, turn, found, is_kept, held, slots, seen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Key;
    use crate::config::Rate;
    use crate::store::{Policy, Reserve};

    fn ints(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    fn reply(now: i64, found: i64, slots: &[i64]) -> Value {
        let seen = Value::Array(vec![ints(&[7, 2, 8, 110, 210, 5, 150])]);
        Value::Array(vec![
            Value::Int(now),
            Value::Int(0),
            Value::Int(found),
            ints(slots),
            seen,
            Value::Int(9),
            Value::Int(1),
            Value::Int(120),
            Value::Int(0),
        ])
    }

    fn accepted(value: Value) -> Option<BookedSlots> {
        let rate = "1/s".parse::<Rate>().unwrap();
        let policy = Policy { horizon: 50_000, ..Policy::new(&[rate], Reserve::REMOTE) };
        let charge = ScriptCharge {
            index: 0,
            cost: 1,
            seen: Seen::default(),
            is_distrusted: false,
            calendar: <_>::default(),
        };
        let order = Order::new(Key::new(), [1], 2);
        let shared = SharedPolicy::new(policy, &[]);
        let request = BookingRequest { charges: &[charge], ..BookingRequest::new(b"", &shared, &order) };
        read(value, Time(0), Time(1)).filter(|booked| is_sound(booked, &request))
    }

    #[test]
    fn an_answer() {
        let booked = accepted(reply(100, 1, &[100, 110])).unwrap();
        assert_eq!((booked.exchange.server, booked.ask_again, booked.found), (100, None, Found::Lost));
        assert!(booked.is_kept && booked.held == Some(120));
        assert_eq!((booked.slots, booked.turn), (vec![100, 110], Some(Turn(9))));
        assert_eq!(
            booked.seen,
            [Seen { epoch: 7, times: 2, stamp: 8, newest: 110, matters_until: 210, late: 5, close: 150 }]
        );
    }

    #[test]
    fn what_the_script_would_not_say_is_no_answer() {
        let bad = [
            Value::Nil,
            Value::Okay,
            ints(&[]),
            ints(&[100, 0, 0]),
            reply(-5, 0, &[]),
            reply(100, 9, &[]),
            // Before now, beyond the horizon, back in time, more than asked for.
            reply(100, 0, &[99]),
            reply(100, 0, &[151]),
            reply(100, 0, &[110, 105]),
            reply(100, 0, &[101, 102, 103]),
        ];
        for value in bad {
            assert_eq!(accepted(value.clone()), None, "{value:?}");
        }
    }
}
