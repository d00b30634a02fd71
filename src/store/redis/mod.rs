//! A vault in a Redis server, for limits that several machines share.
//!
//! One script swaps a value, which the server runs as one step: so there is one order of all bookings, and one clock,
//! the server's. Each value is kept under a key of its own, which expires once it no longer matters.
//!
//! # The clock
//!
//! If the server's clock has been set forward, what was booked before looks older than it is. A process notices if the
//! server's clock is further ahead of its own than earlier answers allow (see [`clock`]), and takes what was written
//! before as lost. A clock that was set back shows in the record itself, as slots beyond the horizon.
//!
//! # In a cluster
//!
//! A key is in one hash slot, and moves to another node as a whole. Each node has a clock of its own. If the node that
//! takes over a key has one that may be ahead, what was written before is taken as lost, too.
//!
//! A replica that is promoted may lack bookings whose slots are about to be used. The next process that asks gets the
//! same slots, unless it is the one that booked them. With `replicas=`, no slot is used before `WAIT` says that this
//! number of replicas has it.
//!
//! # When the server is away
//!
//! Nothing is released then, and it is asked again until a timeout. If the answer to a swap is lost, the next one shows
//! whether it was made: its value is like no other.

mod clock;
mod connection;
mod distance;
mod failure;
mod keys;
mod nodes;
mod offline;
mod retries;
mod sentinel;
mod socket;
#[cfg(feature = "tls")]
mod tls;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use redis::{RedisResult, Script, cmd};

use self::clock::ServerClock;
use self::distance::{ROUND_TRIPS, SHORT, too_long};
use self::failure::away;
use self::keys::{kept, redis_key};
use self::nodes::{NodeId, Nodes};
pub use self::offline::book_over;
use self::retries::persist;
use super::hold::LOOK;
use super::record::VERSION;
use super::shared::VaultStore;
use super::vault::{Loaded, Reading, Suspicion, Swap, Value, Vault};
use super::{BootClock, Policy, Reserve, StoreError, Tell};
use crate::config::Server;
use crate::exit::Exit;
use crate::time::{SECOND, Time, Wall};

/// The nanoseconds for which a value is kept after it is idle: clocks differ.
const SLACK: u64 = 10 * SECOND;

/// The number of times that it is asked to find out how long an answer takes: the first answers of a busy machine are
/// slow.
const TRIALS: usize = 5;

/// The microseconds by which a process may wake up late when its turn has come.
const LATENESS: u64 = 2000;

/// The most nanoseconds between two looks at the queue.
const LONGEST_PAUSE: u64 = SECOND / 4;

const SCRIPT: &str = include_str!("vault.lua");

/// Values on a Redis server.
pub struct ServerVault {
    now: BootClock,
    nodes: Nodes,
    /// The digest of the script.
    script: String,
    timeout: Duration,
    /// D, and the nanoseconds for which a slot may matter.
    terms: (u64, u64),
    /// Its number among those that wait to swap.
    id: u32,
    /// The nanoseconds that the fastest answer took.
    shortest: u64,
    clocks: HashMap<NodeId, ServerClock>,
    /// The nodes that keep what was last asked for.
    keepers: HashMap<Value, NodeId>,
    /// The value of the empty key, and when it was read.
    own: Option<(Option<Value>, Reading)>,
    /// What the clock showed, as far as is known, when it was last decided on a value.
    decided: Time,
    /// The value that was read or written last.
    last: Option<(Value, Value, Reading)>,
    tell: Tell,
}

/// Limits on a Redis server, as one process uses them.
pub type RedisStore = VaultStore<ServerVault>;

impl RedisStore {
    /// A store that connects with the first booking.
    ///
    /// `now` is the clock on which slots are given. It must not stop while the machine sleeps. The server is tried for
    /// `timeout`.
    pub fn on_server(
        server: Server,
        policy: Policy,
        timeout: Duration,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Self {
        VaultStore::new(ServerVault::new(server, timeout, Box::new(now)), policy, &[], Reserve::REMOTE)
    }
}

/// An answer of the script.
struct Answer {
    node: NodeId,
    reading: Reading,
    is_swapped: bool,
    value: Option<Value>,
    /// Its place in the queue of those that were refused.
    place: u64,
}

impl ServerVault {
    pub(super) fn new(server: Server, timeout: Duration, now: BootClock) -> Self {
        ServerVault {
            now,
            nodes: Nodes::new(server),
            script: Script::new(SCRIPT).get_hash().to_owned(),
            timeout,
            terms: (0, 0),
            id: fastrand::u32(..),
            shortest: SECOND,
            clocks: HashMap::new(),
            keepers: HashMap::new(),
            own: None,
            decided: Time::ZERO,
            last: None,
            tell: Arc::new(drop),
        }
    }

    /// Asks the server until it answers.
    fn persist<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> RedisResult<T>) -> Result<T, StoreError> {
        let (server, tell) = (self.nodes.server.clone(), Arc::clone(&self.tell));
        persist(&server, self.timeout, &*tell, |patience| {
            self.nodes.patience = patience;
            attempt(self)
        })
    }

