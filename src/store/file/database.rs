//! The database of a state: how it is found, made, recognised, and removed.

use std::fs::{self, File, Permissions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::guard::{self, directory};
use super::lock::Lock;
use super::refusal::{Flaw, bad, failed, no_lock, of_sqlite, unusable};
use super::rows::SCHEMA;
use crate::store::StoreError;

/// What `PRAGMA application_id` tells, so that a state is known from any other database: "thro".
const APPLICATION: u32 = 0x7468_726f;
const VERSION: u32 = 1;

/// What the first file format, which was none of SQLite's, began with.
const OLD_MAGIC: &[u8] = b"throttle";
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Where the header of a database has the version of our format, and its application.
const VERSION_AT: usize = 60;
const APPLICATION_AT: usize = 68;
const HEADER: usize = 100;

/// What SQLite keeps beside a database that is in use.
const COMPANIONS: [&str; 2] = ["-wal", "-shm"];

/// A file that is in its place.
type Identity = (u64, u64);

/// A state file that was found good. What SQLite needs of it is opened later, under its lock.
///
/// The file stays open for as long as the connection does: to close it would take away SQLite's locks.
pub(super) struct Database {
    opened: Option<Opened>,
    file: Arc<File>,
    path: PathBuf,
}

struct Opened {
    connection: Connection,
    companions: [Option<Identity>; 2],
}

/// One that writes. It is rolled back unless it is committed.
pub(super) struct Transaction<'a>(&'a Connection);

impl<'a> Transaction<'a> {
    fn begin(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Transaction(connection))
    }

    pub(super) fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([]).map(drop)
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // Or else it is when the connection is closed.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

impl Database {
    /// What is at `path`, if there is anything, and if it is good.
    pub(super) fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        // SQLite follows no link on the way, either.
        let directory = directory(path);
        let resolved = fs::canonicalize(directory);
        let resolved = resolved.map_err(|error| failed(directory, "cannot look at this directory", error))?;
        guard::check_directory(&resolved)?;
        let resolved = resolved.join(path.file_name().unwrap_or_default());
        let file = guard::open(path)?;
        Ok(file.map(|file| Database { opened: None, file: Arc::new(file), path: resolved }))
    }

    /// Puts a new state at `path`, complete from its first moment, unless somebody else was faster.
    pub(super) fn create(
        path: &Path,
        patience: Duration,
        fill: impl Fn(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let cannot = |error| failed(path, "cannot create it", error);
        let directory = fs::canonicalize(directory(path)).map_err(cannot)?;
        let own = Arc::new(File::open(&directory).map_err(cannot)?);
        // Whatever is beside a state that is not there is of one that was removed. Whoever creates another removes it, and
        // nobody else does meanwhile: it would be that of the new one.
        let lock = Lock::within(patience, &own);
        let _lock = lock.map_err(|why| no_lock(&directory, &own, patience, why))?;
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        remove_companions(path)?;
        let new = tempfile::Builder::new().prefix(".throttle-").tempfile_in(&directory).map_err(cannot)?;
        if guard::shared_group(&directory).is_some() {
            new.as_file().set_permissions(Permissions::from_mode(0o660)).map_err(cannot)?;
        }
        write(new.path(), fill).map_err(|error| of_sqlite(path, &error))?;
        new.as_file().sync_all().map_err(cannot)?;
        new.persist_noclobber(path).map_err(|error| cannot(error.error))?;
        own.sync_all().map_err(cannot)
    }

    /// Takes it away, under its lock.
    pub(super) fn remove(&self) -> Result<(), StoreError> {
        let flaw = recognised(&self.file).map_err(|error| failed(&self.path, "cannot read it", error))?;
        if flaw == Err(Flaw::Foreign) {
            return Err(bad(&self.path, &unusable(&self.path, Flaw::Foreign)));
        }
        fs::remove_file(&self.path).map_err(|error| failed(&self.path, "cannot remove it", error))?;
        remove_companions(&self.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> Option<&Connection> {
        self.opened.as_ref().map(|opened| &opened.connection)
    }

    /// Whether it still is what is found at its path, with all that SQLite keeps beside it.
    pub(super) fn is_in_place(&self) -> Result<bool, StoreError> {
        let ours = self.file.metadata().map_err(|error| failed(&self.path, "cannot look at it", error))?;
        let is_same = identity(&self.path)? == Some((ours.dev(), ours.ino()));
        let Some(opened) = &self.opened else { return Ok(is_same) };
        Ok(is_same && opened.companions == companions(&self.path)?)
    }

    /// Begins to write, under its lock; `None` if it is not in its place any more.
    pub(super) fn begin(&mut self, patience: Duration) -> Result<Option<Transaction<'_>>, StoreError> {
        if !self.is_in_place()? {
            self.remove_companions_of_ours()?;
            return Ok(None);
        }
        if self.opened.is_none() {
            self.opened = self.open(patience)?;
        }
        let Some(opened) = &self.opened else { return Ok(None) };
        let begun = Transaction::begin(&opened.connection);
        begun.map(Some).map_err(|error| of_sqlite(&self.path, &error))
    }

    /// Writes the log into the database when the last process closes it. Not before it was found good: a damaged one is
    /// left as it is.
    pub(super) fn checkpoint_on_close(&self) {
        if let Some(opened) = &self.opened {
            // What is left behind does no harm.
            let _ = opened.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        }
    }

    /// The index of our log does not fit another database or log: SQLite would read the wrong pages.
    fn remove_companions_of_ours(&self) -> Result<(), StoreError> {
        let Some(opened) = &self.opened else { return Ok(()) };
        let [_, shm] = companions(&self.path)?;
        if shm == opened.companions[1] { remove_companions(&self.path) } else { Ok(()) }
    }

    /// Opens it anew.
    pub(super) fn connect(&self, patience: Duration) -> Result<Connection, StoreError> {
        let flaw = recognised(&self.file).map_err(|error| failed(&self.path, "cannot read it", error))?;
        flaw.map_err(|flaw| bad(&self.path, &unusable(&self.path, flaw)))?;
        COMPANIONS.iter().try_for_each(|suffix| guard::check(&beside(&self.path, suffix)))?;
        connect(&self.path, patience).map_err(|error| of_sqlite(&self.path, &error))
    }

    fn open(&self, patience: Duration) -> Result<Option<Opened>, StoreError> {
        let connection = self.connect(patience)?;
        let opened = Opened { connection, companions: companions(&self.path)? };
        COMPANIONS.iter().try_for_each(|suffix| guard::check(&beside(&self.path, suffix)))?;
        // If another one was put in its place meanwhile, that is what SQLite has opened.
        Ok(self.is_in_place()?.then_some(opened))
    }
}

/// Which file, if any, is at a path.
fn identity(path: &Path) -> Result<Option<Identity>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(Some((there.dev(), there.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, "cannot look at it", error)),
    }
}

