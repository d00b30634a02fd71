//! What a process makes of a record that it has loaded.
//!
//! Files are removed and replaced, servers are restarted without their data, flushed, and replaced by replicas that lag
//! behind; copies are put back. Each process remembers a [`Watermark`] of each record that it has seen. If what is kept
//! does not follow from it, or the vault has reason to doubt what it keeps, everything that was lost counts as used up
//! until now and, as slots may have been booked up to the horizon, until there: nothing is released for a window. That
//! quarantine is in the record, so others that find the same loss have nothing to do.
//!
//! The record of a key names the history of the state's own: if that begins another one, with a quarantine, so do all
//! keys. It also has the limits that it was kept for; where these were replaced in the state's own, it is carried over.

use std::collections::HashMap;
use std::mem;

use super::{RecordEntry, VaultStore};
use crate::charge::Key;
use crate::exit::Exit;
use crate::gate::Eviction;
use crate::printable::escaped;
use crate::store::flaw::{Flaw, command};
use crate::store::hold::HOLD_REFRESH;
use crate::store::ledger::{BookingRules, Change, GOOD_FOR, Ledger, ReturnedSlots};
use crate::store::record::{Before, Record, Watermark};
use crate::store::vault::{Reading, Suspicion, Value};
use crate::store::{Hold, Policy, StoreError};
use crate::time::{Time, Wall};

/// What was seen of a state.
#[derive(Default)]
pub(super) struct Watermarks {
    /// What was last seen of each key.
    known: HashMap<Key, Watermark>,
    eviction: Eviction,
    /// A loss that the user has not been told of yet.
    loss: Option<&'static str>,
    /// The keys whose slots were booked in a state that is gone.
    void: Vec<Key>,
}

impl Watermarks {
    pub(super) fn take_loss(&mut self) -> Option<&'static str> {
        self.loss.take()
    }

    /// The keys whose slots were booked in a state that is gone; the empty one stands for all. Forgets them.
    pub(super) fn take_void(&mut self) -> Vec<Key> {
        mem::take(&mut self.void)
    }
}

impl VaultStore {
    pub(super) fn remember(&mut self, key: &[u8], record: &Record, now: Time) {
        if key.is_empty() {
            self.agreement.conclude(record);
        }
        // Until then, it is kept: what is missing before was lost, whoever has used it meanwhile.
        let until = record.idle.saturating_add(self.vault.keeps_for());
        let Watermarks { known, eviction, .. } = &mut self.memory;
        // What is seen again may be the same copy, and have been lost meanwhile.
        let is_copy = |known: &&Watermark| record.is_just(known) && now.since(known.at) < HOLD_REFRESH;
        let at = known.get(key).filter(is_copy).map_or(now, |known| known.at);
        known.insert(Key::from_slice(key), record.watermark(at, until));
        eviction.retain(known, |key, known| key.is_empty() || known.until > now);
    }

