//! What the tables hold, row by row, each with a checksum: nothing that was altered is used.

use std::ops::Range;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, Error, OptionalExtension, Params, Row, params};

use super::domain::Domain;
use super::refusal::of_sqlite;
use crate::store::StoreError;
use crate::store::ledger::{Account, Ledger, Log};
use crate::time::Time;

/// Instants are nanoseconds since the machine was started. Counts and lists of numbers are big-endian.
pub(super) const SCHEMA: &str = "
CREATE TABLE policy(id INTEGER PRIMARY KEY, text TEXT, generation INTEGER, began INTEGER, silent INTEGER, boot BLOB, namespace INTEGER, sum INTEGER);
CREATE TABLE account(key BLOB PRIMARY KEY, newest INTEGER, turns INTEGER, idle INTEGER, numbers BLOB, sum INTEGER) WITHOUT ROWID;
CREATE TABLE slot(key BLOB, quota INTEGER, unit BLOB, end BLOB, at INTEGER, sum INTEGER, PRIMARY KEY(key, quota, unit)) WITHOUT ROWID;
CREATE TABLE booked(owner TEXT, key BLOB, costs BLOB, until INTEGER, slots BLOB, sum INTEGER, PRIMARY KEY(owner, key, costs)) WITHOUT ROWID;
";

/// Who owns slots that were given back.
const NOBODY: &str = "";

/// The bytes of an [`Account`].
const ACCOUNT: usize = 24;

/// What a state says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// Another one whenever the numbers do not follow from those before.
    pub(super) generation: u64,
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
        let silent = self.silent.map_or(u64::MAX, |at| at.0);
        let numbers = [self.generation, self.began.0, silent, self.domain.namespace];
        sum(&[&bytes(&numbers), &self.domain.boot, self.text.as_bytes()])
    }

    /// Also reads the numbers of `key`, if there are any.
    pub(super) fn read(connection: &Connection, key: &[u8]) -> rusqlite::Result<(Self, Option<Ledger>)> {
        let mut select = connection.prepare_cached(
            "SELECT generation, began, silent, boot, namespace, text, policy.sum, newest, idle, numbers, account.sum, turns \
             FROM policy LEFT JOIN account ON key = ?1 WHERE id = 1",
        )?;
        select.query_row([key], |row| {
            let header = Header {
                generation: number(row, 0)?,
                began: Time(number(row, 1)?),
                silent: row.get::<_, Option<i64>>(2)?.map(|at| Time(at.cast_unsigned())),
                domain: Domain { boot: row.get(3)?, namespace: number(row, 4)? },
                text: row.get(5)?,
            };
            checked(row, 6, header.sum())?;
            let Some(newest) = row.get::<_, Option<i64>>(7)? else { return Ok((header, None)) };
            let numbers: Vec<u8> = row.get(9)?;
            let turns = Time(number(row, 11)?);
            let sums = [header.generation, newest.cast_unsigned(), turns.0, number(row, 8)?];
            checked(row, 10, sum(&[&bytes(&sums), &numbers, key]))?;
            let accounts = numbers.as_chunks::<ACCOUNT>().0.iter().map(account).collect();
            Ok((header, Some(Ledger { newest: Time(newest.cast_unsigned()), turns, accounts })))
        })
    }

    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Domain { boot, namespace } = self.domain;
        let (generation, began) = (self.generation.cast_signed(), self.began.0.cast_signed());
        let silent = self.silent.map(|at| at.0.cast_signed());
        connection.execute(
            "REPLACE INTO policy VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![self.text, generation, began, silent, boot, namespace.cast_signed(), self.sum()],
        )?;
        Ok(())
    }
}

fn account(bytes: &[u8; ACCOUNT]) -> Account {
    let used = bytes.last_chunk().map_or(0, |used| u128::from_be_bytes(*used));
    Account { at: bytes.first_chunk().map_or(0, |at| u64::from_be_bytes(*at)), used }
}

/// The rows of one key.
pub(super) struct KeyRows<'a> {
    connection: &'a Connection,
    path: &'a Path,
    generation: u64,
    key: &'a [u8],
    /// Whether to delete units now. To do so in bulk, once in a while, is cheaper.
    forgets: bool,
    /// The row that was read last: units in succession are mostly in the same.
    read: Option<(usize, Range<u128>, Time)>,
}

impl<'a> KeyRows<'a> {
    pub(super) fn new(connection: &'a Connection, path: &'a Path, generation: u64, key: &'a [u8]) -> Self {
        KeyRows { connection, path, generation, key, forgets: false, read: None }
    }

