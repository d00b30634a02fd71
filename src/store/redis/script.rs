//! The script that books, in the server, and what goes in and comes out.

use redis::{Cmd, ErrorKind, RedisError, Script, ServerErrorKind, Value, cmd};

use super::clock::Micros;
use super::connection::Connection;
use super::failure::Failure;
use super::terms::ScriptTerms;
use crate::store::Turn;

/// A file for what all rules share, one for each rule, and one that books by all of them.
const CODE: &str = concat!(
    include_str!("scripts/state.lua"),
    include_str!("scripts/sliding.lua"),
    include_str!("scripts/bucket.lua"),
    include_str!("scripts/interval.lua"),
    include_str!("scripts/fixed.lua"),
    include_str!("scripts/book.lua"),
);

const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);

/// What was last seen of a limit; nothing, if it is all 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// Which history it was.
    pub(super) epoch: u64,
    /// How many units were charged in it.
    pub(super) seq: u64,
    pub(super) newest: Micros,
    /// When none of it matters any more.
    pub(super) settled: Micros,
}

/// One limit that is charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    /// Which of the limits.
    pub(super) index: usize,
    pub(super) terms: ScriptTerms,
    pub(super) cost: u64,
    pub(super) seen: Seen,
    /// Whether all that is kept of it is to be distrusted.
    pub(super) is_distrusted: bool,
}

/// One booking.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// Where it is kept.
    pub(super) key: &'a [u8],
    pub(super) policy: &'a str,
    /// How many limits the policy has.
    pub(super) limits: usize,
    /// In microseconds.
    pub(super) horizon: u64,
    pub(super) count: u64,
    /// When this run first had an answer; 0 if it had none.
    pub(super) began: Micros,
    /// For how many milliseconds the policy is kept at least.
    pub(super) keep: u64,
    pub(super) turn: Option<Turn>,
    /// How many slots there are at most if they are far ahead.
    pub(super) few: u64,
    /// How many units are in all logs.
    pub(super) units: u64,
    /// Slots that are given back, which were charged as is now.
    pub(super) given: &'a [Micros],
    /// Whether it waits for slots, or gets those that are free at once, or none.
    pub(super) waits: bool,
    pub(super) charges: &'a [Charge],
}

/// What was found before the booking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    /// Less is kept than was seen before.
    Lost,
    /// Slots are further ahead than they can have been booked.
    SetBack,
    /// It was distrusted, as was asked for.
    Distrusted,
}

/// What came of a booking.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct BookedSlots {
    pub(super) now: Micros,
    pub(super) ask_again: Option<Micros>,
    pub(super) turn: Option<Turn>,
    pub(super) found: Found,
    pub(super) slots: Vec<Micros>,
    /// One for each charge.
    pub(super) seen: Vec<Seen>,
}

/// An answer that keeps to the protocol.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Reply {
    Booked(BookedSlots),
    /// The state is kept for these limits, which are not ours.
    OtherPolicy(String),
}

/// The script, with its digest.
pub(super) struct Booking(Script);

impl Booking {
    pub(super) fn new() -> Self {
        Booking(Script::new(CODE))
    }

    /// Books, by the script's digest if the server knows it.
    pub(super) fn ask(&self, connection: &mut Connection, request: &Request) -> Result<Reply, Failure> {
        let call = self.call(request);
        let mut value = connection.ask(&call);
        if value.as_ref().is_err_and(|error: &RedisError| error.kind() == NO_SCRIPT) {
            // What it says to this is of no interest: the next answer tells whether it has it.
            let loaded = connection.ask(cmd("SCRIPT").arg("LOAD").arg(CODE));
            value = loaded.and_then(|_| connection.ask(&call));
        }
        let value: Value = value.map_err(|error| connection.failure(&error))?;
        let reply = read(value).filter(|reply| is_sound(reply, request));
        reply.ok_or_else(|| Failure::away("its answer makes no sense"))
    }

    fn call(&self, request: &Request) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(self.0.get_hash()).arg(1).arg(request.key);
        call.arg(request.policy).arg(fastrand::u64(1..1 << 53)).arg(request.horizon);
        call.arg(request.count).arg(request.began).arg(request.keep).arg(request.limits);
        call.arg(request.turn.map_or(0, |turn| turn.0)).arg(request.few).arg(request.units);
        call.arg(fingerprint(request.charges)).arg(request.given.len());
        call.arg(u8::from(request.waits));
        for charge in request.charges {
            let Charge { terms, seen, .. } = charge;
            call.arg(charge.index).arg(terms.log);
            call.arg(terms.algorithm.to_string()).arg(terms.count).arg(terms.period).arg(terms.burst);
            call.arg(u8::from(terms.starts_empty)).arg(charge.cost).arg(u8::from(charge.is_distrusted));
            call.arg(seen.epoch).arg(seen.seq).arg(seen.newest).arg(seen.settled);
        }
        call.arg(request.given);
        call
    }
}

