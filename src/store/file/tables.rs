//! The tables. Each row has a checksum, and no row of the log may be missing: altered data is never used.

use std::ops::Range;

use rusqlite::{Connection, Error, OptionalExtension, Result, Row, params};
use serde::{Deserialize, Serialize};

use super::machine::ClockOrigin;
use crate::store::Hold;
use crate::store::ledger::{Ledger, UnitLog};
use crate::time::{Time, Wall};

/// Everything but numbers is JSON, for anyone who looks into it. Instants are nanoseconds since boot; units are
/// big-endian.
pub(super) const SCHEMA: &str = "
CREATE TABLE policy(id INTEGER PRIMARY KEY, header TEXT, sum INTEGER);
CREATE TABLE account(key BLOB PRIMARY KEY, idle INTEGER, ledger TEXT, sum INTEGER) WITHOUT ROWID;
CREATE TABLE slot(key BLOB, quota INTEGER, unit BLOB, end BLOB, at INTEGER, sum INTEGER, \
  PRIMARY KEY(key, quota, unit)) WITHOUT ROWID;
";

/// A state's description of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// The limits in words.
    pub(super) limits: String,
    /// Changes whenever the numbers do not follow from those before.
    pub(super) generation: u64,
    /// The instant at which there was nothing yet. The state that it replaced, if any, was gone by then.
    pub(super) began: Time,
    /// If something was lost, the instant at which all limits, of whatever key, count as used up.
    pub(super) silent: Option<Time>,
    /// A hold of all keys.
    pub(super) hold: Hold,
    /// The wall clock by which all slots are booked, if any are.
    pub(super) wall: Wall,
    /// What it showed when the last of the keys that were evicted became idle.
    pub(super) evicted: Time,
    /// The clock of all instants.
    #[serde(rename = "domain")]
    pub(super) clock: ClockOrigin,
}

impl Header {
    pub(super) fn read(connection: &Connection) -> Result<Self> {
        let mut select = connection.prepare_cached("SELECT header, sum FROM policy WHERE id = 1")?;
        select.query_row([], |row| document(row, &[]))
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<()> {
        let header = text(self)?;
        let mut replace = connection.prepare_cached("REPLACE INTO policy VALUES (1, ?1, ?2)")?;
        replace.execute(params![header, sum(&[header.as_bytes()])]).map(drop)
    }
}

pub(super) struct KeyRows<'a> {
    pub(super) connection: &'a Connection,
    pub(super) key: &'a [u8],
    /// Distinguishes the checksums of this key's rows from those of others that are alike.
    salt: Vec<u8>,
    /// True if units are deleted now. It is cheaper to do so in bulk, once in a while.
    pub(super) forgets: bool,
    /// The row of the log that was read last: successive units are mostly in the same row.
    last: Option<(usize, Range<u128>, Time)>,
}

impl<'a> KeyRows<'a> {
    pub(super) fn new(connection: &'a Connection, generation: u64, key: &'a [u8], forgets: bool) -> Self {
        let salt = [&generation.to_be_bytes(), key].concat();
        KeyRows { connection, key, salt, forgets, last: None }
    }

    pub(super) fn ledger(&self) -> Result<Option<Ledger>> {
        let select = "SELECT ledger, sum, idle FROM account WHERE key = ?1";
        let mut select = self.connection.prepare_cached(select)?;
        let read = |row: &Row<'_>| document(row, &[&self.salt, &row.get::<_, i64>(2)?.to_be_bytes()]);
        select.query_row([self.key], read).optional()
    }

    /// Stores the numbers, which from `idle` on equal those of unused limits.
    pub(super) fn set_ledger(&self, ledger: &Ledger, idle: Time) -> Result<()> {
        let (ledger, idle) = (text(ledger)?, idle.0.min(i64::MAX.cast_unsigned()).cast_signed());
        let sum = sum(&[ledger.as_bytes(), &self.salt, &idle.to_be_bytes()]);
        let mut replace = self.connection.prepare_cached("REPLACE INTO account VALUES (?1, ?2, ?3, ?4)")?;
        replace.execute(params![self.key, idle, ledger, sum]).map(drop)
    }

    fn row_of(&self, limit: usize, unit: u128) -> Result<(usize, Range<u128>, Time)> {
        let mut select = self.connection.prepare_cached(
            "SELECT at, sum, unit, end FROM slot WHERE key = ?1 AND quota = ?2 AND unit <= ?3 \
             ORDER BY unit DESC LIMIT 1",
        )?;
        select.query_row(params![self.key, limit.cast_signed(), unit.to_be_bytes()], |row| {
            let units = u128::from_be_bytes(row.get(2)?)..u128::from_be_bytes(row.get(3)?);
            let at: i64 = row.get(0)?;
            checked(row, self.sum_of(limit, &units, at))?;
            // Otherwise, the right row has been removed.
            let is_it = units.contains(&unit);
            if is_it { Ok((limit, units, Time(at.cast_unsigned()))) } else { Err(Error::QueryReturnedNoRows) }
        })
    }

