//! A vault in a Redis server, for limits that several machines share.
//!
//! One script swaps a value, which the server runs as one step: so there is one order of all bookings, and one clock,
//! the server's. Each value is kept under a key of its own, which expires once it no longer matters.
//!
//! # When many swap
//!
//! Of those that swap at the same time, one succeeds in each round trip. So it does for all: whoever is refused
//! leaves a request in a queue, which is kept with the value. The first one to ask then has the turn: it is told
//! the value and all requests, decides on them in the order in which they came, and swaps the value with the
//! replies. The others ask again and again, and find their replies. So each round trip serves all that wait, and
//! all get the same. A process that has the turn and dies loses it a few round trips later; a request whose process
//! has died is decided on, too, and its slots expire.
//!
//! # When it is far away
//!
//! Orders for several keys are booked together: all their values are asked for in one round trip, and swapped in the
//! next one. Slots are good for somewhat longer than that takes; how many calls fit in the rest is learned.
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

mod call;
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
use std::mem;
use std::slice;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use redis::{RedisError, RedisResult, Script, pipe};

use self::call::{Answer, Call, Outcome, read};
use self::clock::ServerClock;
use self::distance::{ROUND_TRIPS, SHORT, too_long};
use self::failure::{away, meaning};
use self::keys::{kept, redis_key};
use self::nodes::{NodeId, Nodes};
pub use self::offline::book_over;
use self::retries::{Patience, persist};
use self::socket::Timeouts;
use super::hold::HOLD_REFRESH;
use super::shared::VaultStore;
use super::vault::{Loaded, Reading, Suspicion, Swap, Value, Vault, Write, between_looks};
use super::{BootClock, Policy, Reserve, StoreError, Warn};
use crate::config::Server;
use crate::exit::Exit;
use crate::gate::Eviction;
use crate::time::{SECOND, Time};

/// The nanoseconds for which a value is kept after it is idle: clocks differ.
const SLACK: u64 = 10 * SECOND;

/// The nanoseconds for which the limits of a state are kept after it is idle.
const LIMITS_KEPT: u64 = 30 * 86_400 * SECOND;

/// The most times that it is asked to find out how long an answer takes, until two answers agree: the first answers
/// of a busy machine are slow.
const TRIALS: usize = 5;

/// The microseconds that a process may take to decide when it has the turn, besides three round trips.
const LATENESS: u64 = 50_000;

/// The nanoseconds that each of several calls is expected to take longer.
const EACH_TAKES: u64 = 200_000;

/// The longest wait for an answer that is asked for only once.
const ONE_ATTEMPT: Duration = Duration::from_secs(2);

/// The number of keys that are forgotten in one round trip.
const FORGOTTEN_AT_ONCE: usize = 256;

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
    /// The keys that it waits to swap, with the number of its request and whether it has the turn.
    queued: HashMap<Value, (String, bool)>,
    may_retry: bool,
    /// Since its answers came too late for slots, and when they did last.
    late: Option<(Patience, Instant)>,
    /// The nanoseconds that the fastest answer took.
    shortest: u64,
    /// The nanoseconds that each of several calls takes longer, on average.
    each_takes: u64,
    clocks: HashMap<NodeId, ServerClock>,
    /// What is known of the keeper of each key.
    keepers: HashMap<Value, Keeper>,
    eviction: Eviction,
    /// The value of the empty key, and when it was read.
    own: Option<(Option<Value>, Reading)>,
    /// The value that was read or written last.
    last: Option<(Value, Value, Reading)>,
    warn: Warn,
}

impl VaultStore {
    /// A store on a Redis server that connects with the first booking.
    ///
    /// `now` is the clock on which slots are given. It must not stop while the machine sleeps. The server is tried for
    /// `timeout`.
    pub fn on_server(
        server: Server,
        policy: Policy,
        timeout: Duration,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Self {
        let vault = ServerVault::new(server, timeout, Box::new(now));
        VaultStore::new(Box::new(vault), policy, &[], Reserve::REMOTE)
    }
}

/// The keeper of a key.
#[derive(Clone, Copy)]
struct Keeper {
    node: NodeId,
    /// When it was last asked, by our own clock.
    asked: Time,
    /// The last swap was refused at first.
    is_contended: bool,
}

impl ServerVault {
    /// The server, which is tried for `timeout`. `now` shows the time since boot.
    pub fn new(server: Server, timeout: Duration, now: BootClock) -> Self {
        ServerVault {
            now,
            nodes: Nodes::new(server),
            script: Script::new(SCRIPT).get_hash().to_owned(),
            timeout,
            terms: (0, 0),
            queued: HashMap::new(),
            may_retry: true,
            late: None,
            shortest: SECOND,
            each_takes: EACH_TAKES,
            clocks: HashMap::new(),
            keepers: HashMap::new(),
            eviction: Eviction::default(),
            own: None,
            last: None,
            warn: Arc::new(drop),
        }
    }

