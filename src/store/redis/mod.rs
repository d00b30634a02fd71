//! A store in a Redis server, for limits that several machines share.
//!
//! Booking is one script, which runs in the server as one step: so there is one order of all bookings, and one clock,
//! the server's. Each limit has its own key, of a few bytes; for `sliding` it is a log of 8 bytes for each of the N. Keys
//! expire once they no longer matter.
//!
//! # When state is lost
//!
//! Servers are restarted without what they knew, flushed, and replaced by replicas that lag behind. Each booking tells
//! what this process has seen of the state before: which history (a random number), how many units, the newest slot.
//! If less is kept, and what was seen still matters, all that was lost is taken as used up until now and, since slots
//! may have been booked up to the horizon, until there: nothing is released for a window. The same is done when the
//! server's clock has been set: back, if there are slots beyond the horizon; forward, if it is further ahead of our own
//! clock than earlier answers allow (see `clock`).
//!
//! # When the server is away
//!
//! Then nothing is released, and it is asked again until a timeout. If an answer is lost after the script ran, its
//! slots are booked in vain, which costs throughput, never the limit.

mod clock;
mod connection;
mod distance;
mod failure;
mod offline;
mod reset;
mod retries;
mod script;
mod sightings;
mod socket;
mod terms;
#[cfg(feature = "tls")]
mod tls;

use std::time::Duration;

use anyhow::{Result, anyhow};

use self::clock::{Exchange, Micros, ServerClock};
use self::connection::Connection;
use self::distance::{ensure_near, too_far};
use self::failure::Failure;
pub(super) use self::reset::reset;
use self::retries::persist;
use self::script::{BookedSlots, Booking, Charge, Found, Reply, Request};
use self::sightings::Sightings;
use self::socket::Patience;
use self::terms::{ScriptTerms, terms};
use super::{Answer, Order, Policy, Slot, Store, StoreError};
use crate::charge::Key;
use crate::config::Server;
use crate::exit::Exit;
use crate::time::Time;

/// Whoever has to wait does not come back to the microsecond: by then there is no more than one slot.
const LEAST_PAUSE: u64 = 1_000_000;
const MOST_PAUSE: u64 = 50_000_000;

/// Keeps limits in a Redis server, by the server's clock.
pub struct RedisStore {
    server: Server,
    policy: Policy,
    /// The policy in the numbers of the scripts; none before the first booking.
    terms: Vec<ScriptTerms>,
    timeout: Duration,
    now: Box<dyn Fn() -> Time + Send>,
    booking: Booking,
    connection: Option<Connection>,
    is_near: bool,
    clock: ServerClock,
    sightings: Sightings,
    began: Micros,
    warning: Option<String>,
}

/// Opens a store on `server`, which is not asked yet.
///
/// # Errors
/// Redis cannot keep these limits exactly.
pub(super) fn open(
    server: &Server,
    policy: Policy,
    timeout: Duration,
    now: impl Fn() -> Time + Send + 'static,
) -> Result<Box<dyn Store>, StoreError> {
    RedisStore::check(&policy).map_err(|error| StoreError { exit: Exit::Usage, error })?;
    Ok(Box::new(RedisStore::new(server.clone(), policy, timeout, now)))
}