    fn sum_of(&self, limit: usize, units: &Range<u128>, at: i64) -> u32 {
        let units = [units.start.to_be_bytes(), units.end.to_be_bytes()];
        // 32-bit processes check the same bytes.
        let limit = (limit as u64).to_be_bytes();
        sum(&[&self.salt, &limit, units.as_flattened(), &at.to_be_bytes()])
    }
}

impl UnitLog for KeyRows<'_> {
    fn used_at(&mut self, limit: usize, unit: u128) -> anyhow::Result<Time> {
        let is_it = |(of, units, _): &(usize, Range<u128>, Time)| *of == limit && units.contains(&unit);
        let last = self.last.take().filter(is_it);
        let row = last.map_or_else(|| self.row_of(limit, unit), Ok)?;
        Ok(self.last.insert(row).2)
    }

    fn record(&mut self, limit: usize, units: Range<u128>, at: Time) -> anyhow::Result<()> {
        self.last = None;
        let at = at.0.cast_signed();
        let sum = self.sum_of(limit, &units, at);
        let (unit, end) = (units.start.to_be_bytes(), units.end.to_be_bytes());
        let mut replace =
            self.connection.prepare_cached("REPLACE INTO slot VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        replace.execute(params![self.key, limit.cast_signed(), unit, end, at, sum])?;
        Ok(())
    }

    fn forget(&mut self, limit: usize, unit: u128) -> anyhow::Result<()> {
        if self.forgets && unit > 0 {
            let delete = "DELETE FROM slot WHERE key = ?1 AND quota = ?2 AND unit < ?3 AND end <= ?3";
            let mut delete = self.connection.prepare_cached(delete)?;
            delete.execute(params![self.key, limit.cast_signed(), unit.to_be_bytes()])?;
        }
        Ok(())
    }
}

/// All keys; or those that are not idle, and so perhaps held, at `now`.
pub(super) fn keys(connection: &Connection, now: Option<Time>) -> Result<Vec<Vec<u8>>> {
    let mut select =
        connection.prepare("SELECT key FROM account WHERE ifnull(idle > ?1, TRUE) ORDER BY key")?;
    select.query_map([now.map(|now| now.0.cast_signed())], |row| row.get(0))?.collect()
}

/// The instant of the last slot that was given out.
pub(super) fn newest(connection: &Connection) -> Result<Time> {
    let newest = "SELECT ifnull(max(ledger ->> 'newest'), 0) FROM account";
    connection.query_row(newest, [], |row| row.get(0)).map(|at: i64| Time(at.cast_unsigned()))
}

/// Evicts the keys that are idle at `now`: they equal new ones. Returns the instant at which the last one became idle.
pub(super) fn evict(connection: &Connection, now: Time) -> Result<Option<Time>> {
    let mut delete =
        connection.prepare("DELETE FROM account WHERE idle <= ?1 AND key <> x'' RETURNING key, idle")?;
    let evicted = delete.query_map([now.0.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let evicted = evicted.collect::<Result<Vec<(Vec<u8>, i64)>>>()?;
    let mut delete = connection.prepare("DELETE FROM slot WHERE key = ?1")?;
    evicted.iter().try_for_each(|(key, _)| delete.execute([key]).map(drop))?;
    Ok(evicted.into_iter().map(|(_, idle)| Time(idle.cast_unsigned())).max())
}

/// The document in the first column, checked by the checksum in the second.
fn document<T: for<'a> Deserialize<'a>>(row: &Row<'_>, salt: &[&[u8]]) -> Result<T> {
    let text: String = row.get(0)?;
    checked(row, sum(&[&[text.as_bytes()], salt].concat()))?;
    serde_json::from_str(&text).map_err(|_| Error::InvalidQuery)
}

fn text(document: &impl Serialize) -> Result<String> {
    serde_json::to_string(document).map_err(|error| Error::ToSqlConversionFailure(error.into()))
}

fn sum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// # Errors
/// The row is not as it was written.
fn checked(row: &Row<'_>, sum: u32) -> Result<()> {
    if row.get::<_, i64>(1)? == i64::from(sum) { Ok(()) } else { Err(Error::InvalidQuery) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_same_on_all_machines() {
        let connection = Connection::open_in_memory().unwrap();
        let rows = KeyRows::new(&connection, 7, b"key", false);
        assert_eq!(rows.sum_of(1, &(2..3), 4), 0x16e4_c615);
    }
}