    /// Asks the server until it answers.
    fn persist<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> RedisResult<T>) -> Result<T, StoreError> {
        if !self.may_retry {
            let each = self.timeout.min(ONE_ATTEMPT);
            self.nodes.patience = Timeouts { each, end: Instant::now() + each };
            return attempt(self).map_err(|error| {
                let (exit, why) = meaning(&error);
                StoreError { exit, error: anyhow!("{}: {why}", self.nodes.server) }
            });
        }
        let (server, warn) = (self.nodes.server.clone(), Arc::clone(&self.warn));
        persist(&server, self.timeout, &*warn, |patience| {
            self.nodes.patience = patience;
            attempt(self)
        })
    }

    /// Reads the values of keys, or swaps them. Those of one node are asked about together.
    fn ask_each(&mut self, calls: &[Call]) -> RedisResult<Vec<Answer>> {
        let begun = (self.now)();
        let mut answers: Vec<_> = calls.iter().map(|_| None).collect();
        let keeper = |call: &Call| self.keepers.get(call.key).map(|keeper| keeper.node);
        let mut open: Vec<_> = calls.iter().map(keeper).zip(0..).collect();
        // The keepers that are named instead, and what is redirected once more alone.
        for most in [usize::MAX, usize::MAX, 1] {
            open.sort_unstable();
            let mut redirected = Vec::new();
            for group in open.chunk_by(|one, other| one.0 == other.0).flat_map(|group| group.chunks(most)) {
                let places: Vec<usize> = group.iter().map(|(_, at)| *at).collect();
                for (at, answer) in places.iter().copied().zip(self.ask_node(group[0].0, calls, &places)?) {
                    match answer {
                        Ok(answer) => answers[at] = Some(answer),
                        Err(node) => redirected.push((node, at)),
                    }
                }
            }
            open = redirected;
        }
        if calls.len() > 1 {
            let took = (self.now)().since(begun);
            let each = took.saturating_sub(self.shortest) / calls.len() as u64;
            self.each_takes = (self.each_takes * 7 + each) / 8;
        }
        Ok(answers.into_iter().map(|answer| answer.expect("each was asked for")).collect())
    }

    /// Asks the node that keeps the keys of the calls with these numbers. Of several, those that it does not keep are
    /// to be asked for at another one, which it may name.
    fn ask_node(
        &mut self,
        keeper: Option<NodeId>,
        calls: &[Call],
        places: &[usize],
    ) -> RedisResult<Vec<Result<Answer, Option<NodeId>>>> {
        let turn = 3 * self.shortest / 1000 + LATENESS;
        let commands: Vec<_> =
            places.iter().map(|&at| calls[at].command(&self.script, &self.nodes.server.name, turn)).collect();
        let writes = places.iter().any(|&at| !calls[at].new.is_empty());
        let ServerVault { nodes, now, .. } = self;
        let replicas = nodes.server.replicas;
        let (teller, answers) = nodes.ask(keeper, |node, connection| {
            if writes {
                connection.replicate(replicas, false)?;
            }
            let asked = now();
            let replies = connection.call_each(SCRIPT, &commands)?;
            let answered = now();
            let is_alone = replies.len() == 1;
            let read = |reply: RedisResult<_>| match reply {
                Ok(reply) => {
                    read(reply, node, asked, answered).map(Ok).ok_or_else(|| away("its reply makes no sense"))
                }
                Err(error) if is_alone => Err(error),
                Err(error) => Ok(Err(error)),
            };
            let answers = replies.into_iter().map(read).collect::<RedisResult<Vec<RedisResult<Answer>>>>()?;
            let is_written = |answer: &Answer| matches!(answer.outcome, Outcome::Swapped | Outcome::Replied);
            if answers.iter().flatten().any(is_written) {
                connection.replicate(replicas, true)?;
            }
            Ok((node, answers))
        })?;
        let mut named =
            |error: RedisError| match error.redirect_node().filter(|_| error.code() == Some("MOVED")) {
                Some((name, _)) => nodes.node_at(teller, name).map(Some),
                None => Ok(None),
            };
        let answer = |answer: RedisResult<Answer>| {
            Ok(match answer {
                Ok(answer) => Ok(answer),
                Err(error) => Err(named(error)?),
            })
        };
        answers.into_iter().map(answer).collect()
    }

