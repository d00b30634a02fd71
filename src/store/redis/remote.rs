//! Manages what a server keeps under a name, without knowing the limits beforehand.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, Value, cmd, from_redis_value};

use super::calendar::calendar;
use super::clock::Micros;
use super::connection::Connection;
use super::failure::ServerFailure;
use super::keys::{for_each_key, limits_key};
use super::nodes::Nodes;
use super::script::{fingerprint, redis_key, units, with_rules};
use super::shared_policy::SharedPolicy;
use super::stored_script::StoredScript;
use super::terms::terms;
use super::{RedisStore, retries};
use crate::config::{Rate, Server};
use crate::exit::Exit;
use crate::store::keeper::{BootClock, Keeper};
use crate::store::status::MOST_KEYS;
use crate::store::{LimitStatus, Policy, Quota, Reserve, Status, Store, StoreError};
use crate::time::Time;

/// The longest policy, in bytes.
const LONGEST_POLICY: u32 = 65_536;

/// A name on a server.
pub(in crate::store) struct Remote {
    server: Server,
    /// The longest that the server is tried.
    timeout: Duration,
}

impl Remote {
    pub(in crate::store) fn new(server: &Server, timeout: u64) -> Self {
        Remote { server: server.clone(), timeout: Duration::from_nanos(timeout) }
    }

    fn key(&self) -> Vec<u8> {
        redis_key(&self.server.name, b"")
    }

    fn persist<T>(
        &self,
        mut attempt: impl FnMut(&mut Nodes) -> Result<T, ServerFailure>,
    ) -> Result<T, StoreError> {
        let mut nodes = Nodes::new(self.server.clone());
        retries::persist(&self.server, self.timeout, drop, |patience| {
            nodes.patience = patience;
            attempt(&mut nodes)
        })
    }
}

impl Keeper for Remote {
    fn open(&self, rates: &[Rate], now: BootClock) -> Result<(Box<dyn Store>, Policy), StoreError> {
        let policy = Policy::new(rates, Reserve::REMOTE);
        terms(&policy).map_err(|error| StoreError { exit: Exit::Usage, error })?;
        let mut store = RedisStore::new(self.server.clone(), policy.clone(), self.timeout, now);
        store.shared = SharedPolicy::new(policy.clone(), rates);
        Ok((Box::new(store), policy))
    }

    fn reset(&self) -> Result<(), StoreError> {
        let forget = |key: &[u8]| cmd("UNLINK").arg(key).clone();
        self.persist(|nodes| {
            nodes.ask_all(|connection| for_each_key(connection, &self.server.name, forget, |_, _| {}))
        })
    }

    fn hold(&self, length: u64, _: BootClock) -> Result<bool, StoreError> {
        let (key, script) = (self.key(), StoredScript::new(include_str!("scripts/hold.lua").to_owned()));
        let hold = |key: &[u8], length: u64| script.call(key).arg(length.div_ceil(1000)).clone();
        self.persist(|nodes| {
            if length == 0 {
                nodes.ask_all(|connection| {
                    connection.query::<()>(&script.load())?;
                    for_each_key(connection, &self.server.name, |key| hold(key, 0), |_, _| {})
                })?;
            }
            nodes.ask(&key, |_, connection| {
                let is_there = script.ask(connection, &hold(&key, length))? == Value::Int(1);
                connection.replicate(self.server.replicas, true).map(|()| is_there)
            })
        })
    }

    fn status(&self, _: Time) -> Result<Option<Status>, StoreError> {
        let key = self.key();
        self.persist(|nodes| {
            let mut status = nodes.ask(&key, |_, connection| ask_status(connection, &key))?;
            // Single keys may be held, too.
            let has_keys = |status: &&mut Status| status.limits.iter().any(|limit| limit.rate.key.is_some());
            if let Some(status) = status.as_mut().filter(has_keys) {
                status.held.extend(held_keys(nodes, &self.server.name)?);
            }
            Ok(status)
        })
    }
}

/// The keys that are held, each with the nanoseconds that it is held for.
fn held_keys(nodes: &mut Nodes, name: &str) -> Result<BTreeMap<Option<Vec<u8>>, u64>, ServerFailure> {
    let script = StoredScript::new(include_str!("scripts/held.lua").to_owned());
    let mut held = BTreeMap::new();
    let mut hear = |key: Vec<u8>, left: Value| {
        let left = from_redis_value::<Micros>(left).ok().filter(|left| *left > 0);
        if let Some((key, left)) = limits_key(&key, name).zip(left) {
            held.insert(Some(key.to_owned()), left.saturating_mul(1000));
        }
        if held.len() > MOST_KEYS {
            held.pop_last();
        }
    };
    nodes.ask_all(|connection| {
        connection.query::<()>(&script.load())?;
        for_each_key(connection, name, |key| script.call(key), &mut hear)
    })?;
    Ok(held)
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
    let script = with_rules(include_str!("scripts/status.lua"));
    let mut call = script.call(key);
    tell_limits(&mut call, &text, &policy, now).map_err(cannot)?;
    match script.ask(connection, &call)? {
        Value::BulkString(other) if other.is_empty() => Ok(None),
        Value::BulkString(_) => Err(ServerFailure::away("its limits keep changing")),
        answer => read(answer, &policy, rates).map(Some).ok_or_else(ServerFailure::nonsense),
    }
}

/// Adds the limits to the arguments of a call.
fn tell_limits(call: &mut Cmd, text: &str, policy: &Policy, now: Micros) -> anyhow::Result<()> {
    let all_terms = terms(policy)?;
    call.arg(text).arg(policy.quotas.len()).arg(units(&all_terms));
    call.arg(fingerprint((0..policy.quotas.len()).map(|limit| (limit, 1))));
    for (limit, (terms, quota)) in all_terms.iter().zip(&policy.quotas).enumerate() {
        terms.tell(call, policy.deadline);
        call.arg(quota.at_once());
        call.arg(&calendar(now, quota, policy)).arg(fingerprint([(limit, 1)]));
    }
    Ok(())
}

fn read(answer: Value, policy: &Policy, rates: Vec<Rate>) -> Option<Status> {
    type Limits = Vec<(u64, Micros)>;
    type Answer = (Micros, Micros, Micros, Micros, Limits);
    let (now, newest, turns, held, limits): Answer = from_redis_value(answer).ok()?;
    let until = |at: Micros| Some(at.saturating_sub(now).saturating_mul(1000));
    let limit = |((rate, quota), (free, next)): ((Rate, &Quota), (u64, Micros))| {
        let next_in = until(next).filter(|_| free == 0).unwrap_or(0);
        LimitStatus { rate, capacity: quota.at_once(), free, next_in, keys: None }
    };
    let limits = rates.into_iter().zip(&policy.quotas).zip(limits).map(limit).collect();
    let held = until(held).filter(|left| *left > 0).map(|left| (None, left));
    let booked = until(newest).filter(|left| *left > 0);
    let last_turn = until(turns).filter(|turn| *turn > policy.horizon);
    Some(Status { limits, held: held.into_iter().collect(), booked, last_turn, lock: None })
}
