//! A store in a file, for the processes of one user or group on one machine: an SQLite database.
//!
//! All bookings are made under the file's lock (`flock`), which the system releases when a process ends in any way. It
//! is held for about ten microseconds, so a process that waits looks again soon, unlike SQLite's busy handler. Each
//! booking is a transaction. Instants are on the clock that counts from boot, including suspends.
//!
//! # What survives what
//!
//! - **`kill -9`**, at any moment: nothing is lost. The future slots of the ended process are handed on.
//! - **A restart**: the clock starts again at 0. Whatever was released before counts as released at that instant,
//!   whatever the wall clock says; so a limit per day is as used up for a day after it as it was before.
//! - **A crash of the machine or a power cut**: as a restart, but the file may lack the bookings of the last half
//!   minute or so, as nothing waits for the disk. A limit with a longer period may be exceeded by that many, once; or
//!   the file is damaged, which is noticed. The file itself is on the disk before it is first used.
//! - **The wall clock is set**, with limits of the calendar or with hours: all slots are booked by one wall
//!   clock, which the file names. A process that books and finds it off by more than D/4 replaces it. A process
//!   that holds slots gives them up when it hears of that, or finds the clock off by more than D/2. They stay
//!   charged until then.
//! - **Damage**: noticed by SQLite, by the checksum that each row has, by a gap between rows, or because the log lacks
//!   some of what its index says was written since boot. The files are left as they are, for anyone who wants to
//!   examine them, so the next run notices as well.
//! - **Removal, replacement or a reset** during a run, of the file or of what SQLite keeps beside it: noticed at the
//!   next booking of a process that knew the state from before. What was lost may hold slots up to a horizon after the
//!   loss, so all limits count as used up then, unless that is over, judging by when the present state began. A process
//!   that did not know the lost state cannot notice. If no process does, a state that was reset or removed begins as a
//!   new one: that is what a reset is for.

mod database;
mod files;
mod guard;
mod lock;
mod log;
mod machine;
mod owner;
mod refusal;
mod state_file;
mod tables;
#[cfg(test)]
mod tests;
mod txn;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rusqlite::{Connection, Transaction};

use self::database::Database;
use self::lock::Lock;
use self::machine::ClockOrigin;
use self::refusal::About;
pub(super) use self::state_file::StateFile;
use self::tables::Header;
use self::txn::{Fingerprint, StateTxn};
use super::ledger::{BookingRules, Owner};
use super::{Answer, BootClock, Order, Policy, Slot, Store, StoreError, Tell};
use crate::exit::Exit;
use crate::time::{SECOND, Time, Wall, shown};

/// Nanoseconds between two rounds of deleting past slots and looking for ended processes.
const BETWEEN_LOOKS: u64 = SECOND / 10;

/// The number of times that the wall clock is read.
const LOOKS_AT_WALL: usize = 4;

/// The number of new keys that are added between two evictions of idle ones.
const BETWEEN_EVICTIONS: u32 = 1024;

/// Limits in a file, as one process uses them.
pub struct FileStore {
    path: PathBuf,
    setting: Setting,
    rules: BookingRules,
    clock: BootClock,
    /// `None` while it is not known which file is in its place.
    database: Option<Database>,
    /// The state that was last seen, if any.
    known: Option<Fingerprint>,
    /// True if the files are not those that were last seen.
    is_replaced: bool,
    /// True if there was a loss that the user has not been told of yet.
    is_lost: bool,
    /// True if there was a loss since the last answer.
    has_void_slots: bool,
    /// Until then, slots may be left from an older state that has come back, whose owners have locked another file.
    inherits_from: Time,
    looked: Option<Time>,
    new_keys: u32,
    tell: Tell,
}

/// Our clocks, and the longest wait for a lock.
#[derive(Clone)]
struct Setting {
    clock: ClockOrigin,
    /// Reads the wall clock.
    shown: fn() -> Time,
    patience: Duration,
}

