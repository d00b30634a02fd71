//! A store in a Redis server, for limits that several machines share.
//!
//! Booking is one script, which runs in the server as one step: so there is one order of all bookings, and one clock,
//! the server's. All limits of a name, or of one of its keys, are kept under one key: the policy, a few bytes for each
//! limit, and for `sliding` a log of 8 bytes for each of the N. Keys expire once they no longer matter.
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
//! # In a cluster
//!
//! One key is in one slot, and goes to another node as one. Each booking checks the policy that is kept under its key; a
//! run with keys checks that of the name as well, when it begins and now and then, which another node may keep. Each
//! node has a clock of its own. If the node that takes over a key has one that is ahead, slots would come too early by
//! as much, so it is distrusted, as after a step.
//!
//! A replica that is promoted may lack bookings whose slots are about to be used, and the next who asks gets the same
//! ones, unless it is who booked them. With `replicas=`, no slot is used before `WAIT` says that so many have it.
//!
//! # When the server is away
//!
//! Then nothing is released, and it is asked again until a timeout. If an answer is lost after the script ran, its
//! slots are booked in vain, which costs throughput, never the limit.

mod clock;
mod connection;
mod distance;
mod failure;
mod hash_slot;
mod margins;
mod nodes;
mod offline;
mod reset;
mod retries;
mod script;
mod sentinel;
mod sightings;
mod socket;
mod terms;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use self::clock::{Exchange, Micros};
use self::distance::{ensure_near, required_margin, round_trip, too_far};
use self::failure::Failure;
use self::margins::Margins;
use self::nodes::{NodeId, Nodes};
pub(super) use self::reset::reset;
use self::retries::persist;
use self::script::{BookedSlots, Booking, Charge, Found, Reply, Request, Seen, redis_key};
use self::sightings::Sightings;
use self::socket::Patience;
use self::terms::{ScriptTerms, terms};
use super::{Answer, Order, Policy, Reach, Slot, Store, StoreError, Tell};
use crate::charge::Key;
use crate::config::{Rate, Server};
use crate::exit::Exit;
use crate::time::Time;

/// Nobody asks again sooner than after this.
const PAUSE: u64 = 1_000_000;

/// A share of D that is many times what the script takes for one slot.
const NANOS_A_SLOT: u64 = 40_000;

/// For how long slots are given back at most.
const GIVING_BACK: Duration = Duration::from_millis(200);

/// For how long the policy of keys is on record at least, in milliseconds.
const LEAST_CLAIM: u64 = 10_000;

/// A booking: who was asked for what, and what came of it.
struct Asked {
    node: NodeId,
    charges: Vec<Charge>,
    exchange: Exchange,
    booked: BookedSlots,
}

impl Asked {
    /// Whether what is kept does not follow from what was seen before, of what still matters.
    fn is_of_another_history(&self) -> bool {
        let is_another = |(charge, seen): (&Charge, &Seen)| {
            let known = charge.seen;
            known.epoch > 0 && known.epoch != seen.epoch && known.settled > self.booked.now
        };
        self.charges.iter().zip(&self.booked.seen).any(is_another)
    }
}

/// A slot, whose it is, and what the server calls it.
struct HandedOut {
    claim: Arc<(Key, Box<[u64]>)>,
    slot: Slot,
    micros: Micros,
}

/// Keeps limits in a Redis server, by the server's clock.
pub struct RedisStore {
    server: Server,
    policy: Policy,
    /// The policy in the numbers of the scripts; none before the first booking.
    terms: Vec<ScriptTerms>,
    timeout: Duration,
    now: Box<dyn Fn() -> Time + Send>,
    booking: Booking,
    nodes: Nodes,
    /// Until when it is known that nobody uses the name for other limits.
    claimed_until: Option<Time>,
    is_near: bool,
    sightings: Sightings,
    began: Micros,
    /// The slots that may be given back.
    handed_out: Vec<HandedOut>,
    warning: Option<String>,
    tell: Option<Tell>,
    margins: Margins,
}

