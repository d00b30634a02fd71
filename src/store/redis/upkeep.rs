//! Status and holds of the limits that a server keeps under a name, without knowing them beforehand.

use std::time::Duration;

use redis::{Cmd, FromRedisValue, Pipeline, Value, cmd, from_redis_value};

use super::calendar::ScriptCalendar;
use super::clock::Micros;
use super::connection::Connection;
use super::failure::ServerFailure;
use super::nodes::Nodes;
use super::reset::for_each_key;
use super::retries::persist;
use super::script::{redis_key, rules};
use super::terms::terms;
use crate::config::{Rate, Server};
use crate::exit::Exit;
use crate::store::{LimitStatus, Policy, Reserve, Status, StoreError};

/// The longest policy, in bytes.
const LONGEST_POLICY: u32 = 65_536;

/// The number of times that a status is asked for whose limits change meanwhile.
const ATTEMPTS: usize = 3;

/// Holds all that is kept under the name of `server`, tried for as long as `timeout`. With a `length` of 0, nothing is
/// held any more. Returns whether anything is kept.
///
/// # Errors
/// As for booking.
pub(in super::super) fn hold(server: &Server, timeout: Duration, length: u64) -> Result<bool, StoreError> {
    let mut nodes = Nodes::new(server.clone());
    let key = redis_key(&server.name, b"");
    persist(server, timeout, drop, |patience| {
        if length == 0 {
            nodes.ask_all(patience, |connection| for_each_key(connection, &server.name, lift))?;
        }
        nodes.ask(&key, patience, |_, connection| {
            let is_there = connection.query::<u8>(&hold_call(&key, length))? == 1;
            connection.replicate(server.replicas, true).map(|()| is_there)
        })
    })
}

fn lift(commands: &mut Pipeline, key: &[u8]) {
    commands.add_command(hold_call(key, 0));
}

fn hold_call(key: &[u8], length: u64) -> Cmd {
    let mut call = cmd("EVAL");
    call.arg(include_str!("scripts/hold.lua")).arg(1).arg(key).arg(length.div_ceil(1000));
    call
}

/// The use of the limits that are kept under the name of `server`; `None` if there are none.
///
/// # Errors
/// As for booking.
pub(in super::super) fn status(server: &Server, timeout: Duration) -> Result<Option<Status>, StoreError> {
    let mut nodes = Nodes::new(server.clone());
    let key = redis_key(&server.name, b"");
    persist(server, timeout, drop, |patience| {
        nodes.ask(&key, patience, |_, connection| {
            let mut attempts = (0..ATTEMPTS).map(|_| ask_status(connection, &key));
            let known = attempts.find(|asked| !matches!(asked, Err(ServerFailure::OtherLimits(_))));
            known.unwrap_or_else(|| Err(ServerFailure::away("its limits change again and again")))
        })
    })
}

fn ask_status(connection: &mut Connection, key: &[u8]) -> Result<Option<Status>, ServerFailure> {
    let mut look = cmd("GETRANGE");
    let kept: Vec<u8> = connection.query(look.arg(key).arg(0).arg(LONGEST_POLICY))?;
    let Some(length) = memchr::memchr(0, &kept) else { return Ok(None) };
    let text = String::from_utf8_lossy(&kept[..length]);
    let cannot =
        |error: anyhow::Error| ServerFailure::bad(Exit::BadState, error.context("its limits cannot be read"));
    let rates = Policy::rates(&text).map_err(cannot)?;
    let policy = Policy::new(&rates, Reserve::REMOTE);
    let (seconds, micros): (Micros, Micros) = connection.query(&cmd("TIME"))?;
    let now = seconds.saturating_mul(1_000_000).saturating_add(micros);
    let value: Value = connection.query(&status_call(key, &text, &policy, now).map_err(cannot)?)?;
    match value {
        Value::BulkString(other) if other.is_empty() => Ok(None),
        Value::BulkString(other) => Err(ServerFailure::OtherLimits(other.escape_ascii().to_string())),
        Value::Array(answer) => read(&answer, &policy, rates).map(Some).ok_or_else(ServerFailure::nonsense),
        _ => Err(ServerFailure::nonsense()),
    }
}

fn status_call(key: &[u8], text: &str, policy: &Policy, now: Micros) -> anyhow::Result<Cmd> {
    let mut call = cmd("EVAL");
    call.arg([&rules(), include_str!("scripts/status.lua")].concat()).arg(1).arg(key);
    call.arg(text).arg(policy.quotas.len());
    for (terms, quota) in terms(policy)?.iter().zip(&policy.quotas) {
        call.arg(terms.log)
            .arg(terms.algorithm.to_string())
            .arg(terms.count)
            .arg(terms.period)
            .arg(terms.burst);
        let calendar = ScriptCalendar::around(now, quota, policy);
        call.arg(quota.at_once()).arg(calendar.periods).arg(calendar.hours);
    }
    Ok(call)
}

fn read(answer: &[Value], policy: &Policy, rates: Vec<Rate>) -> Option<Status> {
    let [now, turns, held, limits @ ..] = answer else { return None };
    let number = |value: &Value| from_redis_value::<Micros>(value.clone()).ok();
    let now = number(now)?;
    let until = |at: Micros| at.saturating_sub(now).saturating_mul(1000);
    let limit = |((rate, quota), value): ((Rate, &crate::store::Quota), &Value)| {
        let (free, next): (u64, Micros) = FromRedisValue::from_redis_value(value.clone()).ok()?;
        let next_in = if free > 0 { 0 } else { until(next) };
        Some(LimitStatus { rate, capacity: quota.at_once(), free, next_in })
    };
    let limits = rates.into_iter().zip(&policy.quotas).zip(limits).map(limit).collect::<Option<_>>()?;
    let held = Some(until(number(held)?)).filter(|left| *left > 0).map(|left| (None, left));
    let last_turn = Some(until(number(turns)?)).filter(|turn| *turn > policy.horizon);
    Some(Status { limits, held: held.into_iter().collect(), last_turn, lock: None })
}
