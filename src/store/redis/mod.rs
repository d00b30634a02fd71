//! A vault in a Redis server, for limits that several machines share.
//!
//! One script swaps a value, which the server runs as one step: so there is one order of all bookings, and one clock,
//! the server's. Each value is kept under a key of its own, which expires once it no longer matters; the state's own,
//! with its limits, a month later.
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
mod client;
mod clock;
mod connection;
mod distance;
mod failure;
mod keepers;
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
use std::thread;
use std::time::{Duration, Instant};

use self::call::{Call, Outcome, ScriptAnswer};
use self::client::Client;
use self::distance::{ROUND_TRIPS, SHORT, too_long};
use self::failure::away;
use self::keepers::Keepers;
pub use self::offline::book_over;
use self::retries::Patience;
use super::hold::HOLD_REFRESH;
use super::vault::{Loaded, Reading, Suspicion, Swap, Value, Vault, Write, between_looks};
use super::{BootClock, StoreError, Warn};
use crate::config::Server;
use crate::exit::Exit;
use crate::time::SECOND;

/// The nanoseconds for which a value is kept after it is idle: clocks differ.
const SLACK: u64 = 10 * SECOND;

/// The nanoseconds for which the limits of a state are kept after it is idle.
const LIMITS_KEPT: u64 = 30 * 86_400 * SECOND;

/// The most times that it is asked to find out how long an answer takes, until two answers agree: the first answers
/// of a busy machine are slow.
const TRIALS: usize = 5;

/// Values on a Redis server.
pub struct ServerVault {
    client: Client,
    keepers: Keepers,
    /// The keys that it waits to swap, with the number of its request and whether it has the turn.
    queued: HashMap<Value, (String, bool)>,
    /// Since its answers came too late for slots, and when they did last.
    late: Option<(Patience, Instant)>,
    /// The value of the empty key, and when it was read.
    own: Option<(Option<Value>, Reading)>,
    /// The value that was read or written last.
    last: Option<(Value, Value, Reading)>,
}

impl ServerVault {
    /// The server, which is tried for `timeout`; the first question connects to it. `now` shows the time since boot. It
    /// must not stop while the machine sleeps.
    pub fn new(server: Server, timeout: Duration, now: BootClock) -> Self {
        ServerVault {
            client: Client::new(server, timeout, now),
            keepers: Keepers::default(),
            queued: HashMap::new(),
            late: None,
            own: None,
            last: None,
        }
    }

    /// Asks until there is an answer to each call, and learns from it.
    fn ask_each(&mut self, calls: &[Call]) -> Result<Vec<ScriptAnswer>, StoreError> {
        let ServerVault { client, keepers, .. } = self;
        let mut answers = client.persist(|client| client.ask_each(calls, keepers))?;
        for (call, answer) in calls.iter().zip(&mut answers) {
            answer.suspicion = keepers.learn(call.key, answer);
        }
        Ok(answers)
    }

    /// Reads the values of keys.
    fn read_each(&mut self, keys: &[&[u8]]) -> Result<Vec<ScriptAnswer>, StoreError> {
        let calls: Vec<_> = keys.iter().map(|key| Call { key, ..Call::default() }).collect();
        let answers = self.ask_each(&calls)?;
        let read = keys.iter().zip(&answers);
        read.for_each(|(key, answer)| self.note(key, answer.value.as_ref(), answer.reading));
        Ok(answers)
    }

    /// The nanoseconds that it takes to read the state's own value.
    fn takes(&mut self) -> Result<u64, StoreError> {
        Ok(self.read_each(&[b""])?[0].reading.took())
    }

    /// Remembers the value of a key.
    fn note(&mut self, key: &[u8], value: Option<&Value>, reading: Reading) {
        if key.is_empty() {
            self.own = Some((value.cloned(), reading));
        }
        self.last = value.map(|value| (key.to_owned(), value.clone(), reading));
    }

