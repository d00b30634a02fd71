//! Noticing that the limits in files have changed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::notices::Notices;
use super::waker::Waker;
use super::world::Event;
use crate::config::{Limits, Rate};

/// How often files are looked at if no notice of a change comes: some file systems give none.
const LOOK: Duration = Duration::from_secs(1);

/// How long a change is given to be complete: a file may be emptied before it is written.
const SETTLE: Duration = Duration::from_millis(20);

/// Starts a thread that tells of changes to `rates`, which `limits` were when they were loaded last. Pipes and the like
/// are read once, and not watched.
pub(super) fn watch(limits: Limits, rates: Vec<Rate>, waker: Waker) -> io::Result<()> {
    let files: Vec<_> = limits.files().map(Path::to_owned).collect();
    if files.is_empty() {
        return Ok(());
    }
    super::spawn("limits", move || {
        let notices = Notices::of(&files);
        let mut watcher = Watcher { limits, rates, told: String::new(), waker };
        let mut seen = Vec::new();
        loop {
            let now = files.iter().map(|file| Stamp::of(file)).collect();
            if std::mem::replace(&mut seen, now) != seen && !watcher.reload() {
                break;
            }
            if notices.wait(LOOK) {
                thread::sleep(SETTLE);
                notices.forget();
                // A change may leave size and time as they were.
                seen.clear();
            }
        }
    })?;
    Ok(())
}

struct Watcher {
    limits: Limits,
    /// What was told last.
    rates: Vec<Rate>,
    /// The error that was told last, unless all is well again.
    told: String,
    waker: Waker,
}

impl Watcher {
    /// Tells what has become of the limits. Returns whether anybody listens.
    fn reload(&mut self) -> bool {
        match self.limits.load() {
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

/// What tells one state of a file from another; nothing, if it cannot be looked at.
#[derive(PartialEq, Eq)]
struct Stamp(Option<[u64; 3]>, Option<(i64, i64)>);

impl Stamp {
    fn of(file: &Path) -> Self {
        let metadata = fs::metadata(file).ok();
        let identity = metadata.as_ref().map(|data| [data.dev(), data.ino(), data.size()]);
        Stamp(identity, metadata.map(|data| (data.mtime(), data.mtime_nsec())))
    }
}