fn companions(path: &Path) -> Result<[Option<Identity>; 2], StoreError> {
    let [wal, shm] = COMPANIONS.map(|suffix| identity(&beside(path, suffix)));
    Ok([wal?, shm?])
}

fn remove_companions(path: &Path) -> Result<(), StoreError> {
    for path in COMPANIONS.map(|suffix| beside(path, suffix)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&path, "cannot remove it", error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether a file is a state, by its first bytes.
fn recognised(file: &File) -> io::Result<Result<(), Flaw>> {
    let mut bytes = [0; HEADER];
    let length = file.metadata()?.len();
    file.read_at(&mut bytes, 0)?;
    let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let is_ours = number(APPLICATION_AT) == APPLICATION;
    Ok(match (bytes.starts_with(MAGIC), is_ours) {
        _ if length == 0 => Err(Flaw::Damaged),
        _ if bytes.starts_with(OLD_MAGIC) => Err(Flaw::Old),
        (true, _) if length < HEADER as u64 => Err(Flaw::Damaged),
        (true, true) if number(VERSION_AT) != VERSION => Err(Flaw::Version(number(VERSION_AT))),
        (true, true) => Ok(()),
        (false, true) => Err(Flaw::Damaged),
        (_, false) => Err(Flaw::Foreign),
    })
}

fn write(path: &Path, fill: impl Fn(&Connection) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection
        .execute_batch("PRAGMA page_size = 1024; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    let transaction = connection.unchecked_transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.execute_batch(SCHEMA)?;
    fill(&transaction)?;
    transaction.commit()?;
    connection.execute_batch("PRAGMA journal_mode = WAL")
}

fn connect(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection.busy_timeout(patience)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Nothing waits for the disk: with a checkpoint that did, all would wait for it at times, far beyond a deadline.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 1000; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
    )?;
    match has_schema(&connection)? {
        true => Ok(connection),
        false => Err(rusqlite::Error::InvalidQuery),
    }
}

/// Whether there are our tables, and nothing else, such as a trigger.
fn has_schema(connection: &Connection) -> rusqlite::Result<bool> {
    let mut select = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY rowid")?;
    let found: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let expected = SCHEMA.split(";\n").map(str::trim).filter(|table| !table.is_empty());
    Ok(expected.eq(found.iter().map(String::as_str)))
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW
}