    /// Reads the value of a key, or swaps the `old` one, of which the beginning is enough, for a `new` one, which is to
    /// be kept for `millis`.
    fn ask(&mut self, key: &[u8], old: &[u8], new: &[u8], millis: u64) -> RedisResult<Answer> {
        let keeper = self.keepers.get(key).copied();
        let key = redis_key(&self.nodes.server.name, key);
        // Time for an answer, and for a process that wakes up late.
        let turn = if self.shortest > 0 { 3 * self.shortest / 1000 + LATENESS } else { 0 };
        let mut call = cmd("EVALSHA");
        call.arg(&self.script).arg(1).arg(&key);
        call.arg(old).arg(new).arg(millis).arg(self.id).arg(turn);
        let ServerVault { nodes, now, .. } = self;
        let replicas = nodes.server.replicas;
        nodes.ask(keeper, |node, connection| {
            if !new.is_empty() {
                connection.replicate(replicas, false)?;
            }
            let asked = now();
            let reply = connection.call(SCRIPT, &call)?;
            let mut answer =
                read(reply, node, asked, now()).ok_or_else(|| away("its clock shows no time"))?;
            // The answer to an earlier try may have been lost.
            answer.is_swapped |= answer.value.as_deref() == Some(new);
            if answer.is_swapped {
                connection.replicate(replicas, true)?;
            }
            Ok(answer)
        })
    }

    /// Learns from an answer about a key. Returns why what was written to it before may be lost.
    fn learn(&mut self, key: &[u8], answer: &Answer) -> Option<Suspicion> {
        let (deadline, memory) = self.terms;
        self.shortest = self.shortest.min(answer.reading.took());
        let now = Some(answer.reading.shown);
        let keeper = self.keepers.insert(key.to_owned(), answer.node).filter(|keeper| *keeper != answer.node);
        let keeper = keeper.and_then(|keeper| self.clocks.get(&keeper));
        let may_be_ahead = keeper.is_some_and(|clock| clock.may_be_behind(&answer.reading, deadline, memory));
        let clock = self.clocks.entry(answer.node).or_default();
        clock.learn(&answer.reading, deadline, memory);
        let forward = clock.good_from(answer.reading.shown);
        let why = "its clock was set forward";
        let of_clock = forward.map(|_| Suspicion { why, good_from: forward });
        let why = "another node has taken over, whose clock may be ahead";
        may_be_ahead.then_some(Suspicion { why, good_from: now }).or(of_clock)
    }

    fn load_one(&mut self, key: &[u8]) -> Result<(Answer, Option<Suspicion>), StoreError> {
        let answer = self.persist(|vault| vault.ask(key, b"", b"", 0))?;
        let suspicion = self.learn(key, &answer);
        self.note(key, answer.value.as_ref(), answer.reading);
        Ok((answer, suspicion))
    }

    /// Remembers the value of a key.
    fn note(&mut self, key: &[u8], value: Option<&Value>, reading: Reading) {
        if key.is_empty() {
            self.own = Some((value.cloned(), reading));
        }
        self.last = value.map(|value| (key.to_owned(), value.clone(), reading));
    }

    /// Waits while others swap that were refused before, each of which takes about as long as an answer.
    fn wait_for_turn(&self, place: u64) {
        let ahead = place.saturating_sub(2).saturating_mul(self.shortest / 4 * 5);
        thread::sleep(Duration::from_nanos(ahead.min(LONGEST_PAUSE)));
    }

    fn is_recent(&self, reading: &Reading) -> bool {
        (self.now)().since(reading.answered) < LOOK
    }
}

/// Reads what the script returns.
fn read(
    (seconds, micros, swapped, value): (u64, u64, i64, Value),
    node: NodeId,
    asked: Time,
    answered: Time,
) -> Option<Answer> {
    let shown = seconds.checked_mul(SECOND)?.checked_add(micros.checked_mul(1000)?)?;
    let reading = Reading { asked, shown: Time(shown), answered, wall: Wall::EPOCH };
    let value = Some(value).filter(|value| !value.is_empty());
    let place = swapped.min(0).unsigned_abs();
    Some(Answer { node, reading, is_swapped: swapped == 1, value, place })
}

