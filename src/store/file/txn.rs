//! The work of one transaction, under the lock.

use std::path::Path;

use anyhow::Result;
use rusqlite::Connection;

use super::machine::ClockOrigin;
use super::refusal::{bad, refused, reset_command};
use super::tables::{self, Header, KeyRows};
use crate::printable::escaped;
use crate::store::ledger::{BookingRules, Ledger, Owner};
use crate::store::{Answer, Hold, Order};
use crate::time::{Time, Wall};

/// Distinguishes a state from one that replaced it.
#[derive(Clone)]
pub(super) struct Fingerprint {
    generation: u64,
    /// A key, and its newest slot.
    key: Vec<u8>,
    newest: Time,
    /// From then on, nothing about the key matters, and it may be forgotten.
    fresh_from: Time,
    /// The instant at which it was last seen in its place.
    at: Time,
}

/// A state while it is read and written.
pub(super) struct StateTxn<'a> {
    path: &'a Path,
    pub(super) rules: &'a BookingRules,
    /// The instant at which it began.
    now: Time,
    header: Header,
    pub(super) rows: KeyRows<'a>,
    /// The numbers of the key.
    pub(super) ledger: Ledger,
    /// True if there is no row of the key yet.
    pub(super) is_new: bool,
}

impl<'a> StateTxn<'a> {
    /// # Errors
    /// It is damaged, or belongs to other limits.
    pub(super) fn begin(
        connection: &'a Connection,
        path: &'a Path,
        rules: &'a mut BookingRules,
        key: &'a [u8],
        (now, wall): (Time, Wall),
    ) -> Result<Self> {
        let header = Header::read(connection)?;
        let limits = &rules.policy().text;
        if header.limits != *limits {
            let why = format!(
                "this state has other limits: '{}', not '{limits}': give the same limits or another state, \
                 or start a new one with {}",
                escaped(&header.limits),
                reset_command(path)
            );
            return Err(bad(path, &why).into());
        }
        rules.follow_wall(header.wall, wall);
        let rows = KeyRows::new(connection, header.generation, key);
        let mut txn = StateTxn { path, rules, now, header, rows, ledger: Ledger::default(), is_new: true };
        txn.load()?;
        Ok(txn)
    }

    /// Reads the numbers of the key; those of a new key if there are none.
    fn load(&mut self) -> Result<()> {
        let found = self.rows.ledger()?;
        self.is_new = found.is_none();
        self.ledger = match found {
            Some(ledger) if self.rules.is_of(&ledger) => ledger,
            // The row of the empty key is never removed.
            None if !self.rows.key.is_empty() => self.header.fresh(self.rules, self.now),
            _ => return Err(rusqlite::Error::InvalidQuery.into()),
        };
        Ok(())
    }

    /// Carries the state over a restart of the machine, which restarts the clock. Whatever was released before counts
    /// as released at that instant: by the wall clock it may be long ago, but that may be wrong. Returns whether the
    /// clock has restarted.
    ///
    /// # Errors
    /// Also if it is on another clock that still runs.
    pub(super) fn carry_over_restart(&mut self, ours: &ClockOrigin) -> Result<bool> {
        if self.header.clock == *ours {
            return Ok(false);
        }
        if self.header.clock.boot == ours.boot {
            let why = "this state is in use in another time namespace, where clocks differ: \
                       use a separate state in each";
            return Err(refused(self.path, why).into());
        }
        self.header.clock = ours.clone();
        self.header.began = Time::ZERO;
        if !ours.counts_from_boot() {
            let holds = self.ledgers()?.into_iter().map(|(_, ledger)| ledger.hold);
            let longest = holds.chain([self.header.hold]).max_by_key(|hold| hold.length);
            self.header.hold = longest.unwrap_or_default().restarted(self.now);
            self.header.silent = Some(self.now);
            return self.begin_anew().map(|()| true);
        }
        self.header.silent = self.header.silent.map(|_| Time::ZERO);
        self.header.hold = self.header.hold.restarted(Time::ZERO);
        let rules = self.rules;
        self.rewrite(|ledger| rules.restart(ledger)).map(|()| true)
    }

