//! The items that failed, as the input of another run.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::libc::O_NONBLOCK;

/// A file of items, each with its delimiter.
pub struct FailedItems {
    path: PathBuf,
    file: File,
}

impl FailedItems {
    /// Opens the file at `path` and empties it, or creates it.
    ///
    /// # Errors
    /// It cannot be written to, or is not a regular file.
    pub fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("--failed cannot write to {}", path.display());
        // Opening a device or a FIFO must not block.
        let mut options = OpenOptions::new();
        options.append(true).create(true).custom_flags(O_NONBLOCK);
        let file = options.open(path).with_context(cannot)?;
        let is_file = file.metadata().with_context(cannot)?.is_file();
        ensure!(is_file, "--failed needs a regular file, which {} is not: name another", path.display());
        file.set_len(0).with_context(cannot)?;
        Ok(FailedItems { path: path.to_owned(), file })
    }

    /// Adds items.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn add(&mut self, items: &[u8]) -> Result<()> {
        self.file
            .write_all(items)
            .with_context(|| format!("--failed cannot write to {}", self.path.display()))
    }
}
