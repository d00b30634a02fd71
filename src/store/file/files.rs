//! The files that a state consists of, and their directory.

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

/// The files of a state by device and inode: the database, and the two that SQLite keeps beside one that is in use.
pub(super) type Files = [Option<(u64, u64)>; 3];
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// The file at `path`, if it is there, and its path without links: SQLite follows none.
pub(super) fn locate(path: &Path) -> Result<Option<(PathBuf, File)>, StoreError> {
    let directory = guard::directory(path);
    let resolved = fs::canonicalize(directory).context("cannot look at this directory").about(directory)?;
    guard::check_directory(&resolved)?;
    let path = resolved.join(path.file_name().unwrap_or_default());
    Ok(guard::open(&path)?.map(|file| (path, file)))
}

pub(super) fn identity(path: &Path, file: &File) -> Result<(u64, u64), StoreError> {
    let metadata = file.metadata().context("cannot look at it").about(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The files at `path`, and beside it.
pub(super) fn files_at(path: &Path) -> Result<Files, StoreError> {
    let mut files = Files::default();
    for (file, path) in files.iter_mut().zip(SUFFIXES.map(|suffix| beside(path, suffix))) {
        let there = present(fs::symlink_metadata(&path)).context("cannot look at it").about(&path)?;
        *file = there.map(|there| (there.dev(), there.ino()));
    }
    Ok(files)
}

pub(super) fn companions(path: &Path) -> [PathBuf; 2] {
    [SUFFIXES[1], SUFFIXES[2]].map(|suffix| beside(path, suffix))
}

/// While a state is opened, nobody creates or removes one in its directory, or the files beside one: those of a state
/// which was removed could be those of the next one by then.
pub(super) fn lock_directory(directory: &Path, patience: Duration, how: TryLock) -> Result<Lock, StoreError> {
    let own = File::open(directory).context("cannot open it").about(directory)?;
    Lock::within(patience, directory, &Arc::new(own), how, drop)
}

/// A file that is to become a state. It has the same name each time, and so takes the place of one that was left by
/// whoever was killed.
pub(super) fn new_file(directory: &Path) -> io::Result<NamedTempFile> {
    let name = format!(".throttle-new-{}", geteuid());
    present(fs::remove_file(directory.join(&name)))?;
    tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(directory)
}

pub(super) fn remove_companions(path: &Path) -> Result<(), StoreError> {
    let remove = |path| present(fs::remove_file(path)).context("cannot remove it").about(path).map(drop);
    // In a file system that is read-only, it is an error to remove what is not there.
    companions(path).iter().filter(|path| path.symlink_metadata().is_ok()).try_for_each(|path| remove(path))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