/// Where the state of a name is kept, or of a key of its limits.
pub(super) fn redis_key(name: &str, key: &[u8]) -> Vec<u8> {
    let slash = if key.is_empty() { "" } else { "/" };
    [b"throttle:", name.as_bytes(), slash.as_bytes(), key].concat()
}

/// A number for what is charged: slots are handed on for the same only. By FNV-1a, in as many bits as a double holds.
fn fingerprint(charges: &[Charge]) -> u64 {
    let numbers = charges.iter().flat_map(|charge| [charge.index as u64, charge.cost]);
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    numbers.flat_map(u64::to_be_bytes).fold(0xcbf2_9ce4_8422_2325, step) >> 11
}

/// Whether it can be what the script says to this request.
fn is_sound(reply: &Reply, request: &Request) -> bool {
    let Reply::Booked(booked) = reply else { return true };
    let horizon = booked.now.saturating_add(request.horizon);
    booked.seen.len() == request.charges.len()
        && booked.slots.len() as u64 <= request.count
        && booked.slots.is_sorted()
        && booked.slots.iter().all(|slot| (booked.now..=horizon).contains(slot))
}

fn read(value: Value) -> Option<Reply> {
    let mut parts = array(value)?.into_iter();
    let now = match parts.next()? {
        Value::Int(-1) => return Some(Reply::OtherPolicy(text(parts.next()?)?)),
        now => number(&now)?,
    };
    let ask_again = Some(number(&parts.next()?)?).filter(|&at| at > 0);
    let found = match number(&parts.next()?)? {
        0 => Found::Nothing,
        1 => Found::Lost,
        2 => Found::SetBack,
        3 => Found::Distrusted,
        _ => return None,
    };
    let slots = numbers(parts.next()?)?;
    let seen = array(parts.next()?)?.into_iter().map(seen).collect::<Option<_>>()?;
    let turn = Some(number(&parts.next()?)?).filter(|&turn| turn > 0).map(Turn);
    Some(Reply::Booked(BookedSlots { now, ask_again, turn, found, slots, seen }))
}

fn seen(value: Value) -> Option<Seen> {
    let [epoch, seq, newest, settled] = numbers(value)?.try_into().ok()?;
    Some(Seen { epoch, seq, newest, settled })
}

fn array(value: Value) -> Option<Vec<Value>> {
    if let Value::Array(values) = value { Some(values) } else { None }
}

fn number(value: &Value) -> Option<u64> {
    if let Value::Int(number) = value { u64::try_from(*number).ok() } else { None }
}

fn numbers(value: Value) -> Option<Vec<u64>> {
    array(value)?.iter().map(number).collect()
}

fn text(value: Value) -> Option<String> {
    if let Value::BulkString(bytes) = value { Some(bytes.escape_ascii().to_string()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    fn reply(now: i64, found: i64, slots: &[i64]) -> Value {
        let seen = Value::Array(vec![ints(&[7, 2, 110, 210])]);
        Value::Array(vec![
            Value::Int(now),
            Value::Int(0),
            Value::Int(found),
            ints(slots),
            seen,
            Value::Int(9),
        ])
    }

    fn accepted(value: Value) -> Option<Reply> {
        let terms = ScriptTerms {
            algorithm: crate::config::Algorithm::Sliding,
            count: 1,
            period: 100,
            burst: 0,
            starts_empty: false,
            log: 0,
        };
        let charge = Charge { index: 0, terms, cost: 1, seen: Seen::default(), is_distrusted: false };
        let request = Request {
            key: b"",
            policy: "",
            limits: 1,
            horizon: 50,
            count: 2,
            began: 0,
            keep: 0,
            turn: None,
            few: 1,
            units: 1,
            given: &[],
            waits: true,
            charges: &[charge],
        };
        read(value).filter(|reply| is_sound(reply, &request))
    }

    #[test]
    fn an_answer() {
        let Some(Reply::Booked(booked)) = accepted(reply(100, 1, &[100, 110])) else { panic!("it is sound") };
        assert_eq!((booked.now, booked.ask_again, booked.found), (100, None, Found::Lost));
        assert_eq!((booked.slots, booked.turn), (vec![100, 110], Some(Turn(9))));
        assert_eq!(booked.seen, [Seen { epoch: 7, seq: 2, newest: 110, settled: 210 }]);
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
