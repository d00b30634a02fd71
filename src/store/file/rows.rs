//! What the tables hold, row by row, each with a checksum: nothing that was altered is used.

use std::ops::Range;
use std::path::Path;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, OptionalExtension, Row, params};

use super::domain::Domain;
use super::owner::Owner;
use super::refusal::of_sqlite;
use crate::store::StoreError;
use crate::store::ledger::{Account, Ledger, Log};
use crate::time::Time;

/// What a state says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// Counts the bookings. It never goes back, unless the state does.
    pub(super) sequence: u64,
    /// Another one whenever the numbers do not follow from those before.
    pub(super) generation: u64,
    /// The numbers were made up by someone who knew of others that were lost, with a silence to make good for it.
    pub(super) is_successor: bool,
    /// When there was nothing yet. What it took the place of, if anything, was gone by then.
    pub(super) began: Time,
    /// If something was lost: all limits, of whatever key, count as used up then.
    pub(super) silent: Option<Time>,
    /// Whose clock the instants are on.
    pub(super) domain: Domain,
    /// The limits in words.
    pub(super) text: String,
}

impl Header {
    fn sum(&self) -> u32 {
        let numbers = [
            self.sequence,
            self.generation,
            self.is_successor.into(),
            self.began.0,
            self.silent.is_some().into(),
            self.silent.unwrap_or_default().0,
            self.domain.namespace,
        ];
        sum(&[&bytes(&numbers), &self.domain.boot, self.text.as_bytes()])
    }

    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut select = connection.prepare_cached(
            "SELECT sequence, generation, successor, began, silent, boot, namespace, text, sum FROM policy WHERE id = 1",
        )?;
        select.query_row([], |row| {
            let header = Header {
                sequence: number(row, 0)?,
                generation: number(row, 1)?,
                is_successor: row.get(2)?,
                began: Time(number(row, 3)?),
                silent: row.get::<_, Option<i64>>(4)?.map(|at| Time(at.cast_unsigned())),
                domain: Domain { boot: row.get(5)?, namespace: number(row, 6)? },
                text: row.get(7)?,
            };
            checked(row, 8, header.sum()).map(|()| header)
        })
    }

    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut replace = connection.prepare_cached(
            "REPLACE INTO policy(id, sequence, generation, successor, began, silent, boot, namespace, text, sum) \
             VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        let silent = self.silent.map(|at| at.0.cast_signed());
        replace.execute(params![
            self.sequence.cast_signed(),
            self.generation.cast_signed(),
            self.is_successor,
            self.began.0.cast_signed(),
            silent,
            self.domain.boot,
            self.domain.namespace.cast_signed(),
            self.text,
            self.sum(),
        ])?;
        Ok(())
    }
}

/// The rows of one key.
pub(super) struct KeyRows<'a> {
    pub(super) connection: &'a Connection,
    pub(super) path: &'a Path,
    pub(super) generation: u64,
    pub(super) key: &'a [u8],
}

