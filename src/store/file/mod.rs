//! A vault in a file, for the processes of one user or group on one machine: an SQLite database with one table.
//!
//! All is read and swapped under the file's lock (`flock`), which the system releases when a process ends in any way.
//! It is held for some ten microseconds, so a process that waits looks again soon, unlike SQLite's busy handler. Each
//! swap is a transaction. Instants are on the clock that counts from boot, including suspends.
//!
//! # What survives what
//!
//! - **`kill -9`**, at any moment: nothing is lost. The next process rolls back what was half written, by the journal
//!   beside the file.
//! - **A restart**: the clock starts again at 0. Whatever was released before counts as released at that instant,
//!   whatever the wall clock says; so a limit per day is as used up for a day after it as it was before.
//! - **A crash of the machine or a power cut**: as a restart, but the file may lack the bookings of the last half
//!   minute or so, as nothing waits for the disk. A limit with a longer period may be exceeded by that many, once; or
//!   the file is damaged, which is noticed. The file itself is on the disk before it is first used.
//! - **Damage**: noticed by SQLite, or by the checksum that each value has. The file is left as it is, for anyone who
//!   wants to examine it, so the next run notices as well.
//! - **Removal, replacement or a reset** during a run: noticed at the next booking, as the file is another one, or by
//!   the watermarks of [`shared`](super::shared). A process that did not know the lost state cannot notice. If no
//!   process does, a state that was reset or removed begins as a new one: that is what a reset is for.

mod database;
mod guard;
mod holder;
mod lock;
mod machine;
mod refusal;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use self::database::Database;
use self::lock::Lock;
use self::refusal::{About, unusable};
use super::flaw::Flaw;
use super::vault::{Loaded, Origin, Reading, Suspicion, Swap, Value, Vault, Write};
use super::{BootClock, LockStatus, StoreError, Warn};
use crate::exit::Exit;
use crate::time::{Time, Wall, shown};

/// The number of times that the wall clock is read.
const LOOKS_AT_WALL: usize = 4;

/// Values in a file.
pub struct FileVault {
    path: PathBuf,
    setting: Setting,
    clock: BootClock,
    /// `None` while it is not known which file is in its place.
    database: Option<Database>,
    /// Held from a load to the swap.
    lock: Option<Lock>,
    /// A transaction goes on from one load or swap to the next.
    gathers: bool,
    /// A value was written since the transaction began.
    has_written: bool,
    /// True if the file is not the one that was last seen.
    is_replaced: bool,
    warn: Warn,
}

/// Our clocks, and the longest wait for a lock.
#[derive(Clone)]
struct Setting {
    origin: Origin,
    /// Reads the wall clock.
    shown: fn() -> Time,
    patience: Duration,
}

impl FileVault {
    /// The file at `path`. `clock` shows the time since boot.
    ///
    /// # Errors
    /// The clock of this machine cannot be told from others.
    pub fn new(path: &Path, clock: BootClock) -> Result<Self, StoreError> {
        let origin = machine::origin().map_err(|error| StoreError {
            exit: Exit::Error,
            error: error.context(format!("{}: limits cannot be kept in a file here", path.display())),
        })?;
        Ok(FileVault::with(Setting { origin, shown, patience: holder::TIMEOUT }, path, clock))
    }

    fn with(setting: Setting, path: &Path, clock: BootClock) -> Self {
        let path = path.to_owned();
        FileVault {
            path,
            setting,
            clock,
            database: None,
            lock: None,
            gathers: false,
            has_written: false,
            is_replaced: false,
            warn: Arc::new(drop),
        }
    }

    /// The wall clock, by the fastest of some readings: if we were stopped during one, it would seem to have been set.
    /// Each is paired with the instant after it, so the clock is never taken to be ahead.
    fn wall(&self) -> Wall {
        let look = |_| {
            let (before, shown, now) = ((self.clock)(), (self.setting.shown)(), (self.clock)());
            (now.since(before), Wall::new(now, shown))
        };
        (0..LOOKS_AT_WALL).map(look).min_by_key(|(took, _)| *took).unwrap_or_default().1
    }

    fn reading(&self) -> Reading {
        let wall = self.wall();
        Reading::own((self.clock)(), wall)
    }

    /// Locks the file that is in place; `None` if there is none. Also returns a clock reading after which it was still
    /// in place.
    fn find(&mut self) -> Result<Option<Reading>, StoreError> {
        loop {
            let database = match self.database.take() {
                Some(database) => database,
                None => match Database::find(&self.path, self.setting.patience)? {
                    Some(database) => database,
                    None => return Ok(None),
                },
            };
            let (path, file) = (&database.path, &database.file);
            let lock = Lock::within(self.setting.patience, path, file, &*self.warn)?;
            let reading = self.reading();
            if database.is_in_place()? {
                (self.database, self.lock) = (Some(database), Some(lock));
                return Ok(Some(reading));
            }
            self.is_replaced = true;
        }
    }

