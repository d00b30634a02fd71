//! What a user is told when a state cannot be used, and what to do about it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Error, anyhow};
use rusqlite::ErrorCode;

use super::lock::{self, NoLock};
use super::owner;
use crate::exit::Exit;
use crate::store::StoreError;

/// Why a file is not to be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flaw {
    /// It does not look as though it ever was a state.
    Foreign,
    /// It once was one.
    Damaged,
    /// It is one of a throttle that had a file format of its own.
    Old,
    /// It is whole, but written by an incompatible version.
    Version(u32),
}

/// It is there, and will not do.
pub(super) fn refused(path: &Path, why: &str) -> StoreError {
    StoreError { exit: Exit::BadStore, error: anyhow!("{}: {why}", path.display()) }
}

/// The system does not let us.
pub(super) fn failed(path: &Path, what: &str, error: io::Error) -> StoreError {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Exit::BadStore,
        _ => Exit::Error,
    };
    let error = Error::new(error).context(format!("{}: {what}", path.display()));
    StoreError { exit, error }
}

/// It is not the state that it should be.
pub(super) fn bad(path: &Path, why: &str) -> StoreError {
    StoreError { exit: Exit::BadState, error: anyhow!("{}: {why}", path.display()) }
}

/// SQLite objects, or what it has found cannot be.
pub(super) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
    let shown = path.display();
    let (exit, what) = match error.sqlite_error_code() {
        // `Unknown` is an error in the SQL, which fits the tables that there should be.
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
            return bad(path, &unusable(path, Flaw::Damaged));
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Exit::Refused, "another program keeps it locked")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (Exit::BadStore, "cannot write to it, or beside it")
        }
        Some(ErrorCode::DiskFull) => (Exit::Error, "cannot write to it: the disk is full"),
        Some(_) => (Exit::Error, "cannot read it or write to it"),
    };
    StoreError { exit, error: anyhow!("{shown}: {what}: {error}") }
}

/// What is wrong with a file, and what to do about it.
pub(super) fn unusable(path: &Path, flaw: Flaw) -> String {
    let reset = reset_command(path);
    match flaw {
        Flaw::Foreign => {
            "this is no state of throttle, and is left as it is: give another name, or remove it".to_owned()
        }
        Flaw::Damaged => {
            format!("this state is damaged, and is left as it is: begin a new one by {reset}")
        }
        Flaw::Old => format!(
            "this state was written by an older throttle, and is left as it is: give another name or, once no older \
             throttle uses it, begin a new one by {reset}"
        ),
        Flaw::Version(version) => format!(
            "this state is in format {version}, of another version of throttle: use that one, or begin a new one by {reset}"
        ),
    }
}

/// What begins a new state.
pub(super) fn reset_command(path: &Path) -> String {
    format!("'throttle --reset-state -s {}'", path.display())
}

/// The lock cannot be had.
pub(super) fn no_lock(path: &Path, file: &File, patience: Duration, why: NoLock) -> StoreError {
    let path = path.display();
    match why {
        NoLock::Failed(error) => StoreError {
            exit: Exit::Error,
            error: Error::new(error).context(format!("{path}: cannot lock it")),
        },
        NoLock::Held => {
            let patience = patience.as_secs();
            let error = anyhow!("{path}: locked for more than {patience} s by {}", culprit(file));
            StoreError { exit: Exit::StoreAway, error }
        }
    }
}

/// Who keeps the lock, and what to do about it.
pub(super) fn culprit(file: &File) -> String {
    match lock::holder(file) {
        Some(pid) if owner::is_stopped(pid) => {
            format!("process {pid}, which is stopped: let it go on by 'kill -CONT {pid}', or end it")
        }
        Some(pid) => format!("process {pid}: end it, or use another state"),
        None => "a process that cannot be seen from here: end it, or use another state".to_owned(),
    }
}