impl FileStore {
    /// Opens the state at `path`, or begins one there. Its directory must exist.
    ///
    /// Waits only for processes that create or remove a state in the same directory. If this state is locked just then,
    /// some of what may be wrong with it is reported only by the first booking.
    ///
    /// `now` shows the time since boot (`CLOCK_BOOTTIME`); slots are on the same time line.
    ///
    /// # Errors
    /// - [`Exit::BadState`]: it is damaged, is not a state, or belongs to other limits. It is left as it is.
    /// - [`Exit::BadStore`]: it is not ours alone, or not on this machine, or we may not write to it.
    /// - [`Exit::StoreAway`]: another process has kept the directory locked for 10 s.
    /// - [`Exit::Error`]: any other error of the system.
    pub fn open(
        path: &Path,
        policy: Policy,
        now: impl Fn() -> Time + Send + 'static,
    ) -> Result<Self, StoreError> {
        Self::open_in(Setting::ours(path)?, path, policy, Box::new(now))
    }

    fn open_in(setting: Setting, path: &Path, policy: Policy, clock: BootClock) -> Result<Self, StoreError> {
        let mut store = FileStore {
            path: path.to_owned(),
            setting,
            rules: BookingRules::new(policy),
            clock,
            database: None,
            known: None,
            is_replaced: false,
            is_lost: false,
            has_void_slots: false,
            inherits_from: Time::ZERO,
            looked: None,
            new_keys: 0,
            tell: Arc::new(drop),
        };
        let database = store.find_or_create()?;
        if let Some(lock) = Lock::at_once(&database.path, &database.file, File::try_lock)? {
            store.act_on(&database, &lock, &[], |_, _| Ok(()))?;
            // The slots of ended processes were handed on in memory only: nothing was booked.
            store.looked = None;
        }
        store.database = Some(database);
        Ok(store)
    }

    /// Forgets the state at `path`, so that the next run begins a new one, with any limits. Returns `false` if there is
    /// none.
    ///
    /// The file is removed, so that processes that use it notice; see the notes on this module. A file that never was a
    /// state is not touched.
    ///
    /// # Errors
    /// As for [`FileStore::open`], and [`Exit::StoreAway`]: another process has kept it locked for 10 s.
    pub fn reset(path: &Path) -> Result<bool, StoreError> {
        Database::remove(path, lock::PATIENCE)
    }

