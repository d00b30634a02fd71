//! The files that `$THROTTLE_HEADERS` names, to which commands write what servers have said.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;

use super::hold;
use crate::exit::JobEnd;
use crate::source::Batch;

/// The most bytes of a path: that of the directory, a separator, and two numbers with a point between.
pub(super) fn longest() -> usize {
    tempfile::env::temp_dir().as_os_str().len() + "/throttle-XXXXXX/".len() + 2 * 20 + 1
}

/// A directory with a file for each command: processes that a command left behind may write to its file later.
///
/// It is made for the first command. If it cannot be made, commands run without it, unless it is `needed`.
pub(super) struct HeaderFiles {
    directory: Option<TempDir>,
    is_tried: bool,
    needed: bool,
    /// True once something could not be read: a command that writes nonsense does so for each item.
    has_unread: bool,
}

impl HeaderFiles {
    pub(super) fn new(needed: bool) -> Self {
        HeaderFiles { directory: None, is_tried: false, needed, has_unread: false }
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

    /// Adds to the end of a command what its file says as of `now`; of all files that cannot be read, the first is
    /// reported. The file is removed.
    pub(super) fn take(&mut self, path: &Path, now: SystemTime, ended: JobEnd) -> JobEnd {
        let Some(text) = hold::take(path) else { return ended };
        let http = hold::status(&text);
        match hold::parse(&text, now) {
            Ok(retry_after) => JobEnd { http, retry_after, ..ended },
            Err(line) => {
                let is_first = !std::mem::replace(&mut self.has_unread, true);
                JobEnd { http, unread: is_first.then_some(line), ..ended }
            }
        }
    }
}