    /// Learns from an answer about a key. Returns why what was written to it before may be lost.
    fn learn(&mut self, key: &[u8], answer: &Answer) -> Option<Suspicion> {
        let (validity, memory) = self.terms;
        self.shortest = self.shortest.min(answer.reading.took());
        let now = Some(answer.reading.shown);
        let answered = answer.reading.answered;
        let is_contended = self.is_contended(key);
        let keeper = Keeper { node: answer.node, asked: answered, is_contended };
        let before = self.keepers.insert(key.to_owned(), keeper);
        // Nothing matters any more that was written before that.
        self.eviction.retain(&mut self.keepers, |_, keeper| answered.since(keeper.asked) <= memory);
        let before = before.filter(|before| before.node != answer.node);
        let keeper = before.and_then(|before| self.clocks.get(&before.node));
        let may_be_ahead = keeper.is_some_and(|clock| clock.may_be_behind(&answer.reading, validity, memory));
        let clock = self.clocks.entry(answer.node).or_default();
        clock.learn(&answer.reading, validity, memory);
        let forward = clock.good_from();
        let why = "its clock was set forward";
        let of_clock = forward.map(|_| Suspicion { why, good_from: forward });
        let why = "another node has taken over, whose clock may be ahead";
        may_be_ahead.then_some(Suspicion { why, good_from: now }).or(of_clock)
    }

    /// Reads the values of keys.
    fn read_each(&mut self, keys: &[&[u8]]) -> Result<Vec<(Answer, Option<Suspicion>)>, StoreError> {
        let calls: Vec<_> = keys.iter().map(|key| Call { key, ..Call::default() }).collect();
        let answers = self.persist(|vault| vault.ask_each(&calls))?;
        let learned = keys.iter().zip(answers).map(|(key, answer)| {
            let suspicion = self.learn(key, &answer);
            self.note(key, answer.value.as_ref(), answer.reading);
            (answer, suspicion)
        });
        Ok(learned.collect())
    }

    /// The nanoseconds that it takes to read the state's own value.
    fn takes(&mut self) -> Result<u64, StoreError> {
        Ok(self.read_each(&[b""])?.iter().map(|(answer, _)| answer.reading.took()).sum())
    }

    /// Remembers the value of a key.
    fn note(&mut self, key: &[u8], value: Option<&Value>, reading: Reading) {
        if key.is_empty() {
            self.own = Some((value.cloned(), reading));
        }
        self.last = value.map(|value| (key.to_owned(), value.clone(), reading));
    }

    /// Swaps, or queues and waits until one has the turn or a reply.
    fn swap_in_turn(&mut self, calls: &mut [Call]) -> Result<Vec<(Answer, Option<Suspicion>)>, StoreError> {
        let mut suspicions = vec![None; calls.len()];
        loop {
            let answers = self.persist(|vault| vault.ask_each(calls))?;
            let learned =
                calls.iter().zip(answers).zip(&mut suspicions).map(|((call, answer), suspicion)| {
                    *suspicion = self.learn(call.key, &answer).or(*suspicion);
                    (answer, *suspicion)
                });
            let learned: Vec<_> = learned.collect();
            if learned.iter().any(|(answer, _)| answer.outcome != Outcome::Waits) {
                return Ok(learned);
            }
            calls.iter_mut().for_each(|call| (call.new, call.replies) = (b"", &[]));
            let took = learned.iter().map(|(answer, _)| answer.reading.took()).max().unwrap_or_default();
            thread::sleep(Duration::from_nanos(between_looks(self.terms.0).saturating_sub(took)));
        }
    }

    /// The number of the request for a key: that of one that still waits, or a new one.
    fn request_id(&mut self, key: &[u8]) -> String {
        self.queued.remove(key).map_or_else(|| fastrand::u64(..).to_string(), |(id, _)| id)
    }

