//! The items that failed, as the input of another run.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::libc::O_NONBLOCK;

use crate::config::Separator;

/// A file of items, each with its delimiter.
pub struct FailedItems {
    path: PathBuf,
    file: File,
    /// What separates fields: the header of a table comes before the first item.
    separator: Option<Separator>,
    is_empty: bool,
}

impl FailedItems {
    /// Opens the file at `path` and empties it, or creates it. The header of a table, as `separator` has it, comes
    /// before the first item.
    ///
    /// # Errors
    /// It cannot be written to, or is not a regular file.
    pub fn create(path: &Path, separator: Option<&Separator>) -> Result<Self> {
        let cannot = || format!("--failed cannot write to {}", path.display());
        // Opening a device or a FIFO must not block.
        let mut options = OpenOptions::new();
        options.append(true).create(true).custom_flags(O_NONBLOCK);
        let file = options.open(path).with_context(cannot)?;
        let is_file = file.metadata().with_context(cannot)?.is_file();
        ensure!(is_file, "--failed needs a regular file, which {} is not: name another", path.display());
        file.set_len(0).with_context(cannot)?;
        Ok(FailedItems { path: path.to_owned(), file, separator: separator.cloned(), is_empty: true })
    }

    /// Adds items.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn add(&mut self, items: &[u8]) -> Result<()> {
        let is_first = std::mem::replace(&mut self.is_empty, false);
        let head = if is_first { Separator::head(self.separator.as_ref()) } else { &[] };
        self.file
            .write_all(&[head, items].concat())
            .with_context(|| format!("--failed cannot write to {}", self.path.display()))
    }
}