    /// The record that a value of `key` is, if there is one.
    pub(super) fn read(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Record>, StoreError> {
        let Some(value) = value else { return Ok(None) };
        Record::decode(key, value).map(Some).map_err(|flaw| self.unusable(flaw))
    }

    /// The record of a key, which is to be booked in: what was found, if it can be trusted; otherwise a new one. `own`
    /// is the state's own record.
    pub(super) fn entry<'a>(
        &mut self,
        key: &'a [u8],
        value: Option<Value>,
        reading: &Reading,
        suspicion: Option<Suspicion>,
        own: Option<&Record>,
    ) -> Result<RecordEntry<'a>, StoreError> {
        let (found, now) = (self.read(key, value.as_deref())?, reading.shown);
        let booked_by = own.or(found.as_ref()).map_or(reading.wall, |record| record.wall);
        self.rules.follow_wall(booked_by, reading.wall);
        let mut record = match &found {
            Some(record) => self.carried_over(record.clone(), now, own)?,
            None => self.fresh(own, now)?,
        };
        record.wall = self.rules.wall();
        if record.hold.in_force(now).is_none() {
            // After a restart, no one would know that it is over.
            record.hold = Hold::default();
        }
        let seen = self.memory.known.get(key).copied();
        let why = self.loss_of(&record, seen.as_ref(), suspicion, now);
        if why.is_some() {
            self.quarantine(&mut record, seen.as_ref(), now);
            self.memory.void.push(Key::from_slice(key));
        }
        // What was seen may not matter, but why nothing is released for a while does.
        let is_another = seen.is_some_and(|seen| record.succeeds(&seen));
        let is_silent = self.quarantine_in_force(&record, now).is_some();
        let told = why.or_else(|| (is_another && is_silent).then(|| self.vault.loss()));
        // The state's own record may be an old one.
        let got_other_keys = || own.into_iter().chain(&found).any(|record| self.got_other_keys(record, now));
        let told = told.map(|why| if got_other_keys() { "its limits got another key" } else { why });
        self.memory.loss = self.memory.loss.or(told);
        Ok(RecordEntry { key, value, found, record })
    }

    /// The instant as of which everything counts as used up, while that matters.
    fn quarantine_in_force(&self, record: &Record, now: Time) -> Option<Time> {
        record.quarantine.filter(|last| self.rules.end_of_quarantine(*last) > now)
    }

    /// True if a record is in quarantine as its limits were replaced by ones with another key, which begins a history
    /// of the state that we have not seen yet.
    fn got_other_keys(&self, record: &Record, now: Time) -> bool {
        let last = record.changed.saturating_add(record.horizon);
        let seen = self.memory.known.get(&b""[..]);
        self.quarantine_in_force(record, now) == Some(last)
            && seen.is_none_or(|seen| seen.epoch < record.changed.0)
    }

    /// Why a record cannot be trusted, if it cannot.
    fn loss_of(
        &self,
        record: &Record,
        seen: Option<&Watermark>,
        suspicion: Option<Suspicion>,
        now: Time,
    ) -> Option<&'static str> {
        let is_old = |suspicion: &Suspicion| suspicion.good_from.is_none_or(|from| record.written() < from);
        let is_lost = seen.is_some_and(|seen| seen.until > now && !record.follows(seen));
        let doubt = suspicion.filter(is_old).map(|suspicion| suspicion.why);
        let is_ahead = self.is_ahead(latest(record), record, now);
        doubt.or(is_lost.then(|| self.vault.loss())).or(is_ahead.then_some("its clock was set back"))
    }

    /// The record of a key that has none.
    ///
    /// # Errors
    /// The state's own record is damaged.
    fn fresh(&self, own: Option<&Record>, now: Time) -> Result<Record, StoreError> {
        let (rules, origin) = (&self.rules, self.vault.origin());
        let Some(own) = own else {
            let mut new = Record::new(&rules.policy().text, origin, rules.wall(), now, rules.begin(now));
            new.revision = if self.agreement.replaces { now.0 } else { 0 };
            return Ok(new);
        };
        let ledger = match self.quarantine_in_force(own, now) {
            Some(last) if own.before.is_none() => rules.quarantine(last),
            _ if rules.wall().shows(now) < own.evicted => {
                let last = rules.wall().when(i128::from(own.evicted.0) - 1);
                rules.quarantine(last.unwrap_or(now).max(own.quarantine.unwrap_or_default()))
            }
            _ => self.missing(rules, own, now)?,
        };
        let mut new = Record::new(&own.limits, origin, rules.wall(), now, ledger);
        (new.revision, new.era, new.quarantine) = (own.revision, own.epoch(), own.quarantine);
        Ok(new)
    }

    /// What is to be taken of a key that has no record at `now`, under the `rules` of the state's own record.
    ///
    /// # Errors
    /// That record is damaged.
    fn missing(&self, rules: &BookingRules, own: &Record, now: Time) -> Result<Ledger, StoreError> {
        let Some(before) = &own.before else {
            return Ok(own.quarantine.map_or_else(|| rules.begin(own.began), |last| rules.quarantine(last)));
        };
        let old = self.rules_of(&before.limits, own.wall)?;
        if !old.is_of(&before.missing) {
            return Err(self.unusable(Flaw::Damaged));
        }
        let Record { changed: at, began, quarantine, .. } = *own;
        let change = Change { at, began, created: began, quarantine, missing: Some(now) };
        Ok(rules.carry_over(&old, &before.missing, change))
    }

    fn rules_of(&self, limits: &str, wall: Wall) -> Result<BookingRules, StoreError> {
        let mut rules = BookingRules::new(Policy::of(limits).map_err(|_| self.unusable(Flaw::Damaged))?);
        rules.set_wall(wall);
        Ok(rules)
    }

    /// A record under the present limits, clock, wall clock and history of the state.
    fn carried_over(&mut self, found: Record, now: Time, own: Option<&Record>) -> Result<Record, StoreError> {
        let is_replaced = match own {
            None => self.agree(&found)?,
            Some(own) => (found.revision, &found.limits) != (own.revision, &own.limits),
        };
        let mut record = if is_replaced {
            self.relimited(found, now, own)?
        } else {
            self.restarted(&self.rules, found, now)?
        };
        if record.wall != self.rules.wall() && self.rules.policy().goes_by_wall() {
            // Slots that were booked by another wall clock may be in another period by this one.
            record.ledger.returned = ReturnedSlots::default();
            record.ledger.turns = Time::ZERO;
            let (quarantine, written) = (self.quarantine_in_force(&record, now), record.written());
            self.rules.wall_was_set(&mut record.ledger, written, quarantine);
        }
        if let Some(own) = own.filter(|own| own.epoch() != record.era) {
            if let Some(last) = self.quarantine_in_force(own, now) {
                let newest = latest(&record);
                self.begin_quarantine(&mut record, last, newest, now);
            }
            record.era = own.epoch();
        }
        Ok(record)
    }

    /// Agrees on the limits of the state. Returns whether ours are to replace them.
    ///
    /// # Errors
    /// It is kept for other limits.
    pub(super) fn agree(&mut self, record: &Record) -> Result<bool, StoreError> {
        let replaced = self.agreement.replaced(record).map_err(|_| self.unusable(Flaw::Damaged))?;
        let is_ours = record.limits == self.rules.policy().text;
        let theirs = match replaced {
            None if !is_ours => self.agreement.adopted(&record.limits),
            replaced => replaced,
        };
        if theirs.is_none() && !is_ours {
            return if self.agreement.replaces { Ok(true) } else { Err(self.has_other_limits(record)) };
        }
        self.agreement.conclude(record);
        theirs.into_iter().for_each(|policy| self.take_policy(policy));
        Ok(false)
    }

    fn has_other_limits(&self, record: &Record) -> StoreError {
        let (theirs, ours) = (escaped(&record.limits), &self.rules.policy().text);
        let replace = command("--set-limits", self.vault.state().as_deref());
        let why = format_args!(
            "this state has other limits: '{theirs}', not '{ours}': give the same limits, none, or another state, \
             or replace its limits with '{replace} -r RATE'"
        );
        StoreError::new(Exit::BadState, self.vault.name(), why)
    }

    /// A record under the present limits, which have replaced its own.
    ///
    /// # Errors
    /// It is damaged.
    fn relimited(&self, found: Record, now: Time, own: Option<&Record>) -> Result<Record, StoreError> {
        let old = self.rules_of(&found.limits, found.wall)?;
        let mut record = self.restarted(&old, found, now)?;
        let new = self.rules.policy();
        let next = now.0.max(record.revision.saturating_add(1));
        let revision = own.map_or(next, |own| own.revision);
        let at = own.filter(|own| own.revision > record.revision).map_or(now, |own| own.changed);
        let began = own.map_or(record.began, |own| own.began);
        record.horizon = record.horizon.max(old.policy().horizon).max(new.horizon).max(GOOD_FOR);
        let change =
            Change { at, began, created: record.began, quarantine: record.quarantine, missing: None };
        let ledger = mem::take(&mut record.ledger);
        if old.policy().key() == new.key() {
            record.ledger = self.rules.carry_over(&old, &ledger, change);
            record.before = match own {
                None if new.key().is_some() => {
                    let missing = self.missing(&old, &record, Time::NEVER)?;
                    Some(Before { limits: old.policy().text.clone(), missing })
                }
                _ => None,
            };
        } else {
            // Whatever was released may have been any key's.
            record.ledger = Ledger { hold: ledger.hold, ..self.rules.begin(at) };
            record.before = None;
            if own.is_none() {
                let last = now.saturating_add(record.horizon);
                self.begin_quarantine(&mut record, last, Time::ZERO, now);
                record.begin_history(now, None);
            }
        }
        record.limits.clone_from(&new.text);
        (record.revision, record.changed) = (revision, at);
        Ok(record)
    }

    /// A record that was kept under these `rules`, carried over a restart of the machine, which restarts the clock.
    /// Whatever was released before counts as released at that instant: by the wall clock it may be long ago, but that
    /// may be wrong.
    ///
    /// # Errors
    /// The record is damaged, or on another clock that still runs.
    fn restarted(&self, rules: &BookingRules, found: Record, now: Time) -> Result<Record, StoreError> {
        let (mut record, origin) = (found, self.vault.origin());
        if !rules.is_of(&record.ledger) {
            return Err(self.unusable(Flaw::Damaged));
        }
        if record.origin == origin {
            return Ok(record);
        }
        if record.origin.boot == origin.boot {
            let why = "this state is in use in another time namespace, where clocks differ: \
                       use a separate state in each";
            return Err(StoreError::new(Exit::BadStore, self.vault.name(), why));
        }
        let start = if origin.counts_from_boot() { Time::ZERO } else { now };
        let held = record.ledger.hold.restarted(start);
        record.ledger = match origin.counts_from_boot() {
            true => rules.restart(mem::take(&mut record.ledger)),
            false => rules.quarantine(now),
        };
        record.ledger.hold = held;
        if record.before.is_some() {
            let missing = rules.restart(self.missing(rules, &record, Time::NEVER)?);
            record.before = Some(Before { limits: record.limits.clone(), missing });
        }
        record.hold = record.hold.restarted(start);
        record.quarantine = record.quarantine.map(|_| start).or((start > Time::ZERO).then_some(now));
        (record.began, record.changed) = (Time::ZERO, start);
        record.origin = origin;
        Ok(record)
    }

    /// Takes all that may have been lost as used up, unless that is done, or does not matter any more.
    ///
    /// If this state began after the lost one was last `seen`, that one was lost by then. No lost slot is later than a
    /// horizon after the loss. The state needs no quarantine from us if it has one that lasts as long as ours would:
    /// then whoever began it knew of the loss. What was done before the clock was set back does not count, nor does a
    /// beginning that it has not reached again.
    fn quarantine(&self, record: &mut Record, seen: Option<&Watermark>, now: Time) {
        let horizon = self.agreement.horizon.max(record.horizon);
        let is_ahead = self.is_ahead(latest(record), record, now);
        let began = Some(record.began).filter(|began| !is_ahead && *began <= now);
        let loss = began.filter(|began| seen.is_some_and(|seen| *began >= seen.at)).unwrap_or(now);
        let needed = seen.map_or(now, |seen| seen.at).saturating_add(horizon);
        let is_successor = seen.is_none_or(|seen| record.succeeds(seen));
        let is_done = is_successor && !is_ahead && record.quarantine.is_some_and(|last| last >= needed);
        let last = loss.saturating_add(horizon);
        if !is_done && self.rules.end_of_quarantine(last) > now {
            let newest = latest(record).max(seen.map_or(Time::ZERO, |seen| seen.newest));
            self.begin_quarantine(record, last, newest, now);
            record.begin_history(now, seen);
        }
    }

    /// Begins a quarantine until a window after `last`. No slot that is kept is later than `newest`; if that is beyond
    /// the horizon, the clock was set back since.
    fn begin_quarantine(&self, record: &mut Record, last: Time, newest: Time, now: Time) {
        let is_ahead = self.is_ahead(newest, record, now);
        let last = if is_ahead { last } else { last.max(newest) };
        record.ledger = self.rules.quarantine_after(mem::take(&mut record.ledger), last, newest);
        record.quarantine = Some(last);
    }

    /// True if this slot can only be so far ahead because the clock was set back. What it showed may have been
    /// estimated, to less than D.
    pub(super) fn is_ahead(&self, slot: Time, record: &Record, now: Time) -> bool {
        let horizon = self.agreement.horizon.max(record.horizon);
        slot > now.saturating_add(horizon).saturating_add(self.rules.policy().validity)
    }
}

/// The latest instant that something is booked for, or may have been.
fn latest(record: &Record) -> Time {
    record.ledger.newest.max(record.quarantine.unwrap_or_default())
}