impl RedisStore {
    /// A store that connects with the first booking.
    ///
    /// `now` is the clock that slots are told by. It must not stand still while the machine sleeps. A booking fails
    /// once it has been tried for `timeout`.
    pub fn new(
        server: Server,
        policy: Policy,
        timeout: Duration,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Self {
        RedisStore {
            sightings: Sightings::new(policy.quotas.len()),
            server,
            policy,
            terms: Vec::new(),
            timeout,
            now: Box::new(now),
            booking: Booking::new(),
            connection: None,
            is_near: false,
            clock: ServerClock::default(),
            began: 0,
            warning: None,
        }
    }

    /// Whether Redis can keep these limits exactly. Booking finds out, too.
    ///
    /// # Errors
    /// It cannot: they are too long, too large, or have too long a log. It says what to do about it.
    pub fn check(policy: &Policy) -> Result<()> {
        terms(policy).map(|_| ())
    }

    fn charges(&mut self, order: &Order) -> Result<Vec<Charge>> {
        if self.terms.is_empty() {
            self.terms = terms(&self.policy)?;
        }
        let terms = self.terms.iter().copied().zip(&order.costs).enumerate();
        let charged = terms.filter(|(_, (_, cost))| **cost > 0);
        charged.map(|(index, (terms, &cost))| self.charge(&order.key, index, terms, cost)).collect()
    }

    fn charge(&self, key: &Key, index: usize, terms: ScriptTerms, cost: u64) -> Result<Charge> {
        terms.ensure_exact(cost)?;
        let seen = self.sightings.seen(key, index);
        Ok(Charge { index, terms, cost, seen, is_distrusted: self.sightings.is_distrusted(key, index) })
    }

    /// Asks once; twice, if the first answer says that no answer could be trusted.
    fn attempt(&mut self, order: &Order, patience: Patience) -> Result<Answer, Failure> {
        for _ in 0..2 {
            let charges = self.charges(order).map_err(|error| Failure::bad(Exit::Usage, error))?;
            let (exchange, booked) = self.ask(order, &charges, patience)?;
            let memory = self.memory(&charges);
            let deadline = self.policy.deadline;
            if self.clock.was_set_forward(&exchange, deadline, memory.saturating_mul(1000)) {
                self.warn("its clock was set forward");
                self.sightings.distrust(booked.now.saturating_add(memory));
                continue;
            }
            self.note(order, &charges, &booked);
            return self.answer(&exchange, &booked);
        }
        Err(Failure::away("its clock is set forward again and again"))
    }

    fn ask(
        &mut self,
        order: &Order,
        charges: &[Charge],
        patience: Patience,
    ) -> Result<(Exchange, BookedSlots), Failure> {
        let request = Request {
            name: self.server.name(),
            key: &order.key,
            policy: &self.policy.text,
            horizon: self.policy.horizon / 1000,
            count: order.count.min(self.policy.span.max(1)),
            began: self.began,
            charges,
        };
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(&self.server, self.is_near, patience)?),
        };
        connection.set_patience(patience);
        if !self.is_near {
            ensure_near(connection, &self.now, self.policy.deadline)?;
            self.is_near = true;
        }
        let asked = (self.now)();
        let reply = self.booking.ask(connection, &request)?;
        let answered = (self.now)();
        match reply {
            Reply::Booked(booked) => Ok((Exchange { asked, server: booked.now, answered }, booked)),
            Reply::OtherPolicy(other) => Err(self.other_policy(&other)),
        }
    }

    fn other_policy(&self, other: &str) -> Failure {
        let (name, ours) = (self.server.name(), &self.policy.text);
        let error = anyhow!(
            "'{name}' is kept for other limits: {other} there, {ours} here: give the same limits or another name, or begin anew by 'throttle --reset-state -s {}'",
            self.server
        );
        Failure::bad(Exit::BadState, error)
    }

    /// For how long a slot may matter, in microseconds.
    fn memory(&self, charges: &[Charge]) -> u64 {
        let longest = charges.iter().map(|charge| charge.terms.memory(charge.cost)).max().unwrap_or(0);
        longest.saturating_add(self.policy.horizon / 1000)
    }

    fn note(&mut self, order: &Order, charges: &[Charge], booked: &BookedSlots) {
        match booked.found {
            Found::Nothing | Found::Distrusted => {}
            Found::Lost => self.warn("it has lost what was booked before"),
            Found::SetBack => self.warn("its clock was set back"),
        }
        if self.began == 0 {
            self.began = booked.now;
        }
        self.sightings.note(&order.key, charges, &booked.seen, booked.now);
    }

    fn warn(&mut self, what: &str) {
        let server = &self.server;
        let warning = format!(
            "{server}: {what}: nothing is released until every slot that might have been booked is more than a period old"
        );
        self.warning.get_or_insert(warning);
    }

    fn answer(&mut self, exchange: &Exchange, booked: &BookedSlots) -> Result<Answer, Failure> {
        let slot = |&slot: &Micros| exchange.slot(slot, self.policy.deadline);
        let slots: Vec<Slot> = booked.slots.iter().filter_map(slot).collect();
        if slots.is_empty() && !booked.slots.is_empty() {
            return Err(Failure::away(too_far(exchange.round_trip(), self.policy.deadline)));
        }
        let ask_again = booked.ask_again.map(|at| self.pause(exchange.not_before(at)));
        Ok(Answer { slots, ask_again, warning: self.warning.take() })
    }

    fn pause(&self, until: Time) -> Time {
        let most = (self.policy.horizon / 16).clamp(LEAST_PAUSE, MOST_PAUSE);
        Time(until.0.saturating_add(fastrand::u64(LEAST_PAUSE..=most)))
    }
}

impl Store for RedisStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        persist(&self.server.clone(), self.timeout, |patience| {
            let answer = self.attempt(order, patience);
            if answer.is_err() {
                self.connection = None;
            }
            answer
        })
    }
}
