//! The files that `$THROTTLE_HEADERS` names, into which commands write what servers have said.

use std::io;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::source::Batch;

/// A directory with a file for each command: what one leaves behind may write to its own later.
///
/// It is made for the first command. Where nothing can be written, commands run all the same, but cannot tell, unless
/// what they tell is `needed`.
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
    /// It is needed, and there is no place for it.
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
