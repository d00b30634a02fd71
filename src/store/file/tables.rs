//! The tables. Each row has a checksum: altered data is never used.

use rusqlite::{Connection, Error, OptionalExtension, Result, Row, params};
use serde::{Deserialize, Serialize};

use super::machine::ClockOrigin;
use crate::store::Hold;
use crate::store::ledger::Ledger;
use crate::time::{Time, Wall};

/// Everything but numbers is JSON, for anyone who looks into it. Instants are nanoseconds since boot.
pub(super) const SCHEMA: &str = "
CREATE TABLE policy(id INTEGER PRIMARY KEY, header TEXT, sum INTEGER);
CREATE TABLE account(key BLOB PRIMARY KEY, idle INTEGER, ledger TEXT, sum INTEGER) WITHOUT ROWID;
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
}

impl<'a> KeyRows<'a> {
    pub(super) fn new(connection: &'a Connection, generation: u64, key: &'a [u8]) -> Self {
        let salt = [&generation.to_be_bytes(), key].concat();
        KeyRows { connection, key, salt }
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
        connection.prepare("DELETE FROM account WHERE idle <= ?1 AND key <> x'' RETURNING idle")?;
    let evicted = delete.query_map([now.0.cast_signed()], |row| row.get(0))?;
    let evicted = evicted.collect::<Result<Vec<i64>>>()?;
    Ok(evicted.into_iter().map(|idle| Time(idle.cast_unsigned())).max())
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
        assert_eq!(sum(&[b"key", &7u64.to_be_bytes()]), 3_990_392_713);
    }
}
