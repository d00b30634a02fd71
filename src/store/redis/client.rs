//! Asks the nodes that keep the values: many calls in one round trip, again and again until there is an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Script, pipe};

use super::call::{Call, Outcome, ScriptAnswer, read};
use super::failure::{away, meaning};
use super::keepers::Keepers;
use super::keys::{kept, redis_key};
use super::nodes::{NodeId, Nodes};
use super::retries::Patience;
use super::socket::Timeouts;
use crate::config::Server;
use crate::store::{BootClock, StoreError, Warn};
use crate::time::{SECOND, Time};

/// The microseconds that a process may take to decide when it has the turn, besides three round trips.
const LATENESS: u64 = 50_000;

/// The nanoseconds that each of several calls is expected to take longer.
const EACH_TAKES: u64 = 200_000;

/// The longest wait for an answer that is asked for only once.
const ONE_ATTEMPT: Duration = Duration::from_secs(2);

/// The number of keys that are forgotten in one round trip.
const FORGOTTEN_AT_ONCE: usize = 256;

const SCRIPT: &str = include_str!("vault.lua");

/// Asks a server, or the nodes of a cluster.
pub(super) struct Client {
    now: BootClock,
    pub(super) nodes: Nodes,
    /// The digest of the script.
    script: String,
    /// It is tried for this time.
    pub(super) timeout: Duration,
    pub(super) may_retry: bool,
    /// The nanoseconds that the fastest answer took.
    shortest: u64,
    /// The nanoseconds that each of several calls takes longer, on average.
    each_takes: u64,
    pub(super) warn: Warn,
}

impl Client {
    pub(super) fn new(server: Server, timeout: Duration, now: BootClock) -> Self {
        Client {
            now,
            nodes: Nodes::new(server),
            script: Script::new(SCRIPT).get_hash().to_owned(),
            timeout,
            may_retry: true,
            shortest: SECOND,
            each_takes: EACH_TAKES,
            warn: Arc::new(drop),
        }
    }

    /// The time since boot.
    pub(super) fn now(&self) -> Time {
        (self.now)()
    }

    /// The server that was named.
    pub(super) fn server(&self) -> &Server {
        &self.nodes.server
    }

    /// The number of calls that are answered together within this number of nanoseconds.
    pub(super) fn calls_within(&self, nanos: u64) -> u64 {
        nanos.saturating_sub(2 * self.shortest) / (2 * self.each_takes).max(1)
    }

    /// Asks the server until it answers, as long as there is hope and time, and at least once. Errors name the server.
    /// Warns if it takes long.
    pub(super) fn persist<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> RedisResult<T>,
    ) -> Result<T, StoreError> {
        let mut patience = Patience::begin(self.timeout);
        loop {
            let each = self.timeout.min(ONE_ATTEMPT);
            self.nodes.patience = match self.may_retry {
                true => patience.timeouts(),
                false => Timeouts { each, end: Instant::now() + each },
            };
            match attempt(self) {
                Ok(done) => return Ok(done),
                Err(error) if self.may_retry => patience.wait(self.server(), &*self.warn, &error)?,
                Err(error) => {
                    let (exit, why) = meaning(&error);
                    return Err(StoreError::new(exit, self.server(), why));
                }
            }
        }
    }

    /// Reads the values of keys, or swaps them. Those of one node are asked about together.
    pub(super) fn ask_each(&mut self, calls: &[Call], keepers: &Keepers) -> RedisResult<Vec<ScriptAnswer>> {
        let begun = (self.now)();
        let mut answers: Vec<_> = calls.iter().map(|_| None).collect();
        let keeper = |call: &Call| keepers.node_of(call.key);
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
        let took = answers.iter().flatten().map(|answer: &ScriptAnswer| answer.reading.took());
        self.shortest = took.fold(self.shortest, u64::min);
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
    ) -> RedisResult<Vec<Result<ScriptAnswer, Option<NodeId>>>> {
        let turn = 3 * self.shortest / 1000 + LATENESS;
        let commands: Vec<_> =
            places.iter().map(|&at| calls[at].command(&self.script, &self.nodes.server.name, turn)).collect();
        let writes = places.iter().any(|&at| !calls[at].new.is_empty());
        let Client { nodes, now, .. } = self;
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
            let answers =
                replies.into_iter().map(read).collect::<RedisResult<Vec<RedisResult<ScriptAnswer>>>>()?;
            let is_written =
                |answer: &ScriptAnswer| matches!(answer.outcome, Outcome::Swapped | Outcome::Replied);
            if answers.iter().flatten().any(is_written) {
                connection.replicate(replicas, true)?;
            }
            Ok((node, answers))
        })?;
        let mut named = |error: RedisError| {
            let moved = error.redirect_node().filter(|_| error.code() == Some("MOVED"));
            moved.map(|(name, _)| nodes.node_at(teller, name)).transpose()
        };
        let answers = answers.into_iter();
        answers.map(|answer| answer.map(Ok).or_else(|error| named(error).map(Err))).collect()
    }

    /// All keys.
    pub(super) fn keys(&mut self) -> Result<Vec<Vec<u8>>, StoreError> {
        self.persist(|client| {
            let name = client.nodes.server.name.clone();
            let mut keys = client.nodes.ask_all(|connection| kept(connection, &name))?.concat();
            keys.sort_unstable();
            keys.dedup();
            Ok(keys)
        })
    }

    /// Forgets all values. Returns whether there were any.
    pub(super) fn forget(&mut self) -> Result<bool, StoreError> {
        let mut is_any = false;
        self.persist(|client| {
            let name = client.nodes.server.name.clone();
            client.nodes.ask_all(|connection| {
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
}
