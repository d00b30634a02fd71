//! Finds, creates, recognises and removes the database of a state.

use std::cell::Cell;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::files::{
    Files, companions, files_at, identity, locate, lock_directory, new_file, remove_companions,
};
use super::lock::Lock;
use super::log::Index;
use super::refusal::{About, Flaw, unusable};
use super::tables::{Header, SCHEMA};
use super::{Setting, guard, owner};
use crate::inherited::Uninterrupted;
use crate::store::StoreError;
use crate::store::ledger::Owner;
use crate::store::place::MAGIC;

/// `PRAGMA application_id`, which distinguishes a state from any other database: "thro".
const APPLICATION: u32 = 0x7468_726f;
const VERSION: u32 = 1;

/// Offsets in the header of a database: of the version of our format, and of the application ID.
const VERSION_AT: usize = 60;
const APPLICATION_AT: usize = 68;
const HEADER: usize = 100;

/// An open state.
pub(super) struct Database {
    pub(super) connection: Connection,
    /// Outlives the connection, as does the file: closing either would release SQLite's locks.
    index: Option<Index>,
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    files: Files,
    /// Our number among the processes that use it.
    pub(super) owner: Owner,
    /// True if it was found good when it was last looked at. If not, it is left as it is.
    pub(super) is_good: Cell<bool>,
    /// A lock on the directory while the connection is closed, as SQLite removes the files beside the database by name.
    closes: Option<Lock>,
}

impl Database {
    /// Opens the state at `path`; `None` if there is none.
    pub(super) fn find(path: &Path, setting: &Setting) -> Result<Option<Self>, StoreError> {
        loop {
            let Some((path, file)) = locate(path)? else { return Ok(None) };
            // SQLite opens one file after the other. They must belong to one state.
            let _opens = lock_directory(guard::directory(&path), setting.patience, File::try_lock_shared)?;
            if let Some(found) = Database::open(path, file, setting)? {
                return Ok(Some(found));
            }
        }
    }

    /// Opens a file that is a state; `None` if it is no longer in its place. The files beside it would then be those of
    /// another state: a process that took them for those of this one would remove them at its first booking.
    pub(super) fn open(path: PathBuf, file: File, setting: &Setting) -> Result<Option<Self>, StoreError> {
        if !is_in_place(&path, &file)? {
            return Ok(None);
        }
        recognised(&path, &file)?.map_err(|flaw| unusable(&path, flaw))?;
        companions(&path).iter().try_for_each(|path| guard::check(path))?;
        let file = Arc::new(file);
        // If two processes opened it at once, each would leave it to the other to notice a loss of the log. A process
        // that keeps it locked has opened it, and will notice.
        let quiet = Lock::unless_kept(&path, &file)?;
        let before = open_index(&path)?;
        let written = before.as_ref().filter(|_| quiet.is_some()).and_then(Index::written);
        let connection = match connect(&path, setting.patience) {
            // It was removed meanwhile.
            Err(_) if !is_in_place(&path, &file)? => return Ok(None),
            connected => connected.about(&path)?,
        };
        let index = before.filter(Index::is_in_use);
        if let Some((index, written)) = index.as_ref().zip(written)
            && index.lacks(&written)
            // Bookings that were not on the disk when the machine crashed are no such loss.
            && Header::read(&connection).about(&path)?.clock.boot == setting.clock.boot
        {
            drop(connection);
            index.restore(&written);
            return Err(unusable(&path, Flaw::Damaged));
        }
        let index = index.map_or_else(|| open_index(&path), |index| Ok(Some(index)))?;
        let [_, log, beside] = files_at(&path)?;
        let files = [Some(identity(&path, &file)?), log, beside];
        let owner = owner::register(&file).context("cannot lock it").about(&path)?;
        let is_good = Cell::new(false);
        Ok(Some(Database { connection, index, file, path, files, owner, is_good, closes: None }))
    }

    /// Creates a state at `path`, complete from its first moment, unless another process was faster.
    pub(super) fn create(
        path: &Path,
        patience: Duration,
        fill: impl Fn(&Connection) -> Result<()>,
    ) -> Result<(), StoreError> {
        const CANNOT: &str = "cannot create it";
        let directory = fs::canonicalize(guard::directory(path)).context(CANNOT).about(path)?;
        // Files beside a state that does not exist are left from one that was removed.
        let creates = lock_directory(&directory, patience, File::try_lock)?;
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        remove_companions(path)?;
        // Leaves nothing half made behind.
        let _whole = Uninterrupted::begin();
        let new = new_file(&directory).context(CANNOT).about(path)?;
        write(new.path(), fill).about(path)?;
        let publish = || {
            if guard::shared_group(&directory).is_some() {
                new.as_file().set_permissions(Permissions::from_mode(0o660))?;
            }
            new.as_file().sync_all()?;
            new.persist_noclobber(path)?;
            creates.0.sync_all()
        };
        publish().context(CANNOT).about(path)
    }