    /// What became of a swap.
    fn swapped(&mut self, write: &Write, id: String, answer: Answer, suspicion: Option<Suspicion>) -> Swap {
        let Answer { value, reading, outcome, mut told, .. } = answer;
        let is_swapped = outcome == Outcome::Swapped;
        let is_contended = !is_swapped || !write.replies.is_empty();
        self.keepers.get_mut(write.key).into_iter().for_each(|keeper| keeper.is_contended = is_contended);
        if outcome == Outcome::Waits {
            self.queued.insert(write.key.to_owned(), (id, false));
            return Swap::Queued(suspicion);
        }
        let is_doubted = |suspicion: &Suspicion| suspicion.good_from.is_some_and(|from| write.decided < from);
        if is_swapped && !suspicion.as_ref().is_some_and(is_doubted) {
            self.note(write.key, Some(&write.value.to_owned()), reading);
            return Swap::Done(reading);
        }
        // What was swapped on a clock that cannot be trusted is not what it was meant to be.
        let value = if is_swapped { Some(write.value.to_owned()) } else { value };
        self.note(write.key, value.as_ref(), reading);
        let mut loaded = Loaded { values: vec![value], reading, suspicion, is_old: false, waiting: None };
        if outcome == Outcome::Replied {
            return Swap::Replied(told.pop().unwrap_or_default(), loaded);
        }
        if outcome == Outcome::HasTurn {
            let pairs =
                told.chunks_exact_mut(2).map(|pair| (mem::take(&mut pair[0]), mem::take(&mut pair[1])));
            loaded.waiting = Some(pairs.collect());
            self.queued.insert(write.key.to_owned(), (id, true));
        }
        Swap::Refused(loaded)
    }

    fn is_recent(&self, reading: &Reading) -> bool {
        (self.now)().since(reading.answered) < HOLD_REFRESH
    }
}

impl Vault for ServerVault {
    fn load(&mut self, keys: &[&[u8]], may_be_old: bool) -> Result<Loaded, StoreError> {
        Ok(self.load_each(&[keys], may_be_old)?.remove(0))
    }

    /// Slots are good for more than two round trips: what is left of that is for what each call takes beside the way.
    fn at_once(&self) -> usize {
        let left = self.good_for(self.terms.0).saturating_sub(2 * self.shortest);
        usize::try_from(left / (2 * self.each_takes).max(1)).unwrap_or(usize::MAX).max(8)
    }

    /// Of several keys, the empty one may have been read up to a second before.
    fn load_each(&mut self, each: &[&[&[u8]]], may_be_old: bool) -> Result<Vec<Loaded>, StoreError> {
        let may_be_old = may_be_old && self.terms.0 >= SHORT;
        let is_known = |(known, _, reading): &&(Value, Value, Reading)| {
            each.iter().any(|keys| keys.ends_with(&[known])) && self.is_recent(reading)
        };
        let last = self.last.as_ref().filter(|_| may_be_old).filter(is_known).cloned();
        let is_old = |keys: &[&[u8]]| last.as_ref().is_some_and(|(known, ..)| keys.ends_with(&[known]));
        let needs_own = each.iter().any(|keys| keys.len() > 1);
        let lacks_own = |vault: &Self| {
            needs_own && !vault.own.as_ref().is_some_and(|(_, reading)| vault.is_recent(reading))
        };
        let own = lacks_own(self).then_some(&b""[..]);
        let missing = each.iter().filter(|keys| !is_old(keys)).map(|keys| keys[keys.len() - 1]);
        let mut read = self.read_each(&own.into_iter().chain(missing).collect::<Vec<_>>())?.into_iter();
        let mut of_own = own.and_then(|_| read.next()?.1);
        // Many keys may take long.
        if lacks_own(self) {
            of_own = self.read_each(&[b""])?.remove(0).1.or(of_own);
        }
        let own = self.own.as_ref().and_then(|(own, _)| own.clone());
        let load = |keys: &&[&[u8]]| {
            let old = last.as_ref().filter(|_| is_old(keys));
            let (value, reading, doubt) = if let Some((_, value, reading)) = old {
                (Some(value.clone()), reading.later((self.now)()), None)
            } else {
                let (answer, doubt) = read.next().expect("each was read");
                (answer.value, answer.reading, doubt)
            };
            let values = if keys.len() > 1 { vec![own.clone(), value] } else { vec![value] };
            let suspicion = doubt.or(of_own);
            Loaded { values, reading, suspicion, is_old: old.is_some(), waiting: None }
        };
        Ok(each.iter().map(load).collect())
    }

    fn swap(&mut self, write: &Write) -> Result<Swap, StoreError> {
        loop {
            let swap = self.swap_each(slice::from_ref(write))?.remove(0);
            if !matches!(swap, Swap::Queued(_)) {
                return Ok(swap);
            }
        }
    }