/// Opens a store on `server`, which is not asked yet.
///
/// # Errors
/// Redis cannot keep these limits exactly.
pub(super) fn open(
    server: &Server,
    policy: Policy,
    rates: &[Rate],
    timeout: Duration,
    now: impl Fn() -> Time + Send + 'static,
) -> Result<Box<dyn Store>, StoreError> {
    RedisStore::check(&policy).map_err(|error| StoreError { exit: Exit::Usage, error })?;
    let margins = Margins::of(rates);
    Ok(Box::new(RedisStore { margins, ..RedisStore::new(server.clone(), policy, timeout, now) }))
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
            nodes: Nodes::new(server.clone()),
            server,
            policy,
            terms: Vec::new(),
            timeout,
            now: Box::new(now),
            booking: Booking::new(),
            claimed_until: None,
            is_near: false,
            began: 0,
            handed_out: Vec::new(),
            warning: None,
            tell: None,
            margins: Margins::default(),
        }
    }

    /// Whether Redis can keep these limits exactly. Booking finds out, too.
    ///
    /// # Errors
    /// It cannot: they are too long, too large, or have too long a log. It says what to do about it.
    pub fn check(policy: &Policy) -> Result<()> {
        terms(policy).map(|_| ())
    }

    fn prepare(&mut self, order: &Order) -> Result<()> {
        if self.terms.is_empty() {
            self.terms = terms(&self.policy)?;
        }
        self.terms.iter().zip(&order.costs).try_for_each(|(terms, &cost)| terms.ensure_exact(cost))
    }

    /// Asks once; twice, if the first answer says that no answer could be trusted.
    fn attempt(&mut self, order: &Order, patience: Patience) -> Result<Answer, Failure> {
        self.settle_margins(order, patience)?;
        self.claim(order, patience)?;
        for _ in 0..2 {
            let asked = self.ask(order, &[], patience)?;
            let Asked { node, charges, exchange, .. } = &asked;
            let (deadline, memory) = (self.policy.deadline, self.memory(charges));
            let doubt = self.sightings.doubt(*node, &order.key, charges, exchange, deadline, memory);
            let Some(what) = doubt else {
                self.note(order, &asked);
                return self.answer(order, &asked);
            };
            self.warn(what);
        }
        Err(Failure::away("its clock is set forward again and again"))
    }

    /// Before anything is asked: margins that the user has left to us are as long as the way to the server demands.
    fn settle_margins(&mut self, order: &Order, patience: Patience) -> Result<(), Failure> {
        if !self.margins.are_open() {
            return Ok(());
        }
        let (key, now) = (redis_key(self.server.name(), &order.key), &self.now);
        let nothing = Request { key: &key, ..request(&self.policy, self.began) };
        let found = self.nodes.ask(&key, patience, |_, connection| {
            round_trip(now, self.policy.deadline, || match self.booking.ask(connection, &nothing)? {
                Reply::OtherPolicy(other) => Ok(Some(other)),
                Reply::Booked(_) => Ok(None),
            })
        })?;
        let policy = match found {
            Ok(round_trip) => self.margins.settle(required_margin(round_trip), &self.policy),
            Err(theirs) => self.margins.adopt(&theirs, &self.policy),
        };
        policy.map_or(Ok(()), |policy| self.change_policy(policy))?;
        self.tell_reach();
        Ok(())
    }

    fn change_policy(&mut self, policy: Policy) -> Result<(), Failure> {
        self.terms = terms(&policy).map_err(|error| Failure::bad(Exit::Usage, error))?;
        self.is_near = false;
        self.policy = policy;
        Ok(())
    }

    /// Only now is it known what the margins are.
    fn tell_reach(&self) {
        let Some(tell) = &self.tell else { return };
        let low = self.policy.reach(self.margins.rates()).filter(Reach::is_low);
        low.for_each(|reach| tell(reach.to_string()));
    }

    /// Before keys are charged, and now and then: whether all who use the name mean these limits.
    fn claim(&mut self, order: &Order, patience: Patience) -> Result<(), Failure> {
        let now = (self.now)();
        if order.key.is_empty() || self.claimed_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        let longest = self.policy.quotas.iter().map(|quota| quota.period).max().unwrap_or(0);
        let keep = (longest / 1_000_000).saturating_add(LEAST_CLAIM);
        let key = redis_key(self.server.name(), b"");
        let request = Request { key: &key, keep, ..request(&self.policy, self.began) };
        let reply = self.nodes.ask(&key, patience, |_, connection| self.booking.ask(connection, &request))?;
        if let Reply::OtherPolicy(other) = reply {
            return Err(self.other_policy(&other));
        }
        self.claimed_until = now.checked_add((keep.saturating_mul(1_000_000 / 2)).into());
        Ok(())
    }

    fn ask(&mut self, order: &Order, given: &[Micros], patience: Patience) -> Result<Asked, Failure> {
        let key = redis_key(self.server.name(), &order.key);
        let few = self.policy.far_span();
        let units = self.terms.iter().map(ScriptTerms::end_of_log).max().unwrap_or(0);
        let (sightings, terms, now, deadline) =
            (&self.sightings, &self.terms, &self.now, self.policy.deadline);
        // Many at once make the script take long: less than D, and so that the answer comes in time.
        let count = order.count.min((deadline / NANOS_A_SLOT).max(1));
        let &Order { turn, waits, .. } = order;
        let order_of =
            Request { key: &key, count, turn, few, units, given, waits, ..request(&self.policy, self.began) };
        let (asked, reply) = self.nodes.ask(&key, patience, |node, connection| {
            if !self.is_near {
                ensure_near(connection, now, deadline)?;
                self.is_near = true;
            }
            connection.replicate(self.server.replicas, false)?;
            let charges = sightings.charges(order, terms, node);
            let asked = now();
            let reply = self.booking.ask(connection, &Request { charges: &charges, ..order_of })?;
            let answered = now();
            connection.replicate(self.server.replicas, true)?;
            Ok(((node, charges, asked, answered), reply))
        })?;
        match reply {
            Reply::Booked(booked) => {
                let (node, charges, asked, answered) = asked;
                Ok(Asked {
                    node,
                    charges,
                    exchange: Exchange { asked, server: booked.now, answered },
                    booked,
                })
            }
            Reply::OtherPolicy(other) => Err(self.other_policy(&other)),
        }
    }

    fn other_policy(&mut self, other: &str) -> Failure {
        if let Some(policy) = self.margins.adopt(other, &self.policy) {
            return self
                .change_policy(policy)
                .err()
                .unwrap_or_else(|| Failure::away("the state has other margins"));
        }
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

    fn note(&mut self, order: &Order, asked: &Asked) {
        match asked.booked.found {
            // Somebody else has noticed before.
            Found::Nothing if asked.is_of_another_history() => {
                self.warn("it has lost what was booked before");
            }
            Found::Nothing | Found::Distrusted => {}
            Found::Lost => self.warn("it has lost what was booked before"),
            Found::SetBack => self.warn("its clock was set back"),
        }
        let Asked { node, charges, booked, .. } = asked;
        if self.began == 0 {
            self.began = booked.now;
        }
        self.sightings.note(*node, &order.key, charges, &booked.seen, booked.now);
    }

    fn warn(&mut self, what: &str) {
        let server = &self.server;
        self.warning.get_or_insert_with(|| format!("{server}: {what}"));
    }

    fn take_handed_out(&mut self, order: &Order, slot: Slot) -> Option<Micros> {
        let is_it = |handed_out: &HandedOut| {
            let (key, costs) = &*handed_out.claim;
            handed_out.slot == slot && *key == order.key && *costs == order.costs
        };
        let at = self.handed_out.iter().position(is_it)?;
        Some(self.handed_out.swap_remove(at).micros)
    }

    fn answer(&mut self, order: &Order, asked: &Asked) -> Result<Answer, Failure> {
        let Asked { exchange, booked, .. } = asked;
        let deadline = self.policy.deadline;
        let slot = |&micros: &Micros| exchange.slot(micros, deadline).map(|slot| (slot, micros));
        let slots: Vec<(Slot, Micros)> = booked.slots.iter().filter_map(slot).collect();
        self.handed_out.retain(|handed_out| handed_out.slot.until >= exchange.answered);
        let claim = Arc::new((order.key.clone(), order.costs.clone()));
        let handed_out = |&(slot, micros): &_| HandedOut { claim: Arc::clone(&claim), slot, micros };
        self.handed_out.extend(slots.iter().map(handed_out));
        let slots: Vec<Slot> = slots.into_iter().map(|(slot, _)| slot).collect();
        if slots.is_empty() && !booked.slots.is_empty() {
            return Err(Failure::away(too_far(exchange.round_trip(), self.policy.deadline)));
        }
        let not_before = |at| Time(exchange.not_before(at).0.saturating_add(PAUSE));
        let ask_again = booked.ask_again.map(not_before);
        let warning = self.warning.take();
        let turn = booked.turn.map(|turn| exchange.not_before(turn.0));
        let next = slots.first().map(|slot| slot.at).or(turn);
        let silent_until = next.filter(|_| warning.is_some());
        Ok(Answer { slots, ask_again, turn: booked.turn, warning, silent_until })
    }
}