    /// Performs `task` under the lock, in whatever file is in its place by then.
    fn act<T>(
        &mut self,
        key: &[u8],
        mut task: impl FnMut(&mut StateTxn<'_>, Owner) -> Result<T>,
    ) -> Result<T, StoreError> {
        loop {
            let database = self.database.take().map_or_else(|| self.find_or_create(), Ok)?;
            let (patience, tell) = (self.setting.patience, &*self.tell);
            let lock = Lock::within(patience, &database.path, &database.file, File::try_lock, tell);
            let done = lock.and_then(|lock| self.act_on(&database, &lock, key, &mut task));
            if let Some(done) = done.transpose() {
                self.database = Some(database);
                return done;
            }
            self.is_replaced = true;
        }
    }

    /// Performs `task` under the lock; `None` if the lock is on a file that is no longer in its place.
    fn act_on<T>(
        &mut self,
        database: &Database,
        _: &Lock,
        key: &[u8],
        mut task: impl FnMut(&mut StateTxn<'_>, Owner) -> Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut is_tried = false;
        let (done, has_restarted) = loop {
            // Read before the file is looked up: if another one replaces it later, that is after this instant.
            let (wall, now) = (self.wall(), (self.clock)());
            let looks = self.looked.is_none_or(|looked| now.since(looked) >= BETWEEN_LOOKS);
            let Some(transaction) = database.begin(self.setting.patience)? else { return Ok(None) };
            let result = self.transact(database, transaction, key, (now, wall, looks), &mut task);
            // The log may be what takes up the space. Once it is in the database, it is restarted.
            let is_full = result.as_ref().is_err_and(refusal::is_full);
            if is_full && !std::mem::replace(&mut is_tried, true) && database.empty_log().is_ok() {
                continue;
            }
            // A refusal is no damage, and a full disk says nothing of it.
            if !is_full {
                database.is_good.set(!result.as_ref().is_err_and(|error| !error.is::<StoreError>()));
            }
            break result.about(&database.path)?;
        };
        if has_restarted {
            // If that fails, pages that stay in the log are as good.
            let _ = database.empty_log();
        }
        self.is_replaced = false;
        Ok(Some(done))
    }

    /// Performs `task` in one transaction. Also returns whether the machine has been restarted since the last one.
    fn transact<T>(
        &mut self,
        database: &Database,
        transaction: Transaction<'_>,
        key: &[u8],
        (now, wall, looks): (Time, Wall, bool),
        task: &mut impl FnMut(&mut StateTxn<'_>, Owner) -> Result<T>,
    ) -> Result<(T, bool)> {
        let mut txn = StateTxn::begin(&transaction, &database.path, &mut self.rules, key, (now, wall))?;
        let has_restarted = txn.carry_over_restart(&self.setting.clock)?;
        txn.note_wall()?;
        if let Some(known) = &self.known
            && txn.silence_after_loss(known, self.is_replaced)?
        {
            (self.is_lost, self.has_void_slots) = (true, true);
            self.inherits_from = now.saturating_add(txn.rules.policy().horizon);
        }
        if looks && now >= self.inherits_from {
            txn.ledger.owned.inherit(|owner| database.has_ended(owner), &self.clock);
        }
        if txn.is_new {
            if self.new_keys.is_multiple_of(BETWEEN_EVICTIONS) {
                txn.evict()?;
            }
            self.new_keys = self.new_keys.wrapping_add(1);
        }
        let done = task(&mut txn, database.owner)?;
        let known = txn.fingerprint();
        transaction.commit()?;
        self.known = Some(known);
        self.looked = if looks { Some(now) } else { self.looked };
        Ok((done, has_restarted))
    }

    /// The wall clock, by the fastest of some readings: if we were stopped during one, it would seem to have been set.
    /// Each is paired with the instant after it, so the clock is never taken to be ahead.
    fn wall(&self) -> Wall {
        let look = |_| {
            let (before, shown, now) = ((self.clock)(), (self.setting.shown)(), (self.clock)());
            (now.since(before), Wall::new(now, shown))
        };
        let looks = if self.rules.policy().goes_by_wall() { LOOKS_AT_WALL } else { 0 };
        (0..looks).map(look).min_by_key(|(took, _)| *took).unwrap_or_default().1
    }

    /// Opens the state that is in place. If there is none, creates one that follows from what was known.
    fn find_or_create(&self) -> Result<Database, StoreError> {
        let patience = self.setting.patience;
        loop {
            if let Some(database) = Database::find(&self.path, &self.setting)? {
                return Ok(database);
            }
            Database::create(&self.path, patience, |new| self.fill(new))?;
        }
    }

    /// Begins a state. Until now, another process may have booked in the one before.
    fn fill(&self, new: &Connection) -> Result<()> {
        let mut rules = self.rules.clone();
        rules.set_wall(self.wall());
        let now = (self.clock)();
        let mut first = Header::first(&rules, self.setting.clock.clone(), now);
        if let Some(known) = &self.known {
            first.succeed(known, &rules, Time::ZERO, now);
        }
        txn::fill(new, &first, &rules, now)
    }
}

impl Store for FileStore {
    fn book(&mut self, order: &Order) -> Result<Answer, StoreError> {
        let mut answer = self.act(&order.key, |txn, owner| txn.book(order, owner))?;
        answer.lost = std::mem::take(&mut self.has_void_slots);
        // The answer to a report does not say until when nothing is released; the next answer will.
        let is_for_slots = !answer.slots.is_empty() || answer.ask_again.is_some();
        if is_for_slots && std::mem::take(&mut self.is_lost) {
            let path = self.path.display();
            answer.warning = Some(format!("{path}: it was removed, replaced or reset during the run"));
        }
        Ok(answer)
    }

    fn tell_waits_to(&mut self, tell: Tell) {
        self.tell = tell;
    }

    fn give_back(&mut self, order: &Order, slots: &[Slot]) -> Result<(), StoreError> {
        let slots: Vec<Time> = slots.iter().map(|slot| slot.at).collect();
        self.act(&order.key, |txn, owner| txn.give_back(order, owner, &slots))
    }
}

impl Setting {
    fn ours(path: &Path) -> Result<Self, StoreError> {
        let clock = ClockOrigin::ours().map_err(|error| StoreError {
            exit: Exit::Error,
            error: error.context(format!("{}: limits cannot be kept in a file here", path.display())),
        })?;
        Ok(Setting { clock, shown, patience: lock::PATIENCE })
    }
}