    fn swap_each(&mut self, writes: &[Write]) -> Result<Vec<Swap>, StoreError> {
        let id = |write: &Write| write.request.map_or_else(String::new, |_| self.request_id(write.key));
        let ids: Vec<_> = writes.iter().map(id).collect();
        let mut calls: Vec<_> = writes.iter().zip(&ids).map(|(write, id)| Call::of(write, id)).collect();
        let answers = self.swap_in_turn(&mut calls)?;
        let swaps = writes.iter().zip(ids).zip(answers);
        Ok(swaps
            .map(|((write, id), (answer, suspicion))| self.swapped(write, id, answer, suspicion))
            .collect())
    }

    fn is_contended(&self, key: &[u8]) -> bool {
        self.keepers.get(key).is_some_and(|keeper| keeper.is_contended)
    }

    fn has_turn(&self, key: &[u8]) -> bool {
        self.queued.get(key).is_some_and(|(_, has_turn)| *has_turn)
    }

    fn retry(&mut self, may_retry: bool) {
        self.may_retry = may_retry;
    }

    /// Until it answers fast: to book in vain would use up the limit.
    fn came_late(&mut self, mut took: u64, is_first: bool) -> Result<(), StoreError> {
        let (validity, timeout) = (self.terms.0, self.timeout);
        let recent = self.late.take().filter(|(_, at)| !is_first && at.elapsed() <= timeout);
        let mut patience = recent.map_or_else(|| Patience::begin(timeout), |(patience, _)| patience);
        while took > self.good_for(validity) {
            let why = away(too_long(took, validity, true));
            patience.wait(&self.nodes.server, &*self.warn, &why)?;
            took = self.takes()?;
        }
        self.late = Some((patience, Instant::now()));
        Ok(())
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
                keys.chunks(FORGOTTEN_AT_ONCE).try_for_each(|keys| {
                    // In a cluster, one command takes only keys of one hash slot.
                    let mut unlink = pipe();
                    keys.iter().for_each(|key| _ = unlink.cmd("UNLINK").arg(redis_key(&name, key)).ignore());
                    unlink.exec(connection)
                })
            })
        })?;
        Ok(is_any)
    }

    fn lags_by(&self) -> u64 {
        HOLD_REFRESH
    }

    fn keeps_for(&self) -> u64 {
        SLACK
    }

    fn expect(&mut self, validity: u64, memory: u64) {
        self.terms = (validity, memory);
    }

    /// Steps of the clock of up to the rest are not noticed.
    fn good_for(&self, validity: u64) -> u64 {
        clock::good_for(validity)
    }

    fn least_validity(&mut self, given: Option<u64>) -> Result<u64, StoreError> {
        let mut shortest = u64::MAX;
        for _ in 0..TRIALS {
            let took = self.takes()?;
            let is_settled = shortest.abs_diff(took) <= took / 8;
            shortest = shortest.min(took);
            if is_settled || given.is_some_and(|given| shortest <= given / ROUND_TRIPS) {
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

    fn warn_of_waits_by(&mut self, warn: Warn) {
        self.warn = warn;
    }

    fn name(&self) -> Cow<'_, str> {
        self.nodes.server.to_string().into()
    }

    fn option(&self) -> String {
        if self.nodes.server.has_credentials() { String::new() } else { format!(" -s {}", self.name()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;

    #[test]
    fn the_keepers_of_keys_that_no_longer_matter_are_forgotten() {
        let server = "redis://127.0.0.1/web".parse().unwrap();
        let mut vault = ServerVault::new(server, Duration::from_secs(1), Box::new(|| Time::ZERO));
        let memory = 60 * SECOND;
        vault.expect(SECOND, memory);
        for number in 0..20_000 {
            let at = Time(number * SECOND);
            let reading = Reading { asked: at, shown: at, answered: at, wall: Wall::EPOCH };
            let (node, outcome) = (NodeId::default(), Outcome::Read);
            let answer = Answer { node, reading, outcome, value: None, told: Vec::new() };
            vault.learn(&number.to_le_bytes(), &answer);
            let matters =
                |age: u64| vault.keepers.contains_key(&number.saturating_sub(age).to_le_bytes()[..]);
            assert!((0..=60).all(matters), "{number}");
        }
        assert!(vault.keepers.len() < 1000, "{}", vault.keepers.len());
    }
}
