//! How much of the limits in a state is used, without using any of it: by booking in a copy of its rows.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::lock::Lock;
use super::refusal::{Fault, bad};
use super::tables::{Header, SCHEMA};
use super::visit::Visit;
use super::{FileStore, Setting, database, files, holder, owner, path};
use crate::charge::Key;
use crate::config::{Rate, State};
use crate::store::ledger::{BookingRules, NOBODY};
use crate::store::status::{self, MOST_KEYS};
use crate::store::{Answer, LimitStatus, Order, Policy, Reserve, Status, StoreError};
use crate::time::{Time, Wall, shown};

/// So many free slots are counted of a limit, at most.
const MOST_COUNTED: u64 = 1_000_000;

/// The status of a state, as of `now`; `None` if there is none. Nothing is booked or written.
///
/// # Errors
/// It is damaged, or not to be trusted.
pub(in crate::store) fn status(state: &State, now: Time) -> Result<Option<Status>, StoreError> {
    let path = path(state)?;
    let setting = Setting::ours(&path)?;
    let Some((path, file)) = files::locate(&path)? else { return Ok(None) };
    let file = Arc::new(file);
    // To read takes no lock. Who has it is told because all others wait for it.
    let holder = match Lock::at_once(&path, &file, File::try_lock)? {
        Some(_) => None,
        None => holder::holder(&file),
    };
    let held_by = |pid| status::Lock::Held { pid, is_stopped: holder::is_stopped(pid) };
    let lock = Some(holder.map_or(status::Lock::Free, held_by));
    let told = |fault: Fault| fault.of(&path);
    let connection = database::connect(&path, &file, &setting)?;
    copy(&connection, now).map_err(|error| told(error.into()))?;
    database::checkpoint_on_close(&connection);
    let rates = rates(&path, &connection)?;
    let mut rules = BookingRules::new(Policy::new(&rates, Reserve::LOCAL));
    rules.set_wall(Wall::new(now, shown()));
    let visit = |look: &mut dyn FnMut(&mut Visit<'_>) -> Result<Answer, Fault>| {
        // Rolled back.
        let transaction = connection.unchecked_transaction()?;
        let mut visit = Visit::begin(&transaction, &path, &rules, b"", (now, false))?;
        visit.carry_over_restart(&setting.domain)?;
        visit.inherit(|owner| owner::has_ended(&file, owner), || now);
        look(&mut visit)
    };
    let (mut held, mut last_turn) = (Vec::new(), None);
    let take = &mut |visit: &mut Visit<'_>| {
        let turns = visit.take_holds(&mut held)?;
        last_turn = Some(turns.since(now)).filter(|turn| *turn > rules.policy().horizon);
        Ok(Answer::default())
    };
    visit(take).map_err(told)?;
    let book = |order: &Order| {
        visit(&mut |visit| {
            visit.take_holds(&mut Vec::new())?;
            visit.book(order, NOBODY)
        })
    };
    let limit = |at: usize| limit_status(rules.policy(), &rates, at, now, book).map_err(told);
    let limits = (0..rates.len()).map(limit).collect::<Result<_, _>>()?;
    let held = held.into_iter().map(|(key, until)| (key, until.since(now))).collect();
    Ok(Some(Status { limits, held, last_turn, lock }))
}

/// Holds all that is kept in a state for so many nanoseconds from now on, in which nothing is booked. With 0, nothing is held
/// any more. Returns whether there is such a state.
///
/// # Errors
/// As for booking.
pub(in crate::store) fn hold(
    state: &State,
    length: u64,
    now: impl Fn() -> Time + Send + 'static,
) -> Result<bool, StoreError> {
    let path = path(state)?;
    let Some((_, file)) = files::locate(&path)? else { return Ok(false) };
    let connection = database::connect(&path, &Arc::new(file), &Setting::ours(&path)?)?;
    let rates = rates(&path, &connection)?;
    drop(connection);
    let mut store = FileStore::open(&path, Policy::new(&rates, Reserve::LOCAL), now)?;
    store.act(b"", |visit, _| visit.set_hold(length).map(|()| Answer::default()))?;
    Ok(true)
}

/// The limits that a state is kept for.
fn rates(path: &Path, connection: &Connection) -> Result<Vec<Rate>, StoreError> {
    let header = Header::read(connection).map_err(|error| Fault::from(error).of(path))?;
    Policy::rates(&header.limits).map_err(|error| bad(path, &format!("its limits cannot be read: {error:#}")))
}

/// Hides the tables behind temporary ones, which have what is kept without a key or is held, all of it as of one moment.
fn copy(connection: &Connection, now: Time) -> rusqlite::Result<()> {
    let now = now.0;
    let tables = SCHEMA.replace("CREATE TABLE", "CREATE TEMP TABLE");
    connection.execute_batch(&format!(
        "PRAGMA temp_store = MEMORY; BEGIN; {tables} INSERT INTO temp.policy SELECT * FROM main.policy; \
         INSERT INTO temp.account SELECT * FROM main.account WHERE key = x''; \
         INSERT INTO temp.account SELECT * FROM main.account WHERE key <> x'' AND ledger ->> '$.hold.until' > {now} \
         LIMIT {MOST_KEYS}; INSERT INTO temp.slot SELECT * FROM main.slot WHERE key = x''; COMMIT"
    ))
}

fn limit_status(
    policy: &Policy,
    rates: &[Rate],
    at: usize,
    now: Time,
    book: impl Fn(&Order) -> Result<Answer, Fault>,
) -> Result<LimitStatus, Fault> {
    let capacity = policy.quotas[at].at_once();
    let costs: Vec<_> = (0..rates.len()).map(|other| u64::from(other == at)).collect();
    // The one more is the next slot.
    let count = capacity.min(MOST_COUNTED) + 1;
    let answer = book(&Order::new(Key::new(), costs, count))?;
    let due = answer.slots.iter().take_while(|slot| slot.at <= now).count() as u64;
    let next = match answer.slots.iter().map(|slot| slot.at).find(|at| *at > now) {
        Some(next) => next,
        // Beyond the horizon, it is not said how far.
        None => Time(answer.ask_again.unwrap_or(now).0.saturating_add(policy.horizon)),
    };
    let next_in = if due > 0 { 0 } else { next.since(now) };
    // At hours at which it is not asked, there is no end of them.
    Ok(LimitStatus { rate: rates[at].clone(), capacity, free: due.min(capacity), next_in })
}
