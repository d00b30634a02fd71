//! The store of shared limits, over any vault: loads the record of a key, decides, and swaps it for another.
//!
//! All that is decided is decided here and in the [`ledger`](super::ledger), on plain values. If another process was
//! faster, its record is taken instead, and everything is decided again.
//!
//! # When state is lost
//!
//! Files are removed and replaced, servers are restarted without their data, flushed, and replaced by replicas that lag
//! behind; copies are put back. Each process remembers a [`Watermark`] of each record that it has seen. If what is kept
//! does not follow from it, or the vault has reason to doubt what it keeps, everything that was lost counts as used up
//! until now and, as slots may have been booked up to the horizon, until there: nothing is released for a window. That
//! quarantine is in the record, so others that find the same loss have nothing to do.
//!
//! The record of the empty key is the state's own. With limits per key, each key has another, which names the history
//! of the state's own: if that begins another one, with a quarantine, so do all keys.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use anyhow::anyhow;

use super::flaw::{Flaw, reset_command};
use super::ledger::{BookingRules, Ledger};
use super::record::{Record, Watermark};
use super::returnable::Returnable;
use super::shared_policy::SharedPolicy;
use super::vault::{Loaded, Reading, Suspicion, Swap, Vault};
use super::{Answer, BookedBy, Hold, Order, Policy, Reach, Reserve, Slot, Store, StoreError, Tell};
use crate::charge::Key;
use crate::config::Rate;
use crate::exit::Exit;
use crate::gate::Eviction;
use crate::printable::escaped;
use crate::time::{SECOND, Time};

/// The number of new keys that are added between two evictions of idle ones.
const BETWEEN_EVICTIONS: u32 = 1024;

/// The nanoseconds, besides those that a key may matter, for which the limits of keys are on record.
const CLAIM: u64 = 10 * SECOND;

/// The most times that slots are booked in a row while all come too late.
const CORRECTIONS: usize = 4;

/// Limits that are kept in a vault, as one process uses them.
pub struct VaultStore<V> {
    pub(super) vault: V,
    policy: SharedPolicy,
    pub(super) rules: BookingRules,
    /// What was last seen of each key.
    known: HashMap<Key, Watermark>,
    eviction: Eviction,
    returnable: Returnable,
    /// A suspicion that was not acted on yet.
    doubt: Option<Suspicion>,
    /// A loss that the user has not been told of yet.
    loss: Option<&'static str>,
    /// The keys whose slots were booked in a state that is gone.
    void: Vec<Key>,
    new_keys: u32,
    tell: Tell,
}

/// A record that is being booked in.
pub(super) struct Booking<'a> {
    pub(super) rules: &'a BookingRules,
    pub(super) record: &'a mut Record,
    pub(super) reading: &'a Reading,
    /// The end of a hold of all keys.
    pub(super) held: Option<Time>,
}

impl<V: Vault> VaultStore<V> {
    /// Limits under a policy, all margins included, kept in `vault`. Begins a state if there is none.
    ///
    /// # Errors
    /// It is unavailable, damaged, or kept for other limits.
    pub fn over(vault: V, policy: Policy) -> Result<Self, StoreError> {
        Self::opened(vault, policy, &[], Reserve::LOCAL)
    }

    /// Limits under a policy, kept in `vault`; the margins that `rates` do not give are those of `reserve`, or of the
    /// state if there is one.
    pub(super) fn new(vault: V, policy: Policy, rates: &[Rate], reserve: Reserve) -> Self {
        let mut store = VaultStore {
            vault,
            rules: BookingRules::new(policy.clone()),
            policy: SharedPolicy::new(policy, rates, reserve),
            known: HashMap::new(),
            eviction: Eviction::default(),
            returnable: Returnable::default(),
            doubt: None,
            loss: None,
            void: Vec::new(),
            new_keys: 0,
            tell: Arc::new(drop),
        };
        store.expect();
        store
    }

    /// As [`VaultStore::new`]. Looks at the state, and begins it if there is none, if that can be done without delay.
    ///
    /// # Errors
    /// It is unavailable, damaged, or kept for other limits.
    pub(super) fn opened(
        vault: V,
        policy: Policy,
        rates: &[Rate],
        reserve: Reserve,
    ) -> Result<Self, StoreError> {
        let mut shared = VaultStore::new(vault, policy, rates, reserve);
        if shared.vault.is_at_hand()? {
            shared.update(b"", |_| ())?;
        }
        Ok(shared)
    }