impl Vault for ServerVault {
    /// Of several keys, the empty one may have been read up to a second before.
    fn load(&mut self, keys: &[&[u8]], may_be_old: bool) -> Result<Loaded, StoreError> {
        let is_known = |(known, _, reading): &&(Value, Value, Reading)| {
            known == keys[keys.len() - 1] && self.is_recent(reading)
        };
        let may_be_old = may_be_old && self.terms.0 >= SHORT;
        let last = self.last.as_ref().filter(|_| may_be_old).filter(is_known).cloned();
        let own = self.own.as_ref().filter(|(_, reading)| keys.len() > 1 && self.is_recent(reading));
        let (own, mut suspicion) = match own.map(|(own, _)| own.clone()) {
            Some(own) => (own, None),
            None if keys.len() > 1 => {
                let (answer, suspicion) = self.load_one(keys[0])?;
                (answer.value, suspicion)
            }
            None => (None, None),
        };
        let is_old = last.is_some();
        let (value, reading) = if let Some((_, value, reading)) = last {
            (Some(value), reading.later((self.now)()))
        } else {
            let (answer, of_key) = self.load_one(keys[keys.len() - 1])?;
            suspicion = of_key.or(suspicion);
            (answer.value, answer.reading)
        };
        self.decided = reading.shown;
        let values = if keys.len() > 1 { vec![own, value] } else { vec![value] };
        Ok(Loaded { values, reading, suspicion, is_old })
    }

    fn swap(&mut self, key: &[u8], old: Option<&[u8]>, new: &[u8], idle: Time) -> Result<Swap, StoreError> {
        let old = old.unwrap_or_default();
        let begins = &old[..VERSION.min(old.len())];
        let shown = self.last.as_ref().map_or(Time::ZERO, |(.., reading)| reading.shown);
        let shown = self.own.as_ref().map_or(shown, |(_, reading)| reading.shown.max(shown));
        let millis = idle.since(shown).saturating_add(SLACK).div_ceil(1_000_000).min(1 << 52);
        let answer = self.persist(|vault| {
            let answer = vault.ask(key, begins, new, millis)?;
            let (took, deadline) = (answer.reading.took(), vault.terms.0);
            match answer.is_swapped && took > vault.good_for(deadline) {
                true => Err(away(too_long(took, deadline, true))),
                false => Ok(answer),
            }
        })?;
        let suspicion = self.learn(key, &answer);
        let is_doubted = |suspicion: &Suspicion| suspicion.good_from.is_some_and(|from| self.decided < from);
        if answer.is_swapped && !suspicion.as_ref().is_some_and(is_doubted) {
            self.note(key, Some(&new.to_owned()), answer.reading);
            return Ok(Swap::Done(answer.reading));
        }
        self.wait_for_turn(answer.place);
        // What was swapped on a clock that cannot be trusted is not what it was meant to be.
        let Answer { value, reading, is_swapped, .. } = answer;
        let value = if is_swapped { Some(new.to_owned()) } else { value };
        self.note(key, value.as_ref(), reading);
        self.decided = reading.shown;
        Ok(Swap::Refused(Loaded { values: vec![value], reading, suspicion, is_old: false }))
    }

    fn keys(&mut self) -> Result<Vec<Vec<u8>>, StoreError> {
        self.persist(|vault| {
            let name = vault.nodes.server.name.clone();
            let mut keys = vault.nodes.ask_all(|connection| kept(connection, &name))?.concat();
            keys.sort_unstable();
            keys.dedup();
            Ok(keys)
        })
    }

    fn forget(&mut self) -> Result<bool, StoreError> {
        let mut is_any = false;
        self.persist(|vault| {
            let name = vault.nodes.server.name.clone();
            vault.nodes.ask_all(|connection| {
                let keys = kept(connection, &name)?;
                is_any |= !keys.is_empty();
                keys.iter().try_for_each(|key| cmd("UNLINK").arg(redis_key(&name, key)).exec(connection))
            })
        })?;
        Ok(is_any)
    }

    fn lags_by(&self) -> u64 {
        LOOK
    }

    fn keeps_for(&self) -> u64 {
        SLACK
    }

    fn expect(&mut self, deadline: u64, memory: u64) {
        self.terms = (deadline, memory);
    }

    /// Steps of the clock of up to the rest are not noticed.
    fn good_for(&self, deadline: u64) -> u64 {
        clock::good_for(deadline)
    }

    fn least_deadline(&mut self, given: Option<u64>) -> Result<u64, StoreError> {
        let mut shortest = u64::MAX;
        for _ in 0..TRIALS {
            shortest = shortest.min(self.load_one(b"")?.0.reading.took());
            if given.is_some_and(|given| shortest <= given / ROUND_TRIPS) {
                break;
            }
        }
        match given.filter(|given| shortest > given / ROUND_TRIPS) {
            Some(given) => {
                let error = anyhow!("{}: {}", self.nodes.server, too_long(shortest, given, false));
                Err(StoreError { exit: Exit::BadStore, error })
            }
            None => Ok(shortest.saturating_mul(ROUND_TRIPS).next_multiple_of(100_000)),
        }
    }

    fn times_set(&self) -> Option<u64> {
        Some(self.clocks.values().map(|clock| clock.times_set).sum())
    }

    fn loss(&self) -> &'static str {
        "it has lost earlier bookings"
    }

    /// It is asked only when something is to be booked.
    fn is_at_hand(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn tell_waits_to(&mut self, tell: Tell) {
        self.tell = tell;
    }

    fn name(&self) -> Cow<'_, str> {
        self.nodes.server.to_string().into()
    }
}