    /// Removes the state at `path`, under its lock. Returns `false` if there is none.
    pub(super) fn remove(path: &Path, patience: Duration) -> Result<bool, StoreError> {
        loop {
            let Some((path, file)) = locate(path)? else { return Ok(false) };
            let file = Arc::new(file);
            let _lock = Lock::within(patience, &path, &file, File::try_lock, drop)?;
            let _removes = lock_directory(guard::directory(&path), patience, File::try_lock)?;
            if !is_in_place(&path, &file)? {
                continue;
            }
            if recognised(&path, &file)? == Err(Flaw::Foreign) {
                return Err(unusable(&path, Flaw::Foreign));
            }
            fs::remove_file(&path).context("cannot remove it").about(&path)?;
            return remove_companions(&path).map(|()| true);
        }
    }

    /// True if an owner of slots has ended, beyond doubt.
    pub(super) fn has_ended(&self, owner: Owner) -> bool {
        owner != self.owner && owner::has_ended(&self.file, owner)
    }

    /// Begins to write, under the lock; `None` if any file of the state is no longer in its place.
    pub(super) fn begin(&self, patience: Duration) -> Result<Option<Transaction<'_>>, StoreError> {
        self.is_good.set(false);
        // Checked before the files are looked up: a log that is removed in between is not cut.
        let is_cut = self.is_cut();
        let files = files_at(&self.path)?;
        if files == self.files && !files.contains(&None) {
            if is_cut {
                return Err(unusable(&self.path, Flaw::Damaged));
            }
            let begun = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
            return begun.map(Some).about(&self.path);
        }
        let _removes = lock_directory(guard::directory(&self.path), patience, File::try_lock)?;
        let [_, log, index] = files_at(&self.path)?;
        // The index of our log does not fit another database or log: SQLite would read the wrong pages. Nor does the
        // index of a log that is gone.
        if index == self.files[2] || log.is_none() {
            remove_companions(&self.path)?;
        }
        Ok(None)
    }

    /// Writes the log into the database, so that the next booking restarts the log in the space that it has.
    pub(super) fn empty_log(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch("PRAGMA wal_checkpoint")
    }

    fn is_cut(&self) -> bool {
        self.index.as_ref().is_some_and(Index::is_cut)
    }
}

/// When the last process closes the state, writes the log into the database and removes it. Only if it was found good:
/// a damaged state is left as it is.
impl Drop for Database {
    fn drop(&mut self) {
        if self.is_good.get() && !self.is_cut() {
            // Files that are left behind do no harm.
            let directory = guard::directory(&self.path);
            self.closes = lock_directory(directory, Duration::ZERO, File::try_lock_shared).ok();
        }
        if self.closes.is_some() {
            let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        }
    }
}

fn is_in_place(path: &Path, file: &File) -> Result<bool, StoreError> {
    Ok(files_at(path)?[0] == Some(identity(path, file)?))
}

/// Recognises a state by its first bytes.
fn recognised(path: &Path, file: &File) -> Result<Result<(), Flaw>, StoreError> {
    let mut bytes = [0; HEADER];
    let read = file.read_at(&mut bytes, 0).context("cannot read it").about(path)?;
    let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let is_ours = number(APPLICATION_AT) == APPLICATION;
    Ok(match (bytes.starts_with(MAGIC), is_ours) {
        _ if read < HEADER && MAGIC.starts_with(&bytes[..read.min(MAGIC.len())]) => Err(Flaw::Damaged),
        (true, true) if number(VERSION_AT) != VERSION => Err(Flaw::Version(number(VERSION_AT))),
        (true, true) => Ok(()),
        (false, true) => Err(Flaw::Damaged),
        (_, false) => Err(Flaw::Foreign),
    })
}

fn open_index(path: &Path) -> Result<Option<Index>, StoreError> {
    Index::open(path).context("cannot read the files next to it").about(path)
}

/// Makes SQLite open a file that has our tables.
fn connect(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection.busy_timeout(patience)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Otherwise, statements are compiled anew for each booking, in case other numbers need another plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Nothing waits for the disk: if a checkpoint did, all would wait for it at times, far beyond a deadline. The log
    // is kept small for where space is short.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 128; \
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
    )?;
    if has_schema(&connection)? { Ok(connection) } else { Err(rusqlite::Error::InvalidQuery) }
}

/// True if our tables are there and nothing else, such as a trigger.
fn has_schema(connection: &Connection) -> rusqlite::Result<bool> {
    let mut select = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY rowid")?;
    let found: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let expected = SCHEMA.split(";\n").map(str::trim).filter(|table| !table.is_empty());
    Ok(expected.eq(found.iter().map(String::as_str)))
}

fn write(path: &Path, fill: impl Fn(&Connection) -> Result<()>) -> Result<()> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection
        .execute_batch("PRAGMA page_size = 1024; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    let transaction = connection.unchecked_transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.execute_batch(SCHEMA)?;
    fill(&transaction)?;
    transaction.commit()?;
    Ok(connection.execute_batch("PRAGMA journal_mode = WAL")?)
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW
}