    /// Has units deleted now, or not.
    pub(super) fn forgetting(self, forgets: bool) -> Self {
        KeyRows { forgets, ..self }
    }

    /// Notes the numbers, which are those of unused limits from `idle` on.
    pub(super) fn write(&self, ledger: &Ledger, idle: Time) -> rusqlite::Result<()> {
        // It is compared in SQL.
        let idle = idle.0.min(i64::MAX.cast_unsigned());
        let account =
            |account: &Account| [&account.at.to_be_bytes()[..], &account.used.to_be_bytes()].concat();
        let numbers: Vec<u8> = ledger.accounts.iter().flat_map(account).collect();
        let sum =
            sum(&[&bytes(&[self.generation, ledger.newest.0, ledger.turns.0, idle]), &numbers, self.key]);
        let (newest, turns) = (ledger.newest.0.cast_signed(), ledger.turns.0.cast_signed());
        let row = params![self.key, newest, turns, idle.cast_signed(), numbers, sum];
        self.execute("REPLACE INTO account VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row)
    }

    /// The slots from `now` on that `owner` has at these costs, earliest first.
    fn slots_of(&self, owner: &str, costs: &[u64], now: Time) -> rusqlite::Result<Vec<u64>> {
        let costs = bytes(costs);
        let select = "SELECT slots, sum FROM booked WHERE owner = ?1 AND key = ?2 AND costs = ?3";
        let mut select = self.connection.prepare_cached(select)?;
        let slots = select.query_row(params![owner, self.key, costs], |row| {
            let slots: Vec<u8> = row.get(0)?;
            checked(row, 1, self.sum_of_slots(owner, &costs, &slots)).map(|()| numbers(&slots))
        });
        let mut slots = slots.optional()?.unwrap_or_default();
        slots.retain(|at| *at >= now.0);
        Ok(slots)
    }

    fn set_slots_of(&self, owner: &str, costs: &[u64], mut slots: Vec<u64>) -> rusqlite::Result<()> {
        let costs = bytes(costs);
        slots.sort_unstable();
        let Some(until) = slots.last() else {
            let delete = "DELETE FROM booked WHERE owner = ?1 AND key = ?2 AND costs = ?3";
            return self.execute(delete, params![owner, self.key, costs]);
        };
        let (until, slots) = (until.cast_signed(), bytes(&slots));
        let sum = self.sum_of_slots(owner, &costs, &slots);
        let row = params![owner, self.key, costs, until, slots, sum];
        self.execute("REPLACE INTO booked VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row)
    }

    fn sum_of_slots(&self, owner: &str, costs: &[u8], slots: &[u8]) -> u32 {
        sum(&[&bytes(&[self.generation, slots.len() as u64]), slots, costs, owner.as_bytes(), self.key])
    }

    /// Notes whose slots they are.
    pub(super) fn own(
        &self,
        owner: &str,
        costs: &[u64],
        slots: impl Iterator<Item = Time>,
        now: Time,
    ) -> rusqlite::Result<()> {
        let mut all = self.slots_of(owner, costs, now)?;
        all.extend(slots.map(|at| at.0));
        self.set_slots_of(owner, costs, all)
    }

    /// Notes that they are not its any more. Returns those that were.
    pub(super) fn disown(
        &self,
        owner: &str,
        costs: &[u64],
        slots: impl Iterator<Item = Time>,
        now: Time,
    ) -> rusqlite::Result<Vec<Time>> {
        let mut all = self.slots_of(owner, costs, now)?;
        let mut take = |slot: &Time| all.iter().position(|at| *at == slot.0).map(|at| all.remove(at));
        let slots = slots.filter(|slot| take(slot).is_some()).collect();
        self.set_slots_of(owner, costs, all).map(|()| slots)
    }

    fn sum_of_unit(&self, limit: usize, units: &Range<u128>, at: Time) -> u32 {
        let units = [units.start.to_be_bytes(), units.end.to_be_bytes()];
        sum(&[&bytes(&[self.generation, limit as u64, at.0]), units.as_flattened(), self.key])
    }

    fn unit(&mut self, limit: usize, unit: u128) -> rusqlite::Result<Time> {
        if let Some((of, units, at)) = &self.read
            && *of == limit
            && units.contains(&unit)
        {
            return Ok(*at);
        }
        let (units, at) = self.read_unit(limit, unit)?;
        self.read = Some((limit, units, at));
        Ok(at)
    }

    fn read_unit(&self, limit: usize, unit: u128) -> rusqlite::Result<(Range<u128>, Time)> {
        let mut select = self.connection.prepare_cached(
            "SELECT unit, end, at, sum FROM slot WHERE key = ?1 AND quota = ?2 AND unit <= ?3 \
             ORDER BY unit DESC LIMIT 1",
        )?;
        select.query_row(params![self.key, limit.cast_signed(), unit.to_be_bytes()], |row| {
            let units = u128::from_be_bytes(row.get(0)?)..u128::from_be_bytes(row.get(1)?);
            let at = Time(number(row, 2)?);
            checked(row, 3, self.sum_of_unit(limit, &units, at))?;
            // Or else the row that it should be has been taken away.
            if units.contains(&unit) { Ok((units, at)) } else { Err(Error::QueryReturnedNoRows) }
        })
    }

    fn execute(&self, statement: &str, row: impl Params) -> rusqlite::Result<()> {
        self.connection.prepare_cached(statement)?.execute(row).map(drop)
    }

    fn told<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| of_sqlite(self.path, &error))
    }
}

