//! Manages a state in a file.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::database::Database;
use super::refusal::{About, bad};
use super::tables::{self, Header};
use super::txn::StateTxn;
use super::{FileStore, Setting, lock, owner};
use crate::config::Rate;
use crate::exit::Exit;
use crate::store::keeper::{BootClock, Keeper};
use crate::store::ledger::BookingRules;
use crate::store::status::MOST_KEYS;
use crate::store::{KeysInUse, LimitStatus, LockStatus, Policy, Reserve, Status, Store, StoreError};
use crate::time::{Time, Wall, shown};

/// The place of a state.
pub(in crate::store) struct StateFile(pub(in crate::store) PathBuf);

impl Keeper for StateFile {
    fn open(&self, rates: &[Rate], now: BootClock) -> Result<(Box<dyn Store>, Policy), StoreError> {
        let policy = Policy::new(rates, Reserve::LOCAL);
        policy.check().map_err(|error| StoreError { exit: Exit::Usage, error })?;
        Ok((Box::new(FileStore::open(&self.0, policy.clone(), now)?), policy))
    }

    fn reset(&self) -> Result<(), StoreError> {
        FileStore::reset(&self.0).map(drop)
    }

    fn hold(&self, length: u64, now: BootClock) -> Result<bool, StoreError> {
        let Some((database, _)) = self.find()? else { return Ok(false) };
        let policy = Policy::new(&rates(&database)?, Reserve::LOCAL);
        drop(database);
        let mut store = FileStore::open(&self.0, policy, now)?;
        store.act(b"", |txn, _| txn.set_hold(length)).map(|()| true)
    }

    fn status(&self, now: Time) -> Result<Option<Status>, StoreError> {
        let Some((database, setting)) = self.find()? else { return Ok(None) };
        let status = look(&database, &setting, now);
        database.is_good.set(status.is_ok());
        status.map(Some).about(&database.path)
    }
}

impl StateFile {
    fn find(&self) -> Result<Option<(Database, Setting)>, StoreError> {
        let setting = Setting::ours(&self.0)?;
        Ok(Database::find(&self.0, &setting)?.map(|database| (database, setting)))
    }
}

fn look(database: &Database, setting: &Setting, now: Time) -> anyhow::Result<Status> {
    let rates = rates(database)?;
    let mut rules = BookingRules::new(Policy::new(&rates, Reserve::LOCAL));
    let wall = Wall::new(now, shown());
    // Rolled back.
    let transaction = database.connection.unchecked_transaction()?;
    let mut txn = StateTxn::begin(&transaction, &database.path, &mut rules, b"", (now, wall))?;
    txn.carry_over_restart(&setting.clock)?;
    txn.ledger.owned.inherit(|owner| owner::has_ended(&database.file, owner), || now);
    let rules = txn.rules;
    rules.unbook(&mut txn.ledger);
    let mut held: Vec<_> = txn.held().map(|until| (None, until.since(now))).into_iter().collect();
    let most_held = held.len() + MOST_KEYS;
    let last_turn = Some(txn.ledger.turns.since(now)).filter(|turn| *turn > rules.policy().horizon);
    let limit = |(at, rate): (usize, &Rate)| {
        let capacity = rules.policy().quotas[at].at_once();
        let (free, next) = rules.left(&txn.ledger, now, (at, capacity));
        let keys = rate.is_by_key().then(KeysInUse::default);
        LimitStatus { rate: rate.clone(), capacity, free, next_in: next.since(now), keys }
    };
    let mut limits: Vec<_> = rates.iter().enumerate().map(limit).collect();
    let mut last_slot = None;
    for key in tables::keys(&transaction, Some(now))? {
        let ledger = txn.rows_of(&key).ledger()?.unwrap_or_default();
        let until = ledger.hold.in_force(now).filter(|_| !key.is_empty() && held.len() < most_held);
        held.extend(until.map(|until| (Some(key.clone()), until.since(now))));
        last_slot = last_slot.max(ledger.owned.last(|owner| owner::has_ended(&database.file, owner)));
        for (at, LimitStatus { capacity, keys, .. }) in limits.iter_mut().enumerate() {
            let Some(keys) = keys else { continue };
            let (free, _) = rules.left(&ledger, now, (at, *capacity));
            keys.count(&key, capacity.saturating_sub(free));
        }
    }
    let booked = last_slot.map(|slot| slot.since(now)).filter(|left| *left > 0);
    Ok(Status { limits, held, booked, last_turn, lock: Some(lock_of(database)?) })
}

/// Names the holder of the lock, as all others wait for it. Reading takes no lock.
fn lock_of(database: &Database) -> Result<LockStatus, StoreError> {
    let is_free = lock::Lock::at_once(&database.path, &database.file, File::try_lock)?.is_some();
    let holder = if is_free { None } else { lock::holder(&database.file) };
    Ok(holder.map_or(LockStatus::Free, |pid| LockStatus::Held { pid, is_stopped: lock::is_stopped(pid) }))
}

/// The limits that a state is kept for.
fn rates(database: &Database) -> Result<Vec<Rate>, StoreError> {
    let path: &Path = &database.path;
    let header = Header::read(&database.connection).about(path)?;
    Policy::rates(&header.limits).map_err(|error| bad(path, &format!("its limits cannot be read: {error:#}")))
}
