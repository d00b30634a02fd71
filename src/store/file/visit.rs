//! One visit to the file: between taking the lock, finding out how things are, and giving it back.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::database::Database;
use super::domain::Domain;
use super::lock::{Locker, NoLock};
use super::owner::Owner;
use super::refusal::{Flaw, bad, no_lock, of_sqlite, refused, reset_command, unusable};
use super::rows::{Booked, Header, KeyRows, clear, idle_keys, keys};
use super::{FileStore, Known, Setting};
use crate::store::ledger::{BookingRules, Ledger};
use crate::store::{Answer, Order, Slot, StoreError};
use crate::time::Time;

/// So many bookings ahead is what follows a lost state: ahead of all that others may have seen of that.
const FAR: u64 = 1 << 32;

/// After so many bookings it is looked which keys are idle, if there is a new one.
const SWEEP: u64 = 1024;

/// As long as there is one, nobody else looks.
pub(super) struct Visit<'a> {
    connection: &'a Connection,
    path: &'a Path,
    header: Header,
    /// When it began.
    now: Time,
}

impl FileStore {
    /// Does something under the lock, once it is found out how things are.
    pub(super) fn visit<T>(
        &mut self,
        act: impl Fn(&mut Visit<'_>, &BookingRules) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut is_replaced = false;
        loop {
            let lock = self.locker.lock(self.database.file());
            let patience = self.setting.patience;
            let lock =
                lock.map_err(|why| no_lock(self.database.path(), self.database.file(), patience, why))?;
            if let Some(done) = self.visit_locked(is_replaced, &act)? {
                return Ok(done);
            }
            drop(lock);
            is_replaced = true;
            let now = (self.clock)();
            let mut first = first(&self.rules, self.setting.domain, now);
            if let Some(known) = self.known {
                succeed(&mut first, known, &self.rules, Time::ZERO, now);
            }
            let path = self.database.path().to_owned();
            self.database = find_or_create(&path, patience, &first, &self.rules)?;
        }
    }

    /// Finds out how things are, unless somebody else has the lock: that may be for long.
    pub(super) fn look(&mut self) -> Result<(), StoreError> {
        let patience = self.setting.patience;
        match Locker::lock_at_once(self.database.file()) {
            Ok(_lock) => self.visit_locked(false, &|_, _| Ok(())).map(drop),
            Err(NoLock::Held) => Ok(()),
            Err(why) => Err(no_lock(self.database.path(), self.database.file(), patience, why)),
        }
    }

    /// With the lock; `None` if it is of a file that is not in its place any more.
    fn visit_locked<T>(
        &mut self,
        is_replaced: bool,
        act: &impl Fn(&mut Visit<'_>, &BookingRules) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        // Before it is looked for: whoever puts another in its place later does so after this instant.
        let now = (self.clock)();
        let path = self.database.path().to_owned();
        let sqlite = |error: rusqlite::Error| of_sqlite(&path, &error);
        let Some(transaction) = self.database.begin(self.setting.patience)? else { return Ok(None) };
        let header = Header::read(&transaction).map_err(sqlite)?;
        let mut visit = Visit { connection: &transaction, path: &path, header, now };
        visit.check(&self.rules, self.setting)?;
        visit.come_from_before_the_restart(&self.rules, self.setting.domain)?;
        if let Some(known) = self.known
            && visit.make_good_for_what_is_lost(&self.rules, known, is_replaced)?
        {
            let told = "it was removed, replaced or reset during the run, so there may be a pause";
            self.warnings.push(format!("{}: {told}", path.display()));
        }
        let done = act(&mut visit, &self.rules)?;
        let mut header = visit.header;
        header.sequence += 1;
        header.write(&transaction).map_err(sqlite)?;
        transaction.commit().map_err(sqlite)?;
        self.database.tidy_up_in_the_end();
        self.known = Some(Known { generation: header.generation, sequence: header.sequence, at: now });
        Ok(Some(done))
    }
}

impl Visit<'_> {
    /// Books, as [`Store::book`](crate::store::Store::book) does.
    pub(super) fn book(
        &mut self,
        rules: &BookingRules,
        order: &Order,
        owner: Owner,
    ) -> Result<Answer, StoreError> {
        let mut rows = self.rows(&order.key);
        let kept = rows.ledger().map_err(|error| self.sqlite(&error))?;
        let is_new = kept.is_none();
        let mut ledger = match kept {
            Some(ledger) if ledger.accounts.len() == rules.policy().quotas.len() => ledger,
            // Those of no key are never removed.
            None if !order.key.is_empty() => fresh(&self.header, rules, self.now),
            _ => return Err(bad(self.path, &unusable(self.path, Flaw::Damaged))),
        };
        let answer = rules.book(&mut ledger, &mut rows, self.now, order)?;
        rows.write(&ledger, rules.idle_at(&ledger)).map_err(|error| self.sqlite(&error))?;
        if answer.slots.last().is_some_and(|last| last.at > self.now) {
            self.own(order, owner, &answer.slots).map_err(|error| self.sqlite(&error))?;
        }
        if is_new && self.header.sequence.is_multiple_of(SWEEP) {
            self.sweep().map_err(|error| self.sqlite(&error))?;
        }
        Ok(answer)
    }

    /// Takes back slots, as [`Store::give_back`](crate::store::Store::give_back) does.
    pub(super) fn give_back(
        &mut self,
        rules: &BookingRules,
        order: &Order,
        slots: &[Slot],
        owner: Owner,
    ) -> Result<(), StoreError> {
        // Those of a state that was lost are not booked in this one.
        let lost = self.header.silent.unwrap_or_default();
        let booked = slots.partition_point(|slot| slot.at <= lost);
        let mut rows = self.rows(&order.key);
        rows.forget_returned(self.now).map_err(|error| self.sqlite(&error))?;
        rules.give_back(&mut rows, self.now, order, &slots[booked..])?;
        self.disown(order, owner, slots).map_err(|error| self.sqlite(&error))
    }

    /// Notes whose slots they are.
    fn own(&self, order: &Order, owner: Owner, slots: &[Slot]) -> rusqlite::Result<()> {
        let slots = slots.iter().map(|slot| slot.at.0).collect();
        let (key, costs) = (order.key.to_vec(), order.costs.to_vec());
        let booked = Booked { id: self.header.sequence, owner, key, costs, slots };
        Booked::forget(self.connection, self.now)?;
        booked.insert(self.connection, self.header.generation)
    }

    /// They are not to be taken back once more when their owner has ended.
    fn disown(&self, order: &Order, owner: Owner, slots: &[Slot]) -> rusqlite::Result<()> {
        let mut gone: Vec<_> = slots.iter().map(|slot| slot.at.0).collect();
        for mut booked in Booked::all(self.connection, self.header.generation, self.now)? {
            let is_same = booked.owner == owner && booked.key[..] == order.key[..];
            if !is_same || booked.costs[..] != order.costs[..] {
                continue;
            }
            booked.remove(self.connection)?;
            booked
                .slots
                .retain(|at| gone.iter().position(|gone| gone == at).map(|at| gone.remove(at)).is_none());
            if !booked.slots.is_empty() {
                booked.insert(self.connection, self.header.generation)?;
            }
        }
        Ok(())
    }

    /// Takes back the future slots of processes that have ended.
    pub(super) fn inherit(&mut self, rules: &BookingRules, ours: Owner) -> Result<(), StoreError> {
        let all = Booked::all(self.connection, self.header.generation, self.now);
        let mut judged: Vec<(Owner, bool)> = Vec::new();
        for booked in all.map_err(|error| self.sqlite(&error))? {
            let known = judged.iter().find(|(owner, _)| *owner == booked.owner).map(|(_, is_dead)| *is_dead);
            let is_dead = known.unwrap_or_else(|| booked.owner.is_dead(ours));
            if known.is_none() {
                judged.push((booked.owner, is_dead));
            }
            if is_dead {
                booked.remove(self.connection).map_err(|error| self.sqlite(&error))?;
                let order = Order { key: booked.key[..].into(), costs: booked.costs.into(), count: 1 };
                let slots: Vec<_> =
                    booked.slots.iter().map(|&at| Slot { at: Time(at), until: Time(at) }).collect();
                rules.give_back(&mut self.rows(&order.key), self.now, &order, &slots)?;
            }
        }
        Ok(())
    }

    fn rows<'b>(&'b self, key: &'b [u8]) -> KeyRows<'b> {
        KeyRows { connection: self.connection, path: self.path, generation: self.header.generation, key }
    }

    fn sqlite(&self, error: &rusqlite::Error) -> StoreError {
        of_sqlite(self.path, error)
    }

    /// Removes the keys that are as good as new.
    fn sweep(&self) -> rusqlite::Result<()> {
        idle_keys(self.connection, self.now)?.iter().try_for_each(|key| self.rows(key).remove())
    }

    fn check(&self, rules: &BookingRules, setting: Setting) -> Result<(), StoreError> {
        let (header, ours) = (&self.header, &rules.policy().text);
        if header.text != *ours {
            let why = format!(
                "this state is of other limits: '{}', not '{ours}': give the same limits or another state, or \
                 begin a new one by {}",
                header.text.escape_debug(),
                reset_command(self.path)
            );
            return Err(bad(self.path, &why));
        }
        let (theirs, ours) = (header.domain, setting.domain);
        if theirs.boot == ours.boot && theirs.namespace != ours.namespace {
            let why = "this state is in use in another time namespace, where clocks differ: use one for each";
            return Err(refused(self.path, why));
        }
        Ok(())
    }

    /// The clock begins anew with the machine. Whatever was released before that counts as released then: by the wall
    /// clock it may be long ago, but that may be wrong.
    fn come_from_before_the_restart(&mut self, rules: &BookingRules, ours: Domain) -> Result<(), StoreError> {
        if self.header.domain == ours {
            return Ok(());
        }
        self.header.domain = ours;
        self.header.began = Time::ZERO;
        if !ours.counts_from_boot() {
            self.header.silent = Some(self.now);
            return self.begin_anew(rules);
        }
        self.header.silent = self.header.silent.map(|_| Time::ZERO);
        let never = Time(i64::MAX.cast_unsigned());
        Booked::forget(self.connection, never).map_err(|error| self.sqlite(&error))?;
        for key in keys(self.connection).map_err(|error| self.sqlite(&error))? {
            let mut rows = self.rows(&key);
            let ledger = rows.ledger().map_err(|error| self.sqlite(&error))?.unwrap_or_default();
            let ledger = rules.restart(&ledger, &mut rows)?;
            rows.forget_returned(never).map_err(|error| self.sqlite(&error))?;
            rows.write(&ledger, rules.idle_at(&ledger)).map_err(|error| self.sqlite(&error))?;
        }
        Ok(())
    }

    /// Returns whether something was lost.
    fn make_good_for_what_is_lost(
        &mut self,
        rules: &BookingRules,
        known: Known,
        is_replaced: bool,
    ) -> Result<bool, StoreError> {
        let is_another = self.header.generation != known.generation;
        if !is_replaced && !is_another && self.header.sequence >= known.sequence {
            return Ok(false);
        }
        let is_seen_to = is_another && self.header.is_successor && self.header.sequence > known.sequence;
        if !is_seen_to {
            let newest = self.newest().map_err(|error| self.sqlite(&error))?;
            if succeed(&mut self.header, known, rules, newest, self.now) {
                self.begin_anew(rules)?;
            }
        }
        Ok(true)
    }

    /// When the last slot is that was given out.
    fn newest(&self) -> rusqlite::Result<Time> {
        let newest = "SELECT max(newest) FROM account";
        let newest: Option<i64> = self.connection.query_row(newest, [], |row| row.get(0))?;
        Ok(Time(newest.unwrap_or(0).cast_unsigned()))
    }

    /// Puts what follows from the header in place of all numbers.
    fn begin_anew(&mut self, rules: &BookingRules) -> Result<(), StoreError> {
        let begin = || fill(self.connection, &self.header, rules, self.now);
        clear(self.connection).and_then(|()| begin()).map_err(|error| self.sqlite(&error))
    }
}

/// Makes it the state that follows the one that was known, and was lost since. Returns whether there is anything to do.
///
/// If it began after that was last seen, it was lost by then. No slot that was lost is later than a horizon after, and
/// once that is as good as forgotten, there is nothing to be done. Nor is any that is kept later than `newest`.
fn succeed(header: &mut Header, known: Known, rules: &BookingRules, newest: Time, now: Time) -> bool {
    let loss = if header.began >= known.at { header.began } else { now };
    let last_slot = Time(loss.0.saturating_add(rules.policy().horizon));
    if rules.end_of_silence(last_slot) <= now {
        return false;
    }
    header.silent = Some(last_slot.max(newest));
    (header.generation, header.is_successor) = (fastrand::u64(..), true);
    header.sequence = header.sequence.max(known.sequence) + FAR;
    true
}

/// What a key begins with.
fn fresh(header: &Header, rules: &BookingRules, now: Time) -> Ledger {
    match header.silent {
        Some(last) if rules.end_of_silence(last) > now => rules.silence(last),
        _ => rules.begin(header.began),
    }
}

/// What a state begins with.
pub(super) fn first(rules: &BookingRules, domain: Domain, now: Time) -> Header {
    Header {
        sequence: 0,
        generation: fastrand::u64(..),
        is_successor: false,
        domain,
        began: now,
        silent: None,
        text: rules.policy().text.clone(),
    }
}

fn fill(connection: &Connection, header: &Header, rules: &BookingRules, now: Time) -> rusqlite::Result<()> {
    header.write(connection)?;
    let rows = KeyRows { connection, path: Path::new(""), generation: header.generation, key: b"" };
    let ledger = fresh(header, rules, now);
    rows.write(&ledger, rules.idle_at(&ledger))
}

/// The file at `path`. If there is none, it is one with this header from now on.
pub(super) fn find_or_create(
    path: &Path,
    patience: Duration,
    first: &Header,
    rules: &BookingRules,
) -> Result<Database, StoreError> {
    loop {
        if let Some(database) = Database::find(path)? {
            return Ok(database);
        }
        Database::create(path, patience, |connection| fill(connection, first, rules, first.began))?;
    }
}
