//! The metrics of a run in a text file, for the textfile collector of Prometheus' node exporter.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::exit::Exit;
use crate::schedule::Schedule;
use crate::time::{SECOND, Time, Wall};
use crate::ui::prometheus::text;

/// Nanoseconds from one version to the next. Much less would keep an idle process awake.
const EVERY: u64 = SECOND;

/// The permissions of a new file, before the umask.
const MODE: u32 = 0o666;

/// A file that readers always find complete: each version replaces the one before.
pub struct TextFile {
    path: PathBuf,
    /// The label that distinguishes the run from others whose files are read together.
    run: String,
    /// The instant at which the next version is due.
    pub(super) write_at: Time,
    /// True if the last write failed.
    is_failing: bool,
}

impl TextFile {
    /// Creates the file with its first version, at `now`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, schedule: &Schedule, now: Time, wall: Wall) -> Result<Self> {
        let name = path.display();
        // A symbolic link stays; the file that it points to is replaced.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Ok(found) = fs::metadata(&target) {
            ensure!(!found.is_dir(), "{name} is a directory: name a file in it, such as throttle.prom");
            ensure!(found.is_file(), "{name} is not a regular file: name another one");
        }
        let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut file = TextFile { path: target, run, write_at: now, is_failing: false };
        file.write(schedule, now, wall, None)?;
        Ok(file)
    }

    /// Writes the version of `now`, with the `exit` if it is the last one.
    ///
    /// # Errors
    /// It cannot be written, but the time before it could.
    pub(super) fn write(
        &mut self,
        schedule: &Schedule,
        now: Time,
        wall: Wall,
        exit: Option<Exit>,
    ) -> Result<()> {
        self.write_at = now.saturating_add(EVERY);
        let text = text(&self.run, &schedule.metrics(now), wall, exit);
        let result = replace(&self.path, text.as_bytes());
        let failed_before = std::mem::replace(&mut self.is_failing, result.is_err());
        match result {
            Err(_) if failed_before => Ok(()),
            result => result.with_context(|| format!("cannot write metrics to {}", self.path.display())),
        }
    }
}

/// Writes a temporary file next to `path`, under a name that the collector skips, and renames it. It is not synced: no
/// power failure matters enough to wait for the disk.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".throttle-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(directory)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_reader_finds_each_version_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        let version = |length: usize| vec![b'x'; length * 1000];
        replace(&path, &version(1)).unwrap();
        let reader = thread::spawn({
            let path = path.clone();
            move || {
                let mut sizes = vec![];
                while sizes.last() != Some(&0) {
                    sizes.push(fs::read(&path).expect("it is always there").len());
                }
                sizes
            }
        });
        (1..=300).for_each(|length| replace(&path, &version(length)).unwrap());
        replace(&path, &[]).unwrap();
        let sizes = reader.join().unwrap();
        assert!(sizes.iter().all(|size| size % 1000 == 0) && sizes.is_sorted_by(|a, b| a <= b || *b == 0));
    }
}