    /// Swaps, or queues and waits until one has the turn or a reply.
    fn swap_in_turn(&mut self, calls: &mut [Call]) -> Result<Vec<ScriptAnswer>, StoreError> {
        let mut suspicions = vec![None; calls.len()];
        loop {
            let mut answers = self.ask_each(calls)?;
            for (answer, suspicion) in answers.iter_mut().zip(&mut suspicions) {
                *suspicion = answer.suspicion.or(*suspicion);
                answer.suspicion = *suspicion;
            }
            if answers.iter().any(|answer| answer.outcome != Outcome::Waits) {
                return Ok(answers);
            }
            calls.iter_mut().for_each(|call| (call.new, call.replies) = (b"", &[]));
            let took = answers.iter().map(|answer| answer.reading.took()).max().unwrap_or_default();
            thread::sleep(Duration::from_nanos(between_looks(self.keepers.validity()).saturating_sub(took)));
        }
    }

    /// The number of the request for a key: that of one that still waits, or a new one.
    fn request_id(&mut self, key: &[u8]) -> String {
        self.queued.remove(key).map_or_else(|| fastrand::u64(..).to_string(), |(id, _)| id)
    }

    /// What became of a swap.
    fn swapped(&mut self, write: &Write, id: String, answer: ScriptAnswer) -> Swap {
        let ScriptAnswer { value, reading, outcome, mut told, suspicion, .. } = answer;
        let is_swapped = outcome == Outcome::Swapped;
        let is_contended = !is_swapped || !write.replies.is_empty();
        self.keepers.set_contended(&write.key, is_contended);
        if outcome == Outcome::Waits {
            self.queued.insert(write.key.clone(), (id, false));
            return Swap::Queued(suspicion);
        }
        let is_doubted = |suspicion: &Suspicion| suspicion.good_from.is_some_and(|from| write.decided < from);
        if is_swapped && !suspicion.as_ref().is_some_and(is_doubted) {
            self.note(&write.key, Some(&write.value), reading);
            return Swap::Done(reading);
        }
        // What was swapped on a clock that cannot be trusted is not what it was meant to be.
        let value = if is_swapped { Some(write.value.clone()) } else { value };
        self.note(&write.key, value.as_ref(), reading);
        let mut loaded = Loaded::new(vec![value], reading, suspicion);
        if outcome == Outcome::Replied {
            return Swap::Replied(told.pop().unwrap_or_default(), loaded);
        }
        if outcome == Outcome::HasTurn {
            let pairs =
                told.chunks_exact_mut(2).map(|pair| (mem::take(&mut pair[0]), mem::take(&mut pair[1])));
            loaded.waiting = Some(pairs.collect());
            self.queued.insert(write.key.clone(), (id, true));
        }
        Swap::Refused(loaded)
    }

    fn is_recent(&self, reading: &Reading) -> bool {
        self.client.now().since(reading.answered) < HOLD_REFRESH
    }
}

impl Vault for ServerVault {
    fn load(&mut self, keys: &[&[u8]], may_be_old: bool) -> Result<Loaded, StoreError> {
        Ok(self.load_each(&[keys], may_be_old)?.remove(0))
    }

    /// Slots are good for more than two round trips: what is left of that is for what each call takes beside the way.
    fn at_once(&self) -> usize {
        let calls = self.client.calls_within(self.good_for(self.keepers.validity()));
        usize::try_from(calls).unwrap_or(usize::MAX).max(8)
    }

