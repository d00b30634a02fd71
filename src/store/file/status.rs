//! How much of the limits in a state is used, without using any of it: by booking in a copy of it.

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::database::Database;
use super::lock::{self, Lock, NoLock};
use super::refusal::{bad, no_lock, of_sqlite};
use super::rows::Header;
use super::visit::Visit;
use super::{Setting, owner, path};
use crate::charge::Key;
use crate::config::{Algorithm, Rate, State};
use crate::store::ledger::BookingRules;
use crate::store::{LimitStatus, Order, Policy, Reserve, Status, StoreError};
use crate::time::Time;

/// So many free slots are counted of a limit, at most.
const MOST_COUNTED: u64 = 1_000_000;

/// The status of a state, as of `now`; `None` if there is none. Nothing is booked or written.
///
/// # Errors
/// It is damaged, or not to be trusted.
pub(in crate::store) fn status(state: &State, now: Time) -> Result<Option<Status>, StoreError> {
    let path = path(state)?;
    let setting = Setting::ours(&path)?;
    let Some(database) = Database::find(&path)? else { return Ok(None) };
    // To read takes no lock. Who has it is told because all others wait for it.
    let holder = match Lock::at_once(database.file()) {
        Ok(_) => None,
        Err(NoLock::Held) => lock::holder(database.file()).map(|pid| (pid, owner::is_stopped(pid))),
        Err(why) => return Err(no_lock(&path, database.file(), setting.patience, why)),
    };
    let copy = copy(&database, setting)?;
    let text = Header::read(&copy, b"").map_err(|error| of_sqlite(&path, &error))?.0.text;
    let rates = Policy::rates(&text);
    let rates = rates.map_err(|error| bad(&path, &format!("its limits cannot be read: {error:#}")))?;
    let rules = BookingRules::new(Policy::new(&rates, Reserve::LOCAL));
    let mut visit = Visit::begin(&copy, &path, &rules, b"", now).map_err(|error| of_sqlite(&path, &error))?;
    visit.carry_over_restart(setting.domain)?;
    let limit = |at: usize| limit_status(&visit, at, &rates);
    let limits = (0..rates.len()).map(limit).collect::<Result<_, _>>()?;
    Ok(Some(Status { limits, holder }))
}

/// What is in the database, in memory.
fn copy(database: &Database, setting: Setting) -> Result<Connection, StoreError> {
    let original = database.connect(setting.patience)?;
    let copied = || {
        let mut copy = Connection::open_in_memory()?;
        // All of it in one step, so that it is as of one moment.
        let is_whole = Backup::new(&original, &mut copy)?.step(-1)? == StepResult::Done;
        if is_whole { Ok(copy) } else { Err(rusqlite::Error::QueryReturnedNoRows) }
    };
    copied().map_err(|error| of_sqlite(database.path(), &error))
}

fn limit_status(visit: &Visit<'_>, at: usize, rates: &[Rate]) -> Result<LimitStatus, StoreError> {
    let (now, policy) = (visit.now, visit.rules.policy());
    let capacity = match rates[at].algorithm {
        Algorithm::Interval => 1,
        _ => policy.quotas[at].most(),
    };
    let costs = (0..rates.len()).map(|other| u64::from(other == at)).collect();
    // The one more is the next slot.
    let count = capacity.min(MOST_COUNTED) + 1;
    let answer = visit.preview(&Order { key: Key::new(), costs, count, waits: true, turn: None })?;
    let free = answer.slots.iter().take_while(|slot| slot.at <= now).count() as u64;
    let next = match answer.slots.iter().map(|slot| slot.at).find(|at| *at > now) {
        Some(next) => next,
        // Beyond the horizon, it is not said how far.
        None => Time(answer.ask_again.unwrap_or(now).0.saturating_add(policy.horizon)),
    };
    let next_in = if free > 0 { 0 } else { next.since(now) };
    Ok(LimitStatus { rate: rates[at].clone(), capacity, free, next_in })
}