    /// Looks at the record of `key` as it would be booked in now; nothing is written.
    pub(super) fn look<T>(
        &mut self,
        key: &[u8],
        look: impl FnOnce(&Booking<'_>) -> T,
    ) -> Result<T, StoreError> {
        let loaded = self.vault.load(&[b"", key], false);
        self.vault.release();
        let Loaded { values, reading, suspicion, .. } = loaded?;
        let own = self.read(b"", values.first().and_then(Option::as_deref))?;
        let own = self.revised(b"", own, &reading, suspicion, None)?;
        let held = own.hold.in_force(reading.shown);
        let mut record = if key.is_empty() {
            own
        } else {
            let found = self.read(key, values.last().and_then(Option::as_deref))?;
            self.revised(key, found, &reading, suspicion, Some(&own))?
        };
        Ok(look(&Booking { rules: &self.rules, record: &mut record, reading: &reading, held }))
    }

    /// Changes the record of `key` by `act`, which is called again if another process was faster. Also returns the
    /// clock as of then.
    pub(super) fn update<T>(
        &mut self,
        key: &[u8],
        mut act: impl FnMut(&mut Booking<'_>) -> T,
    ) -> Result<(T, Reading), StoreError> {
        let keys: &[&[u8]] = if key.is_empty() { &[b""] } else { &[b"", key] };
        let mut loaded = self.vault.load(keys, true)?;
        loop {
            let result = self.attempt(key, loaded, &mut act);
            if !matches!(result, Ok(Attempt::Done(..))) {
                self.vault.release();
            }
            loaded = match result? {
                Attempt::Done(done, reading) => return Ok((done, reading)),
                Attempt::Again(newer) => newer,
                Attempt::Reload => self.vault.load(keys, false)?,
            };
        }
    }

    fn attempt<T>(
        &mut self,
        key: &[u8],
        loaded: Loaded,
        act: &mut impl FnMut(&mut Booking<'_>) -> T,
    ) -> Result<Attempt<T>, StoreError> {
        let Loaded { mut values, reading, suspicion, is_old } = loaded;
        let suspicion = suspicion.or(self.doubt.take());
        let own_value = values.first_mut().and_then(Option::take);
        let found = self.read(b"", own_value.as_deref())?;
        let mut own = self.revised(b"", found.clone(), &reading, suspicion, None)?;
        let now = reading.shown;
        if key.is_empty() {
            let held = own.hold.in_force(now);
            let done = act(&mut Booking { rules: &self.rules, record: &mut own, reading: &reading, held });
            own.idle = own.idle.max(self.rules.idle_at(&own.ledger)).max(own.hold.until);
            return self.write(key, found.as_ref(), own_value.as_deref(), own, (reading, is_old), done);
        }
        self.keep_on_record(&mut own, now);
        let own_found = found;
        if Some(&own) != own_found.as_ref() {
            return self
                .write(b"", own_found.as_ref(), own_value.as_deref(), own, (reading, false), ())
                .map(|_| Attempt::Reload);
        }
        let value = values.pop().flatten();
        let found = self.read(key, value.as_deref())?;
        if found.is_none() && self.evicts(&mut own, now)? {
            return self
                .write(b"", None, own_value.as_deref(), own, (reading, false), ())
                .map(|_| Attempt::Reload);
        }
        self.remember(b"", &own, now);
        let suspicion = suspicion.filter(|suspicion| suspicion.good_from.is_some());
        let mut record = self.revised(key, found.clone(), &reading, suspicion, Some(&own))?;
        let held = own.hold.in_force(now);
        let done = act(&mut Booking { rules: &self.rules, record: &mut record, reading: &reading, held });
        record.idle = self.rules.idle_at(&record.ledger);
        if record.idle > own.idle {
            // Otherwise nobody would know any more that the key is used.
            own.idle = record.idle.saturating_add(CLAIM);
            return self
                .write(b"", own_found.as_ref(), own_value.as_deref(), own, (reading, false), ())
                .map(|_| Attempt::Reload);
        }
        self.write(key, found.as_ref(), value.as_deref(), record, (reading, is_old), done).map(|attempt| {
            match attempt {
                Attempt::Again(mut newer) => {
                    newer.values.insert(0, own_value);
                    Attempt::Again(newer)
                }
                attempt => attempt,
            }
        })
    }

    /// Swaps the value that was `found` for the record, if they differ.
    fn write<T>(
        &mut self,
        key: &[u8],
        found: Option<&Record>,
        value: Option<&[u8]>,
        mut record: Record,
        (reading, is_old): (Reading, bool),
        done: T,
    ) -> Result<Attempt<T>, StoreError> {
        if found == Some(&record) {
            if is_old {
                return Ok(Attempt::Reload);
            }
            self.remember(key, &record, reading.shown);
            self.vault.release();
            return Ok(Attempt::Done(done, reading));
        }
        let new = record.encode(key, reading.shown);
        Ok(match self.vault.swap(key, value, &new, record.idle)? {
            // The clock was set back meanwhile. The next attempt finds it out.
            Swap::Done(reading) if self.is_ahead(record.ledger.newest, reading.shown) => Attempt::Reload,
            Swap::Done(reading) => {
                self.remember(key, &record, reading.shown);
                Attempt::Done(done, reading)
            }
            Swap::Refused(newer) => Attempt::Again(newer),
        })
    }

    fn remember(&mut self, key: &[u8], record: &Record, now: Time) {
        // Until then, it is kept: what is missing before was lost, whoever has used it meanwhile.
        let until = record.idle.saturating_add(self.vault.keeps_for());
        self.known.insert(Key::from_slice(key), record.watermark(now, until));
        self.eviction.retain(&mut self.known, |key, known| key.is_empty() || known.until > now);
    }

    /// The record that a value of `key` is, if there is one.
    fn read(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Record>, StoreError> {
        let Some(value) = value else { return Ok(None) };
        Record::decode(key, value).map(Some).map_err(|flaw| self.unusable(flaw))
    }

    /// The record as it is to be booked in: what was `found`, if it can be trusted; otherwise a new one.
    fn revised(
        &mut self,
        key: &[u8],
        found: Option<Record>,
        reading: &Reading,
        suspicion: Option<Suspicion>,
        own: Option<&Record>,
    ) -> Result<Record, StoreError> {
        let now = reading.shown;
        let booked_by = own.or(found.as_ref()).map_or(reading.wall, |record| record.wall);
        self.rules.follow_wall(booked_by, reading.wall);
        let mut record = match found {
            Some(record) => self.carried_over(record, now, own)?,
            None => self.fresh(own, now),
        };
        record.wall = self.rules.wall();
        if record.hold.in_force(now).is_none() {
            // After a restart, no one would know that it is over.
            record.hold = Hold::default();
        }
        let seen = self.known.get(key).copied();
        let is_lost = seen.is_some_and(|seen| seen.until > now && !record.follows(&seen));
        let is_old = |suspicion: &Suspicion| suspicion.good_from.is_none_or(|from| record.written() < from);
        let doubt = suspicion.filter(is_old).map(|suspicion| suspicion.why);
        let is_ahead = self.is_ahead(latest(&record), now);
        let why =
            doubt.or(is_lost.then(|| self.vault.loss())).or(is_ahead.then_some("its clock was set back"));
        if why.is_some() {
            self.quarantine(&mut record, seen.as_ref(), now);
            self.void.push(Key::from_slice(key));
        }
        // What was seen may not matter, but why nothing is released for a while does.
        let is_another = seen.is_some_and(|seen| record.succeeds(&seen));
        let is_silent = record.quarantine.is_some_and(|last| self.rules.end_of_silence(last) > now);
        self.loss = self.loss.or(why).or((is_another && is_silent).then(|| self.vault.loss()));
        Ok(record)
    }

    /// The record of a key that has none.
    fn fresh(&self, own: Option<&Record>, now: Time) -> Record {
        let (rules, origin) = (&self.rules, self.vault.origin());
        let Some(own) = own else {
            return Record::new(&rules.policy().text, origin, rules.wall(), now, rules.begin(now));
        };
        let ledger = match own.quarantine {
            Some(last) if rules.end_of_silence(last) > now => rules.silence(last),
            _ if rules.wall().shows(now) < own.evicted => {
                let last = rules.wall().when(i128::from(own.evicted.0) - 1);
                rules.silence(last.unwrap_or(now))
            }
            _ => rules.begin(own.began),
        };
        let mut new = Record::new(&own.limits, origin, rules.wall(), now, ledger);
        (new.revision, new.era, new.quarantine) = (own.revision, own.epoch(), own.quarantine);
        new
    }

    /// A record under the present limits, clock, wall clock and history of the state.
    fn carried_over(&mut self, found: Record, now: Time, own: Option<&Record>) -> Result<Record, StoreError> {
        let mut record = found;
        self.agree(&record)?;
        if !self.rules.is_of(&record.ledger) {
            return Err(self.unusable(Flaw::Damaged));
        }
        self.carry_over_restart(&mut record, now)?;
        if record.wall != self.rules.wall() {
            // Slots that were booked by another wall clock may be in another period by this one.
            let Ledger { newest, accounts, overruns, hold, .. } = mem::take(&mut record.ledger);
            record.ledger = Ledger { newest, accounts, overruns, hold, ..Ledger::default() };
        }
        if let Some(own) = own.filter(|own| own.epoch() != record.era) {
            let last = own.quarantine.filter(|last| self.rules.end_of_silence(*last) > now);
            if let Some(last) = last {
                let newest = record.ledger.newest;
                self.silence(&mut record, last, newest, now);
            }
            record.era = own.epoch();
        }
        Ok(record)
    }

    /// # Errors
    /// The record is kept for other limits.
    fn agree(&mut self, record: &Record) -> Result<(), StoreError> {
        if record.limits == self.rules.policy().text {
            return Ok(());
        }
        if self.policy.adopt(&record.limits) {
            self.take_policy();
            return Ok(());
        }
        let (theirs, ours) = (escaped(&record.limits), &self.rules.policy().text);
        Err(self.refused(
            Exit::BadState,
            &format!(
                "this state has other limits: '{theirs}', not '{ours}': give the same limits or another state, or \
                 start a new one with {}",
                reset_command(&self.vault.state())
            ),
        ))
    }

    fn take_policy(&mut self) {
        let wall = self.rules.wall();
        self.rules = BookingRules::new(self.policy.policy.clone());
        self.rules.set_wall(wall);
        self.expect();
    }

    /// Tells the vault for how long slots matter.
    fn expect(&mut self) {
        let Policy { deadline, horizon, .. } = *self.rules.policy();
        let memory = self.rules.end_of_silence(Time::ZERO).0;
        self.vault.expect(deadline, memory.saturating_add(horizon));
    }

    /// Carries a record over a restart of the machine, which restarts the clock. Whatever was released before counts as
    /// released at that instant: by the wall clock it may be long ago, but that may be wrong.
    ///
    /// # Errors
    /// The record is on another clock that still runs.
    fn carry_over_restart(&self, record: &mut Record, now: Time) -> Result<(), StoreError> {
        let origin = self.vault.origin();
        if record.origin == origin {
            return Ok(());
        }
        if record.origin.boot == origin.boot {
            let why = "this state is in use in another time namespace, where clocks differ: \
                       use a separate state in each";
            return Err(self.refused(Exit::BadStore, why));
        }
        let start = if origin.counts_from_boot() { Time::ZERO } else { now };
        let held = record.ledger.hold.restarted(start);
        record.ledger = match origin.counts_from_boot() {
            true => self.rules.restart(mem::take(&mut record.ledger)),
            false => self.rules.silence(now),
        };
        record.ledger.hold = held;
        record.hold = record.hold.restarted(start);
        record.quarantine = record.quarantine.map(|_| start).or((start > Time::ZERO).then_some(now));
        record.began = Time::ZERO;
        record.origin = origin;
        Ok(())
    }

    /// Takes all that may have been lost as used up, unless that is done, or does not matter any more.
    ///
    /// If this state began after the lost one was last `seen`, that one was lost by then. No lost slot is later than a
    /// horizon after the loss. The state needs no quarantine from us if it has one that lasts as long as ours would:
    /// then whoever began it knew of the loss. What was done before the clock was set back does not count.
    fn quarantine(&self, record: &mut Record, seen: Option<&Watermark>, now: Time) {
        let horizon = self.rules.policy().horizon;
        let is_ahead = self.is_ahead(latest(record), now);
        let loss = seen.filter(|seen| !is_ahead && record.began >= seen.at).map_or(now, |_| record.began);
        let needed = seen.map_or(now, |seen| seen.at).saturating_add(horizon);
        let is_successor = seen.is_none_or(|seen| record.succeeds(seen));
        let is_done = is_successor && !is_ahead && record.quarantine.is_some_and(|last| last >= needed);
        let last = loss.saturating_add(horizon);
        if !is_done && self.rules.end_of_silence(last) > now {
            let newest = record.ledger.newest.max(seen.map_or(Time::ZERO, |seen| seen.newest));
            self.silence(record, last, newest, now);
            record.begin_history(now, seen);
        }
    }

    /// Begins a quarantine until a window after `last`. No slot that is kept is later than `newest`; if that is beyond
    /// the horizon, the clock was set back since.
    fn silence(&self, record: &mut Record, last: Time, newest: Time, now: Time) {
        let is_ahead = self.is_ahead(newest, now);
        let last = if is_ahead { last } else { last.max(newest) };
        record.ledger = self.rules.silence_after(mem::take(&mut record.ledger), last, newest);
        record.quarantine = Some(last);
    }

    /// True if this slot can only be so far ahead because the clock was set back. What it showed may have been
    /// estimated, to less than D.
    fn is_ahead(&self, slot: Time, now: Time) -> bool {
        let Policy { horizon, deadline, .. } = *self.rules.policy();
        slot > now.saturating_add(horizon).saturating_add(deadline)
    }

    /// Keeps the limits of keys on record for as long as a key may matter.
    fn keep_on_record(&self, own: &mut Record, now: Time) {
        let matters = self.rules.end_of_silence(now.saturating_add(self.rules.policy().horizon)).since(now);
        let claim = matters.saturating_add(CLAIM);
        let until = now.saturating_add(claim);
        if own.idle.since(now) < claim / 2 || own.idle < own.hold.until {
            own.idle = until.max(own.hold.until.saturating_add(claim));
        }
    }

    /// Evicts idle keys now and then. If the wall clock is set back, it may show again a period in which they were
    /// used; returns whether that is to be noted in the state's own record.
    fn evicts(&mut self, own: &mut Record, now: Time) -> Result<bool, StoreError> {
        let is_due = self.new_keys.is_multiple_of(BETWEEN_EVICTIONS);
        self.new_keys = self.new_keys.wrapping_add(1);
        let idle = if is_due { self.vault.evict(now, self.rules.wall().shows(now))? } else { None };
        let has_periods = self.rules.policy().of_calendar().next().is_some();
        let is_new = idle.is_some_and(|idle| has_periods && idle > own.evicted);
        own.evicted = idle.filter(|_| is_new).unwrap_or(own.evicted);
        Ok(is_new)
    }

    fn unusable(&self, flaw: Flaw) -> StoreError {
        flaw.refusal(&self.vault.name(), &self.vault.state())
    }

    fn refused(&self, exit: Exit, why: &str) -> StoreError {
        StoreError { exit, error: anyhow!("{}: {why}", self.vault.name()) }
    }

    /// The answer on our own clock, and the slots that came too late to be of use.
    fn answer(
        &mut self,
        order: &Order,
        epoch: u64,
        answer: Answer,
        reading: &Reading,
    ) -> (Answer, Vec<Time>) {
        let good_for = self.vault.good_for(self.rules.policy().deadline);
        let (mut slots, mut late) = (Vec::new(), Vec::new());
        for Slot { at, .. } in answer.slots {
            let slot =
                Slot { at: reading.not_before(at), until: reading.not_after(at).saturating_add(good_for) };
            if slot.at <= slot.until { slots.push((slot, at)) } else { late.push(at) }
        }
        self.returnable.add(order, (epoch, self.rules.wall()), &slots, reading.answered);
        let not_before = |at: Option<Time>| at.map(|at| reading.not_before(at));
        let mut overruns = answer.overruns;
        overruns.until = reading.not_before(overruns.until);
        let booked_by = answer.booked_by.map(|by| self.vault.times_set().map_or(by, BookedBy::Server));
        let answer = Answer {
            slots: slots.into_iter().map(|(slot, _)| slot).collect(),
            ask_again: not_before(answer.ask_again),
            next: not_before(answer.next),
            held: not_before(answer.held),
            overruns,
            booked_by,
            ..answer
        };
        (answer, late)
    }

    /// Reports, once, limits of which little can be reached, if the state has chosen the margins.
    fn tell_reach(&mut self) {
        if let Some(rates) = self.policy.take_untold() {
            let low = self.rules.policy().reach(&rates).filter(Reach::is_low);
            low.for_each(|reach| (self.tell)(reach.to_string()));
        }
    }

    /// Before anything is booked: agrees on the limits, and checks that the vault answers in time.
    fn prepare(&mut self) -> Result<(), StoreError> {
        if !self.policy.is_open() {
            return Ok(());
        }
        let loaded = self.vault.load(&[b""], false);
        self.vault.release();
        let Loaded { mut values, suspicion, .. } = loaded?;
        self.doubt = suspicion;
        match self.read(b"", values.pop().flatten().as_deref())? {
            Some(record) => self.agree(&record)?,
            None if self.policy.lacks_margins() => {
                let least = self.vault.least_deadline(None)?;
                self.policy.choose_margins(least);
                self.take_policy();
            }
            None => _ = self.vault.least_deadline(Some(self.rules.policy().deadline))?,
        }
        self.policy.close();
        Ok(())
    }
}

/// The latest instant that something is booked for, or may have been.
fn latest(record: &Record) -> Time {
    record.ledger.newest.max(record.quarantine.unwrap_or_default())
}

enum Attempt<T> {
    Done(T, Reading),
    Again(Loaded),
    Reload,
}

impl<V: Vault> Store for VaultStore<V> {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        self.prepare()?;
        let mut late: Vec<Time> = Vec::new();
        for _ in 0..CORRECTIONS {
            let given_back = mem::take(&mut late);
            let ((epoch, answer), reading) =
                self.update(&order.key, |booking| booking.book(order, &given_back))?;
            let is_empty = answer.slots.is_empty();
            let (mut answer, too_late) = self.answer(order, epoch, answer, &reading);
            if !is_empty && answer.slots.is_empty() {
                late = too_late;
                continue;
            }
            self.tell_reach();
            answer.lost = mem::take(&mut self.void).iter().any(|key| key.is_empty() || *key == order.key);
            // The answer to a report does not say until when nothing is released; the next answer will.
            if !answer.slots.is_empty() || answer.ask_again.is_some() {
                let name = self.vault.name();
                answer.warning = self.loss.take().map(|why| format!("{name}: {why}"));
            }
            return Ok(answer);
        }
        Err(self.refused(Exit::StoreAway, "its answers take longer than slots are good for"))
    }

    fn tell_waits_to(&mut self, tell: Tell) {
        self.tell = Arc::clone(&tell);
        self.vault.tell_waits_to(tell);
    }

    fn give_back(&mut self, order: &Order, slots: &[Slot]) -> Result<(), StoreError> {
        let given = self.returnable.take(order, slots);
        if given.is_empty() {
            return Ok(());
        }
        self.update(&order.key, |booking| booking.give_back(order, &given)).map(drop)
    }
}

impl Booking<'_> {
    /// Gives back what came too late, and books. Also returns the history that the slots belong to.
    fn book(&mut self, order: &Order, late: &[Time]) -> (u64, Answer) {
        let (rules, now) = (self.rules, self.reading.shown);
        let of_ours = |at: Option<Time>| at.map(|at| self.reading.of_ours(at));
        let order = Cow::<Order>::Owned(Order {
            overrun: of_ours(order.overrun),
            hold: of_ours(order.hold),
            ..order.clone()
        });
        let ledger = &mut self.record.ledger;
        rules.give_back(ledger, now, &order.costs, late.iter().copied());
        let answer = match self.held.filter(|_| order.is_for_slots()) {
            Some(of_all) => {
                let until = ledger.hold.in_force(now).map_or(of_all, |until| until.max(of_all));
                rules.answer_held(ledger, now, until, &order)
            }
            None => rules.book(ledger, now, &order),
        };
        (self.record.epoch(), answer)
    }

    /// Takes back slots that were booked in the same history and by the same wall clock.
    fn give_back(&mut self, order: &Order, given: &[super::returnable::Returned]) {
        let booked_by = (self.record.epoch(), self.record.wall);
        let slots = given.iter().filter(|slot| slot.booked_by == booked_by).map(|slot| slot.at);
        self.rules.give_back(&mut self.record.ledger, self.reading.shown, &order.costs, slots);
    }
}