    /// Notes the wall clock by which slots are booked, for all runs. If it was set, turns are void, and keys are idle
    /// from another instant on.
    pub(super) fn note_wall(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.header.wall, self.rules.wall()) == self.header.wall {
            return Ok(());
        }
        self.rewrite(|ledger| Ledger { turns: Time::ZERO, ..ledger })
    }

    /// Evicts idle keys. If the wall clock is set back, it may show again a period in which they were used.
    pub(super) fn evict(&mut self) -> Result<()> {
        let idle = tables::evict(self.rows.connection, self.now)?.map(|idle| self.rules.wall().shows(idle));
        let has_periods = self.rules.policy().of_calendar().next().is_some();
        if let Some(idle) = idle.filter(|idle| has_periods && *idle > self.header.evicted) {
            self.header.evicted = idle;
            self.header.write(self.rows.connection)?;
        }
        Ok(())
    }

    /// Begins anew, with silence, if the known state is gone. `is_replaced` means that its files are others. Returns
    /// whether it is gone.
    pub(super) fn silence_after_loss(&mut self, known: &Fingerprint, is_replaced: bool) -> Result<bool> {
        let is_another = self.header.generation != known.generation;
        let is_known = known.key == self.rows.key && !self.is_new && known.fresh_from > self.now;
        let is_older = is_known && self.ledger.newest < known.newest;
        if !is_replaced && !is_another && !is_older {
            return Ok(false);
        }
        // The new state needs no silence from us if it has one that lasts as long as ours would: then whoever began it
        // knew of the loss.
        let silent = known.at.saturating_add(self.rules.policy().horizon);
        let is_seen_to = is_another && self.header.silent.is_some_and(|last| last >= silent);
        let newest = tables::newest(self.rows.connection)?;
        if !is_seen_to && self.header.succeed(known, self.rules, newest, self.now) {
            self.begin_anew()?;
        }
        Ok(true)
    }

    /// Books, as [`Store::book`](crate::store::Store::book) does.
    pub(super) fn book(&mut self, order: &Order, owner: Owner) -> Result<Answer> {
        if let Some(of_all) = self.hold_of_all()?.filter(|_| order.is_for_slots()) {
            let until = self.ledger.hold.in_force(self.now).map_or(of_all, |until| until.max(of_all));
            return Ok(self.rules.answer_held(&self.ledger, self.now, until, order));
        }
        let answer = self.rules.book(&mut self.ledger, self.now, order);
        let ahead = answer.slots.iter().map(|slot| slot.at).filter(|at| *at > self.now);
        self.ledger.owned.add(owner, &order.costs, self.rules.wall(), ahead);
        self.save().map(|()| answer)
    }

    /// Takes back slots that are still ahead, as [`Store::give_back`](crate::store::Store::give_back) does.
    pub(super) fn give_back(&mut self, order: &Order, owner: Owner, slots: &[Time]) -> Result<()> {
        let slots = self.ledger.owned.remove(owner, &order.costs, slots);
        self.rules.give_back(&mut self.ledger, self.now, &order.costs, slots);
        self.save()
    }

    /// The end of the hold of all keys. Once over, the hold is removed: after a restart, no one would know that it is
    /// over.
    fn hold_of_all(&mut self) -> Result<Option<Time>> {
        let until = self.header.hold.in_force(self.now);
        if until.is_none() && self.header.hold != Hold::default() {
            self.header.hold = Hold::default();
            self.header.write(self.rows.connection)?;
        }
        Ok(until)
    }

    /// The end of what holds all keys, if they are held.
    pub(super) fn held(&self) -> Option<Time> {
        self.header.hold.max(self.ledger.hold).in_force(self.now)
    }

    /// Holds all keys for `length` nanoseconds; 0 ends all holds.
    pub(super) fn set_hold(&mut self, length: u64) -> Result<()> {
        self.header.hold = Hold::new(self.now, self.now.saturating_add(length));
        match length {
            0 => self.rewrite(|ledger| Ledger { hold: Hold::default(), ..ledger }),
            _ => Ok(self.header.write(self.rows.connection)?),
        }
    }

    /// The fingerprint by which the state is recognised next time.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            generation: self.header.generation,
            key: self.rows.key.to_vec(),
            newest: self.ledger.newest,
            fresh_from: self.rules.fresh_from(&self.ledger),
            at: self.now,
        }
    }

    /// Writes the header, and changes the numbers of all keys.
    fn rewrite(&mut self, change: impl Fn(Ledger) -> Ledger) -> Result<()> {
        self.header.write(self.rows.connection)?;
        for (key, ledger) in self.ledgers()? {
            let ledger = change(ledger);
            self.rows_of(&key).set_ledger(&ledger, self.rules.idle_at(&ledger))?;
        }
        self.load()
    }

    fn ledgers(&self) -> rusqlite::Result<Vec<(Vec<u8>, Ledger)>> {
        let keys = tables::keys(self.rows.connection, None)?.into_iter();
        keys.map(|key| self.rows_of(&key).ledger().map(|ledger| (key, ledger.unwrap_or_default()))).collect()
    }

    pub(super) fn rows_of<'k>(&'k self, key: &'k [u8]) -> KeyRows<'k> {
        KeyRows::new(self.rows.connection, self.header.generation, key)
    }

    fn save(&self) -> Result<()> {
        Ok(self.rows.set_ledger(&self.ledger, self.rules.idle_at(&self.ledger))?)
    }

    /// Replaces all numbers with what follows from the header.
    fn begin_anew(&mut self) -> Result<()> {
        let connection = self.rows.connection;
        connection.execute_batch("DELETE FROM account")?;
        fill(connection, &self.header, self.rules, self.now)?;
        self.rows = KeyRows::new(connection, self.header.generation, self.rows.key);
        self.load()
    }
}