impl KeyRows<'_> {
    /// The numbers of its limits, if there are any.
    pub(super) fn ledger(&self) -> rusqlite::Result<Option<Ledger>> {
        let mut select = self.connection.prepare_cached(
            "SELECT newest, idle, at, used, quota, sum FROM account WHERE key = ?1 ORDER BY quota",
        )?;
        let mut rows = select.query([self.key])?;
        let (mut newest, mut accounts) = (Time::ZERO, Vec::new());
        while let Some(row) = rows.next()? {
            newest = Time(number(row, 0)?);
            let account = Account { at: number(row, 2)?, used: row.get::<_, Unit>(3)?.0 };
            let limit = accounts.len();
            checked(row, 5, self.account_sum(limit, newest, number(row, 1)?, account))?;
            accounts.push(account);
        }
        Ok(Some(Ledger { newest, accounts: accounts.into() }).filter(|ledger| !ledger.accounts.is_empty()))
    }

    /// Notes the numbers, which are those of unused limits from `idle` on.
    pub(super) fn write(&self, ledger: &Ledger, idle: Time) -> rusqlite::Result<()> {
        let mut replace = self.connection.prepare_cached(
            "REPLACE INTO account(key, quota, newest, idle, at, used, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        // It is compared in SQL.
        let idle = idle.0.min(i64::MAX.cast_unsigned());
        for (limit, &account) in ledger.accounts.iter().enumerate() {
            replace.execute(params![
                self.key,
                limit.cast_signed(),
                ledger.newest.0.cast_signed(),
                idle.cast_signed(),
                account.at.cast_signed(),
                Unit(account.used),
                self.account_sum(limit, ledger.newest, idle, account),
            ])?;
        }
        Ok(())
    }

    /// As though the key had never been used.
    pub(super) fn remove(&self) -> rusqlite::Result<()> {
        for table in ["account", "slot", "returned"] {
            self.connection.execute(&format!("DELETE FROM {table} WHERE key = ?1"), [self.key])?;
        }
        Ok(())
    }

    fn account_sum(&self, limit: usize, newest: Time, idle: u64, account: Account) -> u32 {
        let numbers = [self.generation, limit as u64, newest.0, idle, account.at];
        sum(&[&bytes(&numbers), &account.used.to_be_bytes(), self.key])
    }

    fn slot_sum(&self, limit: usize, units: &Range<u128>, at: Time) -> u32 {
        let numbers = [self.generation, limit as u64, at.0];
        sum(&[&bytes(&numbers), &units.start.to_be_bytes(), &units.end.to_be_bytes(), self.key])
    }

    /// How many slots at an instant were given back.
    fn set_returned(&self, costs: &[u8], at: Time, many: u64) -> rusqlite::Result<()> {
        if many == 0 {
            let delete = "DELETE FROM returned WHERE key = ?1 AND costs = ?2 AND at = ?3";
            let mut delete = self.connection.prepare_cached(delete)?;
            return delete.execute(params![self.key, costs, at.0.cast_signed()]).map(drop);
        }
        let replace = "REPLACE INTO returned(key, costs, at, many, sum) VALUES (?1, ?2, ?3, ?4, ?5)";
        let sum = self.returned_sum(costs, at, many);
        let row = params![self.key, costs, at.0.cast_signed(), many.cast_signed(), sum];
        self.connection.prepare_cached(replace)?.execute(row).map(drop)
    }

    /// The earliest instant from `since` on of which a slot was given back, and how many of them were.
    fn first_returned(&self, costs: &[u8], since: Time) -> rusqlite::Result<Option<(Time, u64)>> {
        let mut select = self.connection.prepare_cached(
            "SELECT at, many, sum FROM returned WHERE key = ?1 AND costs = ?2 AND at >= ?3 ORDER BY at LIMIT 1",
        )?;
        let first = select.query_row(params![self.key, costs, since.0.cast_signed()], |row| {
            let (at, many) = (Time(number(row, 0)?), number(row, 1)?);
            checked(row, 2, self.returned_sum(costs, at, many)).map(|()| (at, many))
        });
        first.optional()
    }

    fn returned_sum(&self, costs: &[u8], at: Time, many: u64) -> u32 {
        sum(&[&bytes(&[self.generation, at.0, many]), costs, self.key])
    }

    /// Forgets what was given back, as instants before `now` are of no use.
    pub(super) fn forget_returned(&self, now: Time) -> rusqlite::Result<()> {
        let delete = "DELETE FROM returned WHERE key = ?1 AND at < ?2";
        self.connection.prepare_cached(delete)?.execute(params![self.key, now.0.cast_signed()]).map(drop)
    }

    fn slot_of(&self, limit: usize, unit: u128) -> rusqlite::Result<Time> {
        let mut select = self.connection.prepare_cached(
            "SELECT unit, end, at, sum FROM slot WHERE key = ?1 AND quota = ?2 AND unit <= ?3 \
             ORDER BY unit DESC LIMIT 1",
        )?;
        select.query_row(params![self.key, limit.cast_signed(), Unit(unit)], |row| {
            let units = row.get::<_, Unit>(0)?.0..row.get::<_, Unit>(1)?.0;
            let at = Time(number(row, 2)?);
            checked(row, 3, self.slot_sum(limit, &units, at))?;
            // Or else the row that it should be has been taken away.
            if units.contains(&unit) { Ok(at) } else { Err(Error::QueryReturnedNoRows) }
        })
    }
}

impl Log for KeyRows<'_> {
    fn used_at(&mut self, limit: usize, unit: u128) -> Result<Time, StoreError> {
        self.slot_of(limit, unit).map_err(|error| of_sqlite(self.path, &error))
    }

    fn note(&mut self, limit: usize, units: Range<u128>, at: Time) -> Result<(), StoreError> {
        let insert = || -> rusqlite::Result<usize> {
            let mut insert = self.connection.prepare_cached(
                "REPLACE INTO slot(key, quota, unit, end, at, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            let sum = self.slot_sum(limit, &units, at);
            let (first, end) = (Unit(units.start), Unit(units.end));
            insert.execute(params![self.key, limit.cast_signed(), first, end, at.0.cast_signed(), sum])
        };
        insert().map(drop).map_err(|error| of_sqlite(self.path, &error))
    }

    fn forget(&mut self, limit: usize, unit: u128) -> Result<(), StoreError> {
        let delete = || -> rusqlite::Result<usize> {
            let mut delete = self.connection.prepare_cached(
                "DELETE FROM slot WHERE key = ?1 AND quota = ?2 AND unit < ?3 AND end <= ?3",
            )?;
            delete.execute(params![self.key, limit.cast_signed(), Unit(unit)])
        };
        delete().map(drop).map_err(|error| of_sqlite(self.path, &error))
    }

    fn put_back(&mut self, costs: &[u64], at: Time) -> Result<(), StoreError> {
        let costs = bytes(costs);
        let put = || {
            let known = self.first_returned(&costs, at)?.filter(|(known, _)| *known == at);
            self.set_returned(&costs, at, 1 + known.map_or(0, |(_, many)| many))
        };
        put().map_err(|error: Error| of_sqlite(self.path, &error))
    }

    fn take_back(&mut self, costs: &[u64], since: Time) -> Result<Option<Time>, StoreError> {
        let costs = bytes(costs);
        let take = || {
            let Some((at, many)) = self.first_returned(&costs, since)? else { return Ok(None) };
            self.set_returned(&costs, at, many - 1).map(|()| Some(at))
        };
        take().map_err(|error: Error| of_sqlite(self.path, &error))
    }
}