    /// Of several keys, the empty one may have been read up to a second before.
    fn load_each(&mut self, each: &[&[&[u8]]], may_be_old: bool) -> Result<Vec<Loaded>, StoreError> {
        let is_first = may_be_old;
        let may_be_old = may_be_old && self.keepers.validity() >= SHORT;
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
        let read = self.read_each(&own.into_iter().chain(missing).collect::<Vec<_>>())?;
        // Where a key is new, all may have been lost since. Later, the state's own value has just been read or written.
        let may_be_lost = is_first && needs_own && own.is_none();
        let are_new = may_be_lost && read.iter().any(|answer| answer.value.is_none());
        let mut read = read.into_iter();
        let mut of_own = own.and_then(|_| read.next()?.suspicion);
        // Many keys may take long.
        if are_new || lacks_own(self) {
            of_own = self.read_each(&[b""])?[0].suspicion.or(of_own);
        }
        let own = self.own.as_ref().and_then(|(own, _)| own.clone());
        let load = |keys: &&[&[u8]]| {
            let old = last.as_ref().filter(|_| is_old(keys));
            let (value, reading, doubt) = if let Some((_, value, reading)) = old {
                (Some(value.clone()), reading.later(self.client.now()), None)
            } else {
                let answer = read.next().expect("each was read");
                (answer.value, answer.reading, answer.suspicion)
            };
            let values = if keys.len() > 1 { vec![own.clone(), value] } else { vec![value] };
            let suspicion = doubt.or(of_own);
            Loaded { is_old: old.is_some(), ..Loaded::new(values, reading, suspicion) }
        };
        Ok(each.iter().map(load).collect())
    }

    fn swap(&mut self, write: &Write) -> Result<Swap, StoreError> {
        Ok(self.swap_each(&[write])?.remove(0))
    }

    fn swap_each(&mut self, writes: &[&Write]) -> Result<Vec<Swap>, StoreError> {
        let id =
            |write: &&Write| write.request.as_ref().map_or_else(String::new, |_| self.request_id(&write.key));
        let ids: Vec<_> = writes.iter().map(id).collect();
        let mut calls: Vec<_> = writes.iter().zip(&ids).map(|(write, id)| Call::of(write, id)).collect();
        let answers = self.swap_in_turn(&mut calls)?;
        let swaps = writes.iter().zip(ids).zip(answers);
        Ok(swaps.map(|((write, id), answer)| self.swapped(write, id, answer)).collect())
    }

    fn is_contended(&self, key: &[u8]) -> bool {
        self.keepers.is_contended(key)
    }

    fn has_turn(&self, key: &[u8]) -> bool {
        self.queued.get(key).is_some_and(|(_, has_turn)| *has_turn)
    }

    fn retry(&mut self, may_retry: bool) {
        self.client.may_retry = may_retry;
    }

    /// Until it answers fast: to book in vain would use up the limit.
    fn came_late(&mut self, mut took: u64, is_first: bool) -> Result<(), StoreError> {
        let (validity, timeout) = (self.keepers.validity(), self.client.timeout);
        let recent = self.late.take().filter(|(_, at)| !is_first && at.elapsed() <= timeout);
        let mut patience = recent.map_or_else(|| Patience::begin(timeout), |(patience, _)| patience);
        while took > self.good_for(validity) {
            let why = away(too_long(took, validity, true));
            patience.wait(self.client.server(), &*self.client.warn, &why)?;
            took = self.takes()?;
        }
        self.late = Some((patience, Instant::now()));
        Ok(())
    }

    fn keys(&mut self) -> Result<Vec<Vec<u8>>, StoreError> {
        self.client.keys()
    }

    fn forget(&mut self) -> Result<bool, StoreError> {
        self.client.forget()
    }

    fn lags_by(&self) -> u64 {
        HOLD_REFRESH
    }

    fn keeps_for(&self) -> u64 {
        SLACK
    }

    fn expect(&mut self, validity: u64, memory: u64) {
        self.keepers.expect(validity, memory);
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
                let why = too_long(shortest, given, false);
                Err(StoreError::new(Exit::BadStore, self.client.server(), why))
            }
            None => Ok(shortest.saturating_mul(ROUND_TRIPS).next_multiple_of(100_000)),
        }
    }

    fn times_set(&self) -> Option<u64> {
        Some(self.keepers.times_set())
    }

    fn loss(&self) -> &'static str {
        "it has lost earlier bookings"
    }

    /// It is asked only when something is to be booked.
    fn is_at_hand(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn warn_of_waits_by(&mut self, warn: Warn) {
        self.client.warn = warn;
    }

    fn name(&self) -> Cow<'_, str> {
        self.client.server().to_string().into()
    }

    fn state(&self) -> Option<Cow<'_, str>> {
        (!self.client.server().has_credentials()).then(|| self.name())
    }
}