impl Header {
    /// The header of a new state.
    pub(super) fn first(rules: &BookingRules, clock: ClockOrigin, now: Time) -> Header {
        let limits = rules.policy().text.clone();
        let (generation, hold, evicted) = (fastrand::u64(..), Hold::default(), Time::ZERO);
        Header { generation, clock, began: now, silent: None, hold, wall: rules.wall(), evicted, limits }
    }

    /// The ledger of a new key.
    fn fresh(&self, rules: &BookingRules, now: Time) -> Ledger {
        match self.silent {
            Some(last) if rules.end_of_silence(last) > now => rules.silence(last),
            _ if rules.wall().shows(now) < self.evicted => {
                let last = rules.wall().when(i128::from(self.evicted.0) - 1);
                rules.silence(last.unwrap_or(now))
            }
            _ => rules.begin(self.began),
        }
    }

    /// Turns this into the header of the state that follows the known one, which was lost. Returns false if there is
    /// nothing to do.
    ///
    /// If this state began after the other was last seen, the other was lost by then. No lost slot is later than a
    /// horizon after the loss; once that no longer matters, there is nothing to do. No slot that is kept is later than
    /// `newest`.
    pub(super) fn succeed(
        &mut self,
        known: &Fingerprint,
        rules: &BookingRules,
        newest: Time,
        now: Time,
    ) -> bool {
        let loss = if self.began >= known.at { self.began } else { now };
        let last_slot = loss.saturating_add(rules.policy().horizon);
        if rules.end_of_silence(last_slot) <= now {
            return false;
        }
        self.silent = Some(last_slot.max(newest));
        self.generation = fastrand::u64(..);
        true
    }
}

/// Writes the first rows.
pub(super) fn fill(connection: &Connection, header: &Header, rules: &BookingRules, now: Time) -> Result<()> {
    header.write(connection)?;
    let ledger = header.fresh(rules, now);
    Ok(KeyRows::new(connection, header.generation, b"").set_ledger(&ledger, rules.idle_at(&ledger))?)
}