/// Some of the keys that are idle at `now`.
pub(super) fn idle_keys(connection: &Connection, now: Time) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut select = connection
        .prepare("SELECT key FROM account GROUP BY key HAVING max(idle) <= ?1 AND key <> x'' LIMIT 10000")?;
    select.query_map([now.0.cast_signed()], |row| row.get(0))?.collect()
}

/// All keys.
pub(super) fn keys(connection: &Connection) -> rusqlite::Result<Vec<Vec<u8>>> {
    connection.prepare("SELECT DISTINCT key FROM account")?.query_map([], |row| row.get(0))?.collect()
}

/// Forgets all keys.
pub(super) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute_batch("DELETE FROM account; DELETE FROM slot; DELETE FROM returned; DELETE FROM booked")
}

/// Slots of one process that were booked together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Booked {
    pub(super) id: u64,
    pub(super) owner: Owner,
    pub(super) key: Vec<u8>,
    pub(super) costs: Vec<u64>,
    /// Earliest first.
    pub(super) slots: Vec<u64>,
}

impl Booked {
    fn until(&self) -> i64 {
        self.slots.last().copied().unwrap_or(0).cast_signed()
    }

    fn sum(&self, generation: u64) -> u32 {
        let Owner { pid, started, namespace } = self.owner;
        let numbers = [generation, self.id, pid.into(), started, namespace, self.slots.len() as u64];
        sum(&[&bytes(&numbers), &bytes(&self.slots), &bytes(&self.costs), &self.key])
    }

    pub(super) fn insert(&self, connection: &Connection, generation: u64) -> rusqlite::Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO booked(until, id, pid, started, namespace, key, costs, slots, sum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        let Owner { pid, started, namespace } = self.owner;
        let (started, namespace) = (started.cast_signed(), namespace.cast_signed());
        let (costs, slots) = (bytes(&self.costs), bytes(&self.slots));
        let sum = self.sum(generation);
        let id = self.id.cast_signed();
        insert.execute(params![self.until(), id, pid, started, namespace, self.key, costs, slots, sum])?;
        Ok(())
    }

    pub(super) fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut delete = connection.prepare_cached("DELETE FROM booked WHERE until = ?1 AND id = ?2")?;
        delete.execute(params![self.until(), self.id.cast_signed()]).map(drop)
    }

    /// All that end after `now`. Those that do not are forgotten.
    pub(super) fn all(connection: &Connection, generation: u64, now: Time) -> rusqlite::Result<Vec<Self>> {
        Self::forget(connection, now)?;
        let mut select = connection.prepare_cached(
            "SELECT id, pid, started, namespace, key, costs, slots, sum FROM booked ORDER BY until, id",
        )?;
        let read = |row: &Row<'_>| {
            let owner = Owner { pid: row.get(1)?, started: number(row, 2)?, namespace: number(row, 3)? };
            let (costs, slots) = (numbers(&row.get::<_, Vec<u8>>(5)?), numbers(&row.get::<_, Vec<u8>>(6)?));
            let booked = Booked { id: number(row, 0)?, owner, key: row.get(4)?, costs, slots };
            checked(row, 7, booked.sum(generation)).map(|()| booked)
        };
        select.query_map([], read)?.collect()
    }

    pub(super) fn forget(connection: &Connection, now: Time) -> rusqlite::Result<()> {
        let mut delete = connection.prepare_cached("DELETE FROM booked WHERE until < ?1")?;
        delete.execute([now.0.cast_signed()]).map(drop)
    }
}

/// A count of units, which sorts as a number.
struct Unit(u128);

impl ToSql for Unit {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.to_be_bytes().to_vec().into())
    }
}

impl FromSql for Unit {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?.try_into().map_err(|_| FromSqlError::InvalidType)?;
        Ok(Unit(u128::from_be_bytes(bytes)))
    }
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|number| u64::from_be_bytes(*number)).collect()
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn sum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// # Errors
/// The row is not as it was written.
fn checked(row: &Row<'_>, column: usize, sum: u32) -> rusqlite::Result<()> {
    if row.get::<_, i64>(column)? == i64::from(sum) { Ok(()) } else { Err(Error::InvalidQuery) }
}