/// For no slots.
fn request(policy: &Policy, began: Micros) -> Request<'_> {
    Request {
        key: b"",
        policy: &policy.text,
        limits: policy.quotas.len(),
        horizon: policy.horizon / 1000,
        count: 0,
        began,
        keep: 0,
        turn: None,
        few: 1,
        units: 0,
        given: &[],
        waits: true,
        charges: &[],
    }
}

impl Store for RedisStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        self.prepare(order).map_err(|error| StoreError { exit: Exit::Usage, error })?;
        let tell = self.tell.clone();
        let told = |why| tell.iter().for_each(|tell| tell(String::clone(&why)));
        persist(&self.server.clone(), self.timeout, told, |patience| self.attempt(order, patience))
    }

    fn tell_waits_to(&mut self, tell: Tell) {
        self.tell = Some(tell);
    }

    /// Tried once: a slot that is not given back costs throughput, never the limit.
    fn give_back(&mut self, order: &Order, slots: &[Slot]) -> Result<(), StoreError> {
        // There may be several at one instant, of which only some are given back.
        let given: Vec<Micros> = slots.iter().filter_map(|slot| self.take_handed_out(order, *slot)).collect();
        if given.is_empty() {
            return Ok(());
        }
        let order = Order { count: 0, turn: None, ..order.clone() };
        // Not a second time after an answer that is lost: somebody else may have them by then.
        let _ = self.ask(&order, &given, Patience { each: GIVING_BACK, end: Instant::now() + GIVING_BACK });
        Ok(())
    }
}
