//! Messages for a state that cannot be used, and what to do about it.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Error;
use rusqlite::ErrorCode;
use rusqlite::ffi::{self, SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_WRITE};

use super::holder;
use crate::exit::Exit;
use crate::store::StoreError;
use crate::store::flaw::Flaw;

const FULL: &str = "cannot write to it: the disk is full";
const FULL_OR_LIMITED: &str =
    "cannot write to it: the disk is full or fails, or a quota or 'ulimit -f' is used up";

/// Turns the error for a missing file into `None`.
pub(super) fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Names the file that an error is about.
pub(super) trait About<T> {
    /// For an error of a system call, with its purpose as context; of SQLite; or of an impossible row. A [`StoreError`]
    /// stays as it is.
    fn about(self, path: &Path) -> Result<T, StoreError>;
}

impl<T, E: Into<Error>> About<T> for Result<T, E> {
    fn about(self, path: &Path) -> Result<T, StoreError> {
        let told = |error: Error| match error.downcast_ref::<io::Error>() {
            Some(cause) => StoreError::new(of_call(cause), path.display(), format_args!("{error:#}")),
            None => error.downcast().unwrap_or_else(|error| of_sqlite(path, &error)),
        };
        self.map_err(|error| told(error.into()))
    }
}

fn of_call(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Exit::BadStore,
        _ => Exit::Error,
    }
}

/// The refusal of a file that exists, but will not do.
pub(super) fn refused(path: &Path, why: &str) -> StoreError {
    StoreError::new(Exit::BadStore, path.display(), why)
}

fn cause(error: &Error) -> Option<&ffi::Error> {
    error.downcast_ref().and_then(rusqlite::Error::sqlite_error)
}

fn of_sqlite(path: &Path, error: &Error) -> StoreError {
    let cause = cause(error);
    let detail = cause.map(|cause| cause.extended_code);
    let (exit, what) = match cause.map(|cause| cause.code) {
        // Its log was cut off.
        _ if detail == Some(SQLITE_IOERR_SHORT_READ) => return unusable(path, Flaw::Damaged),
        _ if detail == Some(SQLITE_IOERR_WRITE) => (Exit::Error, FULL_OR_LIMITED),
        // `Unknown` is an error in the SQL, which fits the right tables: these are others.
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
            return unusable(path, Flaw::Damaged);
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            return holder::kept(holder::TIMEOUT, path, fs::metadata(path).ok());
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            (Exit::BadStore, "cannot write to it, or next to it")
        }
        Some(ErrorCode::DiskFull) => (Exit::Error, FULL),
        Some(_) => (Exit::Error, "cannot read or write it"),
    };
    StoreError::new(exit, path.display(), format_args!("{what}: {error}"))
}

/// Refuses a file for a flaw, and says what to do about it.
pub(super) fn unusable(path: &Path, flaw: Flaw) -> StoreError {
    let path = path.display().to_string();
    flaw.refusal(&path, Some(&path))
}
