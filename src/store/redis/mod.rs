//! A store in a Redis server, for limits that several machines share.
//!
//! Booking is one script, which the server runs as one step: so there is one order of all bookings, and one clock, the
//! server's. All limits of a name, or of one of its keys, are kept under one key: the policy, a few bytes for each
//! limit and, for `sliding`, a log of 8 bytes for each of the N. Keys expire once they no longer matter.
//!
//! # When state is lost
//!
//! Servers are restarted without their data, flushed, and replaced by replicas that lag behind. Each booking says what
//! this process has seen of the state before: which history, which write in it, the newest slot. If that is not what is
//! kept, everything that was lost counts as used up until now and, as slots may have been booked up to the horizon,
//! until there: nothing is released for a window. That holds even if all that was seen is over, as others may have
//! booked since; only what has expired by itself is not lost. Older states that come back show themselves: a history
//! has the instant of its beginning, and each write a random number, as the slots of a full limit are the same whoever
//! books them. Whoever notices a loss gives up its slots, in case they are booked in both. The same happens when the
//! server's clock has been set: back, if there are slots beyond the horizon; forward, if it is further ahead of our own
//! clock than earlier answers allow (see `clock`).
//!
//! # In a cluster
//!
//! A key is in one slot, and moves to another node as a whole. Each booking checks the policy that is kept under its
//! key. A run with keys also checks that of the name, which another node may keep, when it begins and now and then.
//! Each node has a clock of its own. If the node that takes over a key has one that is ahead, slots would come too
//! early by as much; so it is distrusted, as after a step, and gets no slots back that the other node gave.
//!
//! A replica that is promoted may lack bookings whose slots are about to be used. The next process that asks gets the
//! same slots, unless it is the one that booked them. With `replicas=`, no slot is used before `WAIT` says that this
//! number of replicas has it.
//!
//! # The calendar
//!
//! A server knows no zones. Each booking tells it when periods begin and in which hours limits are asked (see
//! `calendar`), on its own clock, which is the one that counts. It keeps the last period that was used: a period that
//! is over does not begin again, even when the server's clock is set back.
//!
//! # When the server is near
//!
//! Slots may then be valid for less than a millisecond, of which an answer takes its part. A server that has slept is
//! woken by a question that books nothing. Slots that come too late are given back and asked for again at once.
//!
//! # When the server is away
//!
//! Nothing is released then, and it is asked again until a timeout. If an answer is lost after the script ran, its
//! slots are booked in vain: that costs throughput but never breaks the limit.

mod asking;
mod calendar;
mod clock;
mod connection;
mod distance;
mod failure;
mod hash_slot;
mod keys;
mod nodes;
mod observations;
mod offline;
mod remote;
mod retries;
mod returnable;
mod script;
mod sentinel;
mod shared_policy;
mod socket;
mod stored_script;
mod terms;
#[cfg(feature = "tls")]
mod tls;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};

use self::asking::SHORT;
use self::failure::ServerFailure;
use self::nodes::Nodes;
use self::observations::Observations;
pub use self::offline::book_over;
pub(super) use self::remote::Remote;
use self::retries::persist;
use self::returnable::Returnable;
use self::script::{Found, with_rules};
use self::shared_policy::{SharedPolicy, Stage};
use self::socket::Timeouts;
use self::stored_script::StoredScript;
use super::{Answer, BootClock, Order, Policy, Reach, Slot, Store, StoreError, Tell};
use crate::config::Server;
use crate::exit::Exit;
use crate::time::Time;

/// The most time that giving slots back may take.
const GIVING_BACK: Duration = Duration::from_millis(200);

/// The most times that it is asked in a row while no answer can be used.
const CORRECTIONS: usize = 4;

/// Keeps limits in a Redis server, by the server's clock.
pub struct RedisStore {
    /// The clock on which slots are given.
    now: BootClock,
    booking: StoredScript,
    nodes: Nodes,
    shared: SharedPolicy,
    observations: Observations,
    /// The instant of the last question about the name, and the end of the hold of all keys as of then.
    held: Option<(Time, Option<Time>)>,
    timeout: Duration,
    returnable: Returnable,
    warning: Option<String>,
    /// There was a loss since the last answer.
    is_lost: bool,
    tell: Tell,
}

