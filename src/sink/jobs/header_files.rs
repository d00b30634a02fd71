//! The files that `$THROTTLE_HEADERS` names, to which commands write what servers have said.

use std::io;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::source::Batch;

/// A directory with a file for each command: processes that a command left behind may write to its file later.
///
/// It is made for the first command. If it cannot be made, commands run without it, unless it is `needed`.
pub(super) struct HeaderFiles {
    directory: Option<TempDir>,
    is_tried: bool,
    needed: bool,
}

impl HeaderFiles {
    pub(super) fn new(needed: bool) -> Self {
        HeaderFiles { directory: None, is_tried: false, needed }
    }

    /// The file of the command for `batch`, if there is one.
    ///
    /// # Errors
    /// It is needed, but cannot be made.
    pub(super) fn file_of(&mut self, batch: &Batch) -> io::Result<Option<PathBuf>> {
        if !self.is_tried {
            let made = TempDir::with_prefix("throttle-");
            self.directory = if self.needed { Some(made?) } else { made.ok() };
            self.is_tried = true;
        }
        let name = format!("{}.{}", batch.first(), batch.attempt());
        Ok(self.directory.as_ref().map(|directory| directory.path().join(name)))
    }
}
