//! Limits in files, and noticing that they have changed.

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

/// The pause between two looks at files. With the time to settle, a change is noticed within 200 ms.
const LOOK: Duration = Duration::from_millis(180);

/// The time in which a change is to be complete: a file may be emptied before it is written.
const SETTLE: Duration = Duration::from_millis(20);

/// All limits of a run, and the files that they are read from.
pub(crate) struct LimitsFiles {
    limits: LimitOptions,
    /// Fails for a limit that makes no sense in this run.
    check: fn(&Rate) -> Result<()>,
    /// The content of files that can be read only once, as pipes can.
    read_once: HashMap<PathBuf, String>,
}

impl LimitsFiles {
    /// The files that `limits` name. They are not read before [`load`](Self::load); each limit has to pass `check`
    /// then.
    pub(crate) fn new(limits: LimitOptions, check: fn(&Rate) -> Result<()>) -> Self {
        LimitsFiles { limits, check, read_once: HashMap::new() }
    }

    /// The limits as they are now.
    ///
    /// # Errors
    /// A file that cannot be read or holds no limit, or a limit that makes no sense, with its place.
    pub(crate) fn load(&mut self) -> Result<Vec<Rate>> {
        let LimitsFiles { limits, check, read_once } = self;
        let rates = limits.resolve(|path| {
            if let Some(text) = read_once.get(path) {
                return Ok(text.clone());
            }
            let (mut file, mut text) = (File::open(path)?, String::new());
            file.read_to_string(&mut text)?;
            if !file.metadata()?.is_file() {
                read_once.insert(path.to_owned(), text.clone());
            }
            Ok(text)
        })?;
        rates.iter().try_for_each(*check)?;
        Ok(rates)
    }

    fn changing(&self) -> impl Iterator<Item = &Path> {
        self.limits.files().filter(|path| !self.read_once.contains_key(*path))
    }
}

/// Starts a thread that tells of changes to `rates`, which `files` held when they were loaded last.
pub(super) fn watch(files: LimitsFiles, rates: Vec<Rate>, waker: Waker) -> io::Result<()> {
    let paths: Vec<_> = files.changing().map(Path::to_owned).collect();
    if paths.is_empty() {
        return Ok(());
    }
    super::spawn("limits", move || {
        let mut watcher = Watcher { files, rates, told: String::new(), waker };
        let (mut seen, mut was_new) = (Vec::new(), false);
        loop {
            let found: Vec<_> = paths.iter().map(|path| stamp(path)).collect();
            let is_new = found != seen;
            if is_new {
                thread::sleep(SETTLE);
            }
            // Two changes within a tick of the system's clock may leave size and time alike, so it is read once more.
            if (is_new || was_new) && !watcher.reload() {
                break;
            }
            (seen, was_new) = (found, is_new);
            thread::sleep(LOOK);
        }
    })
}

struct Watcher {
    files: LimitsFiles,
    /// As they were told last.
    rates: Vec<Rate>,
    /// The error that was told last, unless all is well again.
    told: String,
    waker: Waker,
}

impl Watcher {
    /// Tells of the limits if they have changed. Returns whether anybody listens.
    fn reload(&mut self) -> bool {
        match self.files.load() {
            Ok(rates) => {
                self.told.clear();
                let is_new = rates != self.rates;
                self.rates.clone_from(&rates);
                !is_new || self.waker.send(Event::Limits(rates))
            }
            Err(error) => {
                let text = format!("{error:#}");
                let is_new = text != self.told;
                self.told = text;
                !is_new || self.waker.send(Event::BadLimits(error))
            }
        }
    }
}

/// The marks that tell one state of a file from another; none, if it cannot be looked at.
fn stamp(file: &Path) -> Option<([u64; 3], [i64; 2])> {
    let data = fs::metadata(file).ok()?;
    Some(([data.dev(), data.ino(), data.size()], [data.mtime(), data.mtime_nsec()]))
}