impl Log for KeyRows<'_> {
    fn used_at(&mut self, limit: usize, unit: u128) -> Result<Time, StoreError> {
        let at = self.unit(limit, unit);
        self.told(at)
    }

    fn note(&mut self, limit: usize, units: Range<u128>, at: Time) -> Result<(), StoreError> {
        self.read = None;
        let sum = self.sum_of_unit(limit, &units, at);
        let (first, end) = (units.start.to_be_bytes(), units.end.to_be_bytes());
        let row = params![self.key, limit.cast_signed(), first, end, at.0.cast_signed(), sum];
        self.told(self.execute("REPLACE INTO slot VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row))
    }

    fn forget(&mut self, limit: usize, unit: u128) -> Result<(), StoreError> {
        if !self.forgets {
            return Ok(());
        }
        let delete = "DELETE FROM slot WHERE key = ?1 AND quota = ?2 AND unit < ?3 AND end <= ?3";
        self.told(self.execute(delete, params![self.key, limit.cast_signed(), unit.to_be_bytes()]))
    }

    fn put_back(&mut self, costs: &[u64], slots: &[Time], now: Time) -> Result<(), StoreError> {
        self.told(self.own(NOBODY, costs, slots.iter().copied(), now))
    }

    fn take_back(&mut self, costs: &[u64], most: usize, now: Time) -> Result<Vec<Time>, StoreError> {
        let take = || {
            let mut slots = self.slots_of(NOBODY, costs, now)?;
            if slots.is_empty() {
                return Ok(Vec::new());
            }
            let rest = slots.split_off(most.min(slots.len()));
            self.set_slots_of(NOBODY, costs, rest)?;
            Ok(slots.into_iter().map(Time).collect())
        };
        self.told(take())
    }
}

/// Slots of one process.
pub(super) struct Booking {
    pub(super) owner: String,
    pub(super) key: Vec<u8>,
    pub(super) costs: Vec<u64>,
    pub(super) slots: Vec<u64>,
}

/// All slots from `now` on that somebody owns. The others are forgotten.
pub(super) fn bookings(connection: &Connection, now: Time) -> rusqlite::Result<Vec<Booking>> {
    connection.execute("DELETE FROM booked WHERE until < ?1", [now.0.cast_signed()])?;
    let mut select =
        connection.prepare_cached("SELECT owner, key, costs, slots FROM booked WHERE owner <> ''")?;
    let booking = |row: &Row<'_>| {
        let (costs, slots): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
        let (costs, slots) = (numbers(&costs), numbers(&slots));
        Ok(Booking { owner: row.get(0)?, key: row.get(1)?, costs, slots })
    };
    select.query_map([], booking)?.collect()
}

/// All keys.
pub(super) fn keys(connection: &Connection) -> rusqlite::Result<Vec<Vec<u8>>> {
    connection.prepare("SELECT key FROM account")?.query_map([], |row| row.get(0))?.collect()
}

/// When the last slot is that was given out.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<Time> {
    let newest: Value = connection.query_row("SELECT max(newest) FROM account", [], |row| row.get(0))?;
    Ok(if let Value::Integer(newest) = newest { Time(newest.cast_unsigned()) } else { Time::ZERO })
}

/// Forgets the keys that are idle at `now`: they are as good as new.
pub(super) fn evict(connection: &Connection, now: Time) -> rusqlite::Result<()> {
    let mut delete =
        connection.prepare("DELETE FROM account WHERE idle <= ?1 AND key <> x'' RETURNING key")?;
    let keys: Vec<Vec<u8>> =
        delete.query_map([now.0.cast_signed()], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut delete = connection.prepare("DELETE FROM slot WHERE key = ?1")?;
    keys.iter().try_for_each(|key| delete.execute([key]).map(drop))
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
