//! Finds, creates, recognises and removes the database of a state; reads and writes its values.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::geteuid;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tempfile::NamedTempFile;

use super::guard;
use super::lock::Lock;
use super::refusal::{About, present, unusable};
use crate::inherited::Uninterrupted;
use crate::store::StoreError;
use crate::store::flaw::Flaw;
use crate::store::place::MAGIC;
use crate::store::vault::Value;

/// `PRAGMA application_id`, which distinguishes a state from any other database: "thro".
const APPLICATION: u32 = 0x7468_726f;
const VERSION: u32 = 2;

/// Offsets in the header of a database: of the versions of SQLite's format, 1 or 2, that are written and read; of the
/// version of ours; and of the application ID.
const FORMATS_AT: [usize; 2] = [18, 19];
const VERSION_AT: usize = 60;
const APPLICATION_AT: usize = 68;
const HEADER: usize = 100;

/// Values are JSON; see `store::record`.
const SCHEMA: &str = "CREATE TABLE state(key BLOB PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID";

/// An open state.
pub(super) struct Database {
    pub(super) connection: Connection,
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Database {
    /// Opens the state at `path`; `None` if there is none.
    pub(super) fn find(path: &Path, patience: Duration) -> Result<Option<Self>, StoreError> {
        loop {
            let Some((path, file)) = locate(path)? else { return Ok(None) };
            if let Some(found) = Database::open(path, file, patience)? {
                return Ok(Some(found));
            }
        }
    }

    /// Opens a file that is a state; `None` if it is no longer in its place.
    fn open(path: PathBuf, file: File, patience: Duration) -> Result<Option<Self>, StoreError> {
        recognised(&path, &file)?.map_err(|flaw| unusable(&path, flaw))?;
        guard::check(&journal(&path))?;
        let (identity, connection) = (identity(&path, &file)?, connect(&path, patience));
        if identity_at(&path)? != Some(identity) {
            return Ok(None);
        }
        Ok(Some(Database { connection: connection.about(&path)?, file: Arc::new(file), path, identity }))
    }

    /// True if it is still the file at its path.
    pub(super) fn is_in_place(&self) -> Result<bool, StoreError> {
        Ok(identity_at(&self.path)? == Some(self.identity))
    }

    /// True if no path leads to the file any more.
    pub(super) fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    /// Creates a state at `path` with one value, complete from its first moment; `None` if another one is in its place
    /// by now.
    pub(super) fn create(
        path: &Path,
        patience: Duration,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Self>, StoreError> {
        const CANNOT: &str = "cannot create it";
        let directory = fs::canonicalize(guard::directory(path)).context(CANNOT).about(path)?;
        let path = &directory.join(path.file_name().unwrap_or_default());
        // All use the same name for what is to become a state.
        let own = Arc::new(File::open(&directory).context(CANNOT).about(path)?);
        let _creates = Lock::within(patience, &directory, &own, drop)?;
        // Leaves nothing half made behind.
        let _whole = Uninterrupted::begin();
        let new = new_file(&directory).context(CANNOT).about(path)?;
        make(new.path(), key, value).about(path)?;
        let publish = || {
            if guard::shared_group(&directory).is_some() {
                new.as_file().set_permissions(Permissions::from_mode(0o660))?;
            }
            new.as_file().sync_all()?;
            if path.symlink_metadata().is_ok() {
                return Ok(None);
            }
            // Left from a state that was removed.
            present(fs::remove_file(journal(path)))?;
            match new.persist_noclobber(path) {
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
                Err(error) => Err(error.error),
                Ok(file) => own.sync_all().map(|()| Some(file)),
            }
        };
        let Some(file) = publish().context(CANNOT).about(path)? else { return Ok(None) };
        Database::open(path.clone(), file, patience)
    }

    /// Removes the state at `path`, under its lock. Returns `false` if there is none.
    pub(super) fn remove(path: &Path, patience: Duration) -> Result<bool, StoreError> {
        loop {
            let Some((path, file)) = locate(path)? else { return Ok(false) };
            let file = Arc::new(file);
            let _lock = Lock::within(patience, &path, &file, drop)?;
            if identity_at(&path)? != Some(identity(&path, &file)?) {
                continue;
            }
            if recognised(&path, &file)? == Err(Flaw::Foreign) {
                return Err(unusable(&path, Flaw::Foreign));
            }
            fs::remove_file(&path).context("cannot remove it").about(&path)?;
            return Ok(true);
        }
    }

    /// Begins or ends a transaction.
    pub(super) fn run(&self, statement: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(statement)?.execute([]).map(drop)
    }

    pub(super) fn value(&self, key: &[u8]) -> rusqlite::Result<Option<Value>> {
        let mut select = self.connection.prepare_cached("SELECT value FROM state WHERE key = ?1")?;
        let text = select.query_row([key], |row| row.get::<_, String>(0)).optional()?;
        Ok(text.map(String::into_bytes))
    }

    /// Replaces a value.
    pub(super) fn write(&self, key: &[u8], value: &[u8]) -> rusqlite::Result<()> {
        insert(&self.connection, key, value)
    }

    pub(super) fn keys(&self) -> rusqlite::Result<Vec<Value>> {
        let mut select = self.connection.prepare_cached("SELECT key FROM state ORDER BY key")?;
        select.query_map([], |row| row.get(0))?.collect()
    }

    /// As [`Vault::evict`](crate::store::vault::Vault::evict).
    pub(super) fn evict(&self, is_idle: &mut dyn FnMut(&[u8]) -> bool) -> rusqlite::Result<usize> {
        let mut select = self.connection.prepare_cached("SELECT key, value FROM state WHERE key <> x''")?;
        let (mut rows, mut idle, mut kept) = (select.query([])?, Vec::<Value>::new(), 0);
        while let Some(row) = rows.next()? {
            if is_idle(row.get_ref("value")?.as_bytes()?) {
                idle.push(row.get("key")?);
            } else {
                kept += 1;
            }
        }
        let mut delete = self.connection.prepare_cached("DELETE FROM state WHERE key = ?1")?;
        idle.iter().try_for_each(|key| delete.execute([key]).map(drop))?;
        Ok(kept)
    }
}

/// The file at `path`, if it exists, and its path without links, as SQLite follows none.
fn locate(path: &Path) -> Result<Option<(PathBuf, File)>, StoreError> {
    let directory = guard::directory(path);
    let resolved = fs::canonicalize(directory).context("cannot access this directory").about(directory)?;
    guard::check_directory(&resolved)?;
    let path = resolved.join(path.file_name().unwrap_or_default());
    Ok(guard::open(&path)?.map(|file| (path, file)))
}

fn identity(path: &Path, file: &File) -> Result<(u64, u64), StoreError> {
    let metadata = file.metadata().context("cannot access it").about(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn identity_at(path: &Path) -> Result<Option<(u64, u64)>, StoreError> {
    let there = present(fs::symlink_metadata(path)).context("cannot access it").about(path)?;
    Ok(there.map(|there| (there.dev(), there.ino())))
}

/// What SQLite keeps beside a database while it writes.
fn journal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

/// A file that is to become a state. Others that a process of ours left when it was killed are removed.
fn new_file(directory: &Path) -> io::Result<NamedTempFile> {
    let name = format!(".throttle-new-{}", geteuid());
    present(fs::remove_file(directory.join(&name)))?;
    tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(directory)
}

/// Recognises a state by its first bytes.
fn recognised(path: &Path, file: &File) -> Result<Result<(), Flaw>, StoreError> {
    let mut bytes = [0; HEADER];
    let read = file.read_at(&mut bytes, 0).context("cannot read it").about(path)?;
    let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let is_ours = number(APPLICATION_AT) == APPLICATION;
    Ok(match (bytes.starts_with(MAGIC), is_ours) {
        _ if read < HEADER && MAGIC.starts_with(&bytes[..read.min(MAGIC.len())]) => Err(Flaw::Damaged),
        (true, true) if FORMATS_AT.iter().any(|at| !matches!(bytes[*at], 1 | 2)) => Err(Flaw::Damaged),
        (true, true) if number(VERSION_AT) != VERSION => Err(Flaw::Format(number(VERSION_AT))),
        (true, true) => Ok(()),
        (false, true) => Err(Flaw::Damaged),
        (_, false) => Err(Flaw::Foreign),
    })
}

/// Makes SQLite open a file that has our table.
fn connect(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection.busy_timeout(patience)?;
    // Otherwise, statements are compiled anew for each booking, in case other numbers need another plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Nothing waits for the disk: all would wait for it at times, far beyond a deadline.
    connection.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
    )?;
    if has_schema(&connection)? { Ok(connection) } else { Err(rusqlite::Error::InvalidQuery) }
}

/// True if our table is there and nothing else, such as a trigger.
fn has_schema(connection: &Connection) -> rusqlite::Result<bool> {
    let mut select = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY rowid")?;
    let found: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(found == [SCHEMA])
}

fn make(path: &Path, key: &[u8], value: &[u8]) -> Result<()> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    let transaction = connection.unchecked_transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.execute_batch(SCHEMA)?;
    insert(&transaction, key, value)?;
    Ok(transaction.commit()?)
}

fn insert(connection: &Connection, key: &[u8], value: &[u8]) -> rusqlite::Result<()> {
    let text = std::str::from_utf8(value)?;
    connection.prepare_cached("REPLACE INTO state VALUES (?1, ?2)")?.execute(params![key, text]).map(drop)
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW
}