    /// Ends the transaction.
    fn end_unless_gathering(&mut self) -> Result<(), StoreError> {
        if self.lock.is_none() {
            return Ok(());
        }
        self.is_replaced = false;
        if self.gathers {
            return Ok(());
        }
        let has_written = mem::take(&mut self.has_written);
        let ended = if has_written { self.written(self.found().run("COMMIT")) } else { Ok(()) };
        if ended.is_err() || !has_written {
            // SQLite may have mended what it found damaged, or there is nothing to roll back.
            let _ = self.found().run("ROLLBACK");
        }
        self.lock = None;
        ended
    }

    /// The result of a write. SQLite refuses one to a file that was removed meanwhile; it would be gone in any case.
    fn written<T: Default>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        match result {
            Err(_) if self.found().is_removed() => Ok(T::default()),
            result => result.about(&self.path),
        }
    }

    /// The database, which was found by [`FileVault::find`].
    fn found(&self) -> &Database {
        self.database.as_ref().expect("it was found")
    }
}

impl Vault for FileVault {
    fn load(&mut self, keys: &[&[u8]], _: bool) -> Result<Loaded, StoreError> {
        let why = self.loss();
        let goes_on = self.lock.is_some();
        let reading = if goes_on { Some(self.reading()) } else { self.find()? };
        let suspicion = self.is_replaced.then_some(Suspicion { why, good_from: None });
        let Some(reading) = reading else {
            // Whatever was there before was lost by now.
            return Ok(Loaded::new(vec![None; keys.len()], self.reading(), suspicion));
        };
        let begun = if goes_on { Ok(()) } else { self.found().run("BEGIN IMMEDIATE") };
        if begun.is_err() {
            self.lock = None;
        }
        let read = begun.and_then(|()| {
            keys.iter().map(|key| self.found().value(key)).collect::<rusqlite::Result<Vec<Option<Value>>>>()
        });
        let values = read.about(&self.path)?;
        // The state's own value is never removed.
        if values.first().is_some_and(|own| keys[0].is_empty() && own.is_none()) {
            return Err(unusable(&self.path, Flaw::Damaged));
        }
        Ok(Loaded::new(values, reading, suspicion))
    }

    fn swap(&mut self, Write { key, old, value, .. }: &Write) -> Result<Swap, StoreError> {
        if self.lock.is_none() {
            debug_assert!(key.is_empty() && old.is_none());
            self.database = Database::create(&self.path, self.setting.patience, key, value)?;
            return match self.database {
                Some(_) => {
                    self.is_replaced = false;
                    Ok(Swap::Done(self.reading()))
                }
                // Another process was faster.
                None => self.load(&[key], false).map(Swap::Refused),
            };
        }
        self.written(self.found().write(key, value))?;
        self.has_written = true;
        self.end_unless_gathering()?;
        Ok(Swap::Done(self.reading()))
    }

    fn release(&mut self) {
        // Nothing was written, unless more is to come.
        let _ = self.end_unless_gathering();
    }

    fn gather(&mut self) {
        self.gathers = true;
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.gathers = false;
        self.end_unless_gathering()
    }

    fn keys(&mut self) -> Result<Vec<Vec<u8>>, StoreError> {
        if self.find()?.is_none() {
            return Ok(Vec::new());
        }
        self.lock = None;
        self.found().keys().about(&self.path)
    }

    fn forget(&mut self) -> Result<bool, StoreError> {
        Database::remove(&self.path, self.setting.patience)
    }

    fn evict(&mut self, is_idle: &mut dyn FnMut(&[u8]) -> bool) -> Result<usize, StoreError> {
        if self.lock.is_none() {
            return Ok(0);
        }
        self.written(self.found().evict(is_idle))
    }

    fn origin(&self) -> Origin {
        self.setting.origin.clone()
    }

    fn loss(&self) -> &'static str {
        "it was removed, replaced or reset during the run"
    }

    fn is_at_hand(&mut self) -> Result<bool, StoreError> {
        if self.database.is_none() {
            self.database = Database::find(&self.path, self.setting.patience)?;
        }
        let Some(database) = &self.database else { return Ok(true) };
        Ok(Lock::at_once(&database.path, &database.file)?.is_some())
    }

    fn lock(&mut self) -> Result<Option<LockStatus>, StoreError> {
        if self.is_at_hand()? {
            return Ok(Some(LockStatus::Free));
        }
        let pid = holder::find(self.found().file.metadata().ok());
        let held = |pid| LockStatus::Held { pid, is_stopped: holder::is_stopped(pid) };
        Ok(Some(pid.map_or(LockStatus::Free, held)))
    }

    fn warn_of_waits_by(&mut self, warn: Warn) {
        self.warn = warn;
    }

    fn name(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }
}
