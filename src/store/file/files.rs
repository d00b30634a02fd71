//! The files of a state, and their directory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nix::unistd::geteuid;
use tempfile::NamedTempFile;

use super::guard;
use super::lock::{Lock, TryLock};
use super::refusal::{About, present};
use crate::store::StoreError;

/// The files of a state by device and inode: the database, and the two that SQLite keeps beside it while it is in use.
pub(super) type Files = [Option<(u64, u64)>; 3];
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// The file at `path`, if it exists, and its path without links, as SQLite follows none.
pub(super) fn locate(path: &Path) -> Result<Option<(PathBuf, File)>, StoreError> {
    let directory = guard::directory(path);
    let resolved = fs::canonicalize(directory).context("cannot access this directory").about(directory)?;
    guard::check_directory(&resolved)?;
    let path = resolved.join(path.file_name().unwrap_or_default());
    Ok(guard::open(&path)?.map(|file| (path, file)))
}

pub(super) fn identity(path: &Path, file: &File) -> Result<(u64, u64), StoreError> {
    let metadata = file.metadata().context("cannot access it").about(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The files at `path` and beside it.
pub(super) fn files_at(path: &Path) -> Result<Files, StoreError> {
    let mut files = Files::default();
    for (file, path) in files.iter_mut().zip(SUFFIXES.map(|suffix| beside(path, suffix))) {
        let there = present(fs::symlink_metadata(&path)).context("cannot access it").about(&path)?;
        *file = there.map(|there| (there.dev(), there.ino()));
    }
    Ok(files)
}

pub(super) fn companions(path: &Path) -> [PathBuf; 2] {
    [SUFFIXES[1], SUFFIXES[2]].map(|suffix| beside(path, suffix))
}

/// Locks a directory. While a state is opened, no one may create or remove one there, or the files beside one: the
/// files of a state that was removed could by then be those of the next one.
pub(super) fn lock_directory(directory: &Path, patience: Duration, how: TryLock) -> Result<Lock, StoreError> {
    let own = File::open(directory).context("cannot open it").about(directory)?;
    Lock::within(patience, directory, &Arc::new(own), how, drop)
}

/// A file that is to become a state. It always has the same name, and so replaces one that was left by a process that
/// was killed.
pub(super) fn new_file(directory: &Path) -> io::Result<NamedTempFile> {
    let name = format!(".throttle-new-{}", geteuid());
    present(fs::remove_file(directory.join(&name)))?;
    tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(directory)
}

pub(super) fn remove_companions(path: &Path) -> Result<(), StoreError> {
    let remove = |path| present(fs::remove_file(path)).context("cannot remove it").about(path).map(drop);
    // In a read-only file system, it is an error to remove what does not exist.
    companions(path).iter().filter(|path| path.symlink_metadata().is_ok()).try_for_each(|path| remove(path))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
