//! The use of the limits in a state, without using any of it.

use std::path::Path;

use super::database::Database;
use super::refusal::{About, bad};
use super::tables::Header;
use super::txn::StateTxn;
use super::{FileStore, Setting, lock, owner, path};
use crate::config::{Rate, State};
use crate::store::ledger::BookingRules;
use crate::store::{Answer, LimitStatus, LockStatus, Policy, Reserve, Status, StoreError};
use crate::time::{Time, Wall, shown};

/// The status of a state, as of `now`; `None` if there is none. Nothing is booked or written.
///
/// # Errors
/// It is damaged, or not to be trusted.
pub(in crate::store) fn status(state: &State, now: Time) -> Result<Option<Status>, StoreError> {
    let path = path(state)?;
    let setting = Setting::ours(&path)?;
    let Some(database) = Database::find(&path, &setting)? else { return Ok(None) };
    let rates = rates(&database)?;
    let mut rules = BookingRules::new(Policy::new(&rates, Reserve::LOCAL));
    rules.set_wall(Wall::new(now, shown()));
    let look = || {
        // Rolled back.
        let transaction = database.connection.unchecked_transaction()?;
        let mut txn = StateTxn::begin(&transaction, &database.path, &rules, b"", (now, false))?;
        txn.carry_over_restart(&setting.clock)?;
        txn.inherit(|owner| owner::has_ended(&database.file, owner), || now);
        let held = txn.holds()?.into_iter().map(|(key, until)| (key, until.since(now))).collect();
        let last_turn = Some(txn.turns().since(now)).filter(|turn| *turn > rules.policy().horizon);
        let limit = |(at, rate): (usize, &Rate)| {
            let capacity = rules.policy().quotas[at].at_once();
            let (free, next) = txn.left(at, capacity)?;
            Ok(LimitStatus { rate: rate.clone(), capacity, free, next_in: next.since(now) })
        };
        let limits = rates.iter().enumerate().map(limit).collect::<anyhow::Result<_>>()?;
        Ok(Status { limits, held, last_turn, lock: Some(lock_of(&database)?) })
    };
    let status: anyhow::Result<_> = look();
    database.is_good.set(status.is_ok());
    status.map(Some).about(&database.path)
}

/// Names its holder, because all others wait for that one. To read takes no lock.
fn lock_of(database: &Database) -> Result<LockStatus, StoreError> {
    let is_free = lock::Lock::at_once(&database.path, &database.file, std::fs::File::try_lock)?.is_some();
    let holder = if is_free { None } else { lock::holder(&database.file) };
    Ok(holder.map_or(LockStatus::Free, |pid| LockStatus::Held { pid, is_stopped: lock::is_stopped(pid) }))
}

/// Holds all that is kept in a state for this number of nanoseconds from now on, in which nothing is booked. With 0,
/// nothing is held any more. Returns whether there is such a state.
///
/// # Errors
/// As for booking.
pub(in crate::store) fn hold(
    state: &State,
    length: u64,
    now: impl Fn() -> Time + Send + 'static,
) -> Result<bool, StoreError> {
    let path = path(state)?;
    let Some(database) = Database::find(&path, &Setting::ours(&path)?)? else { return Ok(false) };
    let policy = Policy::new(&rates(&database)?, Reserve::LOCAL);
    drop(database);
    let mut store = FileStore::open(&path, policy, now)?;
    store.act(b"", |txn, _| txn.set_hold(length).map(|()| Answer::default()))?;
    Ok(true)
}

/// The limits that a state is kept for.
fn rates(database: &Database) -> Result<Vec<Rate>, StoreError> {
    let path: &Path = &database.path;
    let header = Header::read(&database.connection).about(path)?;
    Policy::rates(&header.limits).map_err(|error| bad(path, &format!("its limits cannot be read: {error:#}")))
}
