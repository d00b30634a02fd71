//! Limits in files, and a watch for changes to them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::waker::Waker;
use super::world::Event;
use crate::config::{LimitOptions, Rate};

/// The pause between two looks at the files. With the time to settle, a change is noticed within 200 ms.
const CHECK_INTERVAL: Duration = Duration::from_millis(180);

/// The time allowed for a change to complete: a file may be emptied before it is written.
const SETTLE: Duration = Duration::from_millis(20);

/// The longest list of limits: a device may have no end.
const MAX_BYTES: u64 = 1 << 20;

/// All limits of a run, and the files that they are read from.
pub(crate) struct LimitsFiles {
    limits: LimitOptions,
    /// Fails for a limit that makes no sense in this run.
    check: Box<dyn Fn(&Rate) -> Result<()> + Send>,
    /// The content of files that can be read only once, such as pipes.
    read_once: HashMap<PathBuf, String>,
    /// All others have been read: whoever opens a pipe in place of one would wait for its writer.
    are_files: bool,
}

impl LimitsFiles {
    /// The files that `limits` name. They are read by [`load`](Self::load), where each limit must pass `check`.
    pub(crate) fn new(limits: LimitOptions, check: impl Fn(&Rate) -> Result<()> + Send + 'static) -> Self {
        LimitsFiles { limits, check: Box::new(check), read_once: HashMap::new(), are_files: false }
    }

    /// Loads the limits as they are now.
    ///
    /// # Errors
    /// A file cannot be read or holds no limit, or a limit makes no sense. The error names the place.
    pub(crate) fn load(&mut self) -> Result<Vec<Rate>> {
        let LimitsFiles { limits, check, read_once, are_files } = self;
        let rates = limits.resolve(|path| {
            if let Some(text) = read_once.get(path) {
                return Ok(text.clone());
            }
            if *are_files && !fs::metadata(path)?.is_file() {
                return Err(io::Error::other("it is no longer a file"));
            }
            let (file, mut text) = (File::open(path)?, String::new());
            let is_file = file.metadata()?.is_file();
            file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
            if text.len() as u64 > MAX_BYTES {
                return Err(io::Error::other("it is longer than 1 MiB: name a file of limits"));
            }
            if !is_file {
                read_once.insert(path.to_owned(), text.clone());
            }
            Ok(text)
        })?;
        rates.iter().try_for_each(check)?;
        *are_files = true;
        Ok(rates)
    }
}

/// Starts a thread that reports changes to `rates`, the limits that `files` held when they were last loaded.
pub(super) fn watch(mut files: LimitsFiles, mut rates: Vec<Rate>, waker: Waker) -> Result<()> {
    let named = files.limits.files().filter(|path| !files.read_once.contains_key(*path));
    let paths: Vec<_> = named.map(Path::to_owned).collect();
    if paths.is_empty() {
        return Ok(());
    }
    super::spawn("limits", move || {
        // `told` is the error that was reported last; empty if all is well.
        let (mut seen, mut was_new, mut told) = (Vec::new(), false, String::new());
        loop {
            let found: Vec<_> = paths.iter().map(|path| stamp(path)).collect();
            let is_new = found != seen;
            if is_new {
                thread::sleep(SETTLE);
            }
            // Two changes within a tick of the system's clock may leave the same size and time, so the files are read
            // once more.
            if is_new || was_new {
                let limits = files.load();
                let error = limits.as_ref().err().map_or_else(String::new, |error| format!("{error:#}"));
                let is_told = limits.as_ref().map_or(error == told, |new| *new == rates);
                limits.iter().for_each(|new| rates.clone_from(new));
                told = error;
                if !is_told && !waker.send(Event::Limits(limits)) {
                    break;
                }
            }
            (seen, was_new) = (found, is_new);
            thread::sleep(CHECK_INTERVAL);
        }
    })
}

/// The metadata that distinguishes versions of a file; `None` if it cannot be examined. The time of its last change, as
/// that of the last write can be set.
fn stamp(file: &Path) -> Option<([u64; 3], [i64; 2])> {
    let data = fs::metadata(file).ok()?;
    Some(([data.dev(), data.ino(), data.size()], [data.ctime(), data.ctime_nsec()]))
}