impl RedisStore {
    /// A store that connects with the first booking.
    ///
    /// `now` is the clock on which slots are given. It must not stop while the machine sleeps. A booking fails once it
    /// has been tried for `timeout`.
    pub fn new(
        server: Server,
        policy: Policy,
        timeout: Duration,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Self {
        RedisStore {
            now: Box::new(now),
            booking: with_rules(include_str!("scripts/book.lua")),
            nodes: Nodes::new(server),
            shared: SharedPolicy::new(policy, &[]),
            observations: Observations::default(),
            held: None,
            timeout,
            returnable: Returnable::default(),
            warning: None,
            is_lost: false,
            tell: Arc::new(drop),
        }
    }

    /// Asks once; again if the answer came too late, cannot be trusted, or says that the margins or the calendar are
    /// wrong.
    fn attempt(&mut self, whole: &Order) -> Result<Answer, ServerFailure> {
        let (mut why, mut given) = (String::new(), Vec::new());
        for _ in 0..CORRECTIONS {
            let checked = self.check(whole);
            let held = self.held(whole).map(|_| Order { count: 0, ..whole.clone() });
            let order = held.as_ref().unwrap_or(whole);
            // Slots are given back only once.
            let given_back = mem::take(&mut given);
            let asked = match checked.and_then(|()| self.ask(order, &given_back)) {
                Err(ServerFailure::OtherLimits(theirs)) if self.shared.adopt(&theirs) => {
                    "the margins of the state keep changing".clone_into(&mut why);
                    continue;
                }
                Err(ServerFailure::OtherLimits(theirs)) => return Err(self.disagreement(&theirs)),
                asked => asked?,
            };
            if let Some(change) = self.check_clock(order, &asked) {
                self.warn(change);
                "its clock keeps being set forward".clone_into(&mut why);
                continue;
            }
            if asked.booked.found == Found::NotCovered {
                "its clock keeps changing".clone_into(&mut why);
                continue;
            }
            self.observe(order, &asked);
            self.tell_reach();
            match self.answer(order, &asked) {
                // It may be late by chance.
                Err(ServerFailure::Away(late)) if self.policy().deadline < SHORT => {
                    (why, given) = (late, asked.slots());
                }
                answer => return answer.map(|answer| self.heed(whole, answer)),
            }
        }
        Err(ServerFailure::Away(why))
    }

    fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    fn disagreement(&self, theirs: &str) -> ServerFailure {
        let (server, ours) = (&self.nodes.server, &self.policy().text);
        let name = &server.name;
        let error = anyhow!(
            "'{name}' has other limits: '{theirs}', not '{ours}': give the same limits or another name, or \
             start over with 'throttle --reset-state -s {server}'"
        );
        ServerFailure::bad(Exit::BadState, error)
    }

    /// Reports, once, limits of which little can be reached: the margins are known only after a booking.
    fn tell_reach(&mut self) {
        if mem::replace(&mut self.shared.stage, Stage::Told) == Stage::Told {
            return;
        }
        let low = self.policy().reach(&self.shared.rates).filter(Reach::is_low);
        low.for_each(|reach| (self.tell)(reach.to_string()));
    }
}

impl Store for RedisStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        let tell = Arc::clone(&self.tell);
        persist(&self.nodes.server.clone(), self.timeout, &*tell, |patience| {
            self.nodes.patience = patience;
            self.attempt(order)
        })
    }

    fn tell_waits_to(&mut self, tell: Tell) {
        self.tell = tell;
    }

    /// Tried once: a slot that is not given back costs throughput but never breaks the limit.
    fn give_back(&mut self, order: &Order, slots: &[Slot]) -> Result<(), StoreError> {
        let given = self.returnable.take(order, slots);
        if given.is_empty() {
            return Ok(());
        }
        let order = Order { count: 0, turn: None, ..order.clone() };
        // Not repeated if the answer is lost: another process may have them by then.
        self.nodes.patience = Timeouts::within(GIVING_BACK);
        let _ = self.ask(&order, &given);
        Ok(())
    }
}
