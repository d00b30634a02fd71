//! A file of whole lines with a known start, to which one run at a time appends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::libc::O_NONBLOCK;

use crate::source::FileRange;

/// The number of bytes read at once in search of the last line.
const BLOCK: usize = 64 << 10;

/// If a run is killed while it starts a command, the child holds the lock until it calls `exec`.
const LONGEST_LOCK_WAIT: Duration = Duration::from_millis(500);
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// An open log, which is locked.
pub(super) struct LogFile {
    file: File,
    /// The end of its last whole line.
    end: u64,
    /// True if part of a line may follow.
    is_torn: bool,
}

impl LogFile {
    /// Opens a log that begins with `start`, or creates it. A `start` that is a whole line is the header.
    ///
    /// # Errors
    /// The file cannot be opened or written to, is in use, or is not such a log.
    pub(super) fn open(path: &Path, start: &str) -> Result<Self> {
        let name = path.display();
        // Opening a device or a FIFO must not block.
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).custom_flags(O_NONBLOCK);
        let file = options.open(path).with_context(|| format!("cannot open {name}"))?;
        let kind = file.metadata().with_context(|| format!("cannot access {name}"))?.file_type();
        ensure!(
            kind.is_file(),
            "{name} is not a regular file, so --resume could not read it: name another file"
        );
        lock(&file, path)?;
        let end = end_of_log(&file, start, path)?;
        // Part of a line, left when the machine died, must not run into the next one.
        file.set_len(end).with_context(|| format!("cannot write to {name}"))?;
        let mut log = LogFile { file, end, is_torn: false };
        if end == 0 && start.ends_with('\n') {
            log.append(start).with_context(|| format!("cannot write to {name}"))?;
        }
        Ok(log)
    }

    /// Appends a line in one write: readers see only whole lines. Adds nothing on an error.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        self.mend()?;
        self.is_torn = true;
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // If that fails too, it is tried again before the next line.
            let _ = self.mend();
            return Err(error);
        }
        self.is_torn = false;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Cuts off part of a line.
    fn mend(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.end)?;
            self.is_torn = false;
        }
        Ok(())
    }
}

/// The whole lines, including the header, of a log that begins with `start`, even while a run is using it.
///
/// # Errors
/// The file cannot be opened, or is not such a log.
pub(super) fn lines(path: &Path, start: &str) -> Result<impl Iterator<Item = io::Result<Vec<u8>>>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let end = end_of_log(&file, start, path)?;
    Ok(BufReader::new(file.take(end)).split(b'\n'))
}

fn lock(file: &File, path: &Path) -> Result<()> {
    let (name, start) = (path.display(), Instant::now());
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if start.elapsed() < LONGEST_LOCK_WAIT => thread::sleep(LOCK_RETRY),
            Err(TryLockError::WouldBlock) => {
                bail!("{name} is in use by another run: give each run its own log")
            }
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let what = format!("cannot lock {name}: name a file on another file system");
                return Err(error).context(what);
            }
        }
    }
}

/// The end of the last whole line of a log that begins with `start` or is empty. In a new log, even the header may be
/// torn.
fn end_of_log(file: &File, start: &str, path: &Path) -> Result<u64> {
    let (name, mut found) = (path.display(), Vec::new());
    let read = FileRange { file, range: 0..start.len() as u64 }.read_to_end(&mut found);
    ensure!(start.as_bytes().starts_with(&found), "{name} is not a log of throttle: name another file");
    let end = read.and_then(|read| if read < start.len() { Ok(0) } else { end_of_last_line(file) });
    end.with_context(|| format!("cannot read {name}"))
}

fn end_of_last_line(file: &File) -> io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let mut end = file.metadata()?.len();
    while end > 0 {
        let length = BLOCK.min(usize::try_from(end).unwrap_or(BLOCK));
        let start = end - length as u64;
        file.read_exact_at(&mut block[..length], start)?;
        if let Some(at) = memchr::memrchr(b'\n', &block[..length]) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HEADER: &str = "a\tb\n";

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        file
    }

    fn error_of(path: &Path) -> String {
        format!("{:#}", LogFile::open(path, HEADER).err().unwrap())
    }

    #[test]
    fn a_torn_line_is_cut_off_however_long_it_is() {
        for torn in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let file = file(&[b"a\tb\n1\t2\n".to_vec(), vec![b'x'; torn]].concat());
            let mut log = LogFile::open(file.path(), HEADER).unwrap();
            log.append("3\t4\n").unwrap();
            assert_eq!(fs::read(file.path()).unwrap(), b"a\tb\n1\t2\n3\t4\n", "{torn}");
            let lines: Vec<_> = lines(file.path(), HEADER).unwrap().skip(1).map(Result::unwrap).collect();
            assert_eq!(lines, [b"1\t2", b"3\t4"]);
        }
        for torn in ["", "a", "a\tb"] {
            let file = file(torn.as_bytes());
            LogFile::open(file.path(), HEADER).unwrap();
            assert_eq!(fs::read(file.path()).unwrap(), HEADER.as_bytes());
        }
    }

    #[test]
    fn what_is_no_log_is_left_alone() {
        for other in ["precious\n", "precious", "a\tprecious", "\n"] {
            let file = file(other.as_bytes());
            assert!(error_of(file.path()).ends_with("is not a log of throttle: name another file"));
            assert_eq!(fs::read(file.path()).unwrap(), other.as_bytes());
        }
        assert!(error_of(Path::new("/dev/null")).starts_with("/dev/null is not a regular file"));
    }

    #[test]
    fn a_log_is_for_one_run_at_a_time() {
        let file = file(b"");
        let _first = LogFile::open(file.path(), HEADER).unwrap();
        assert!(error_of(file.path()).contains("is in use by another run"));
    }

    #[test]
    fn what_is_left_of_a_run_that_was_killed_is_waited_for() {
        let file = file(b"");
        let killed = LogFile::open(file.path(), HEADER).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(10 * LOCK_RETRY);
                drop(killed);
            });
            LogFile::open(file.path(), HEADER).unwrap();
        });
    }
}
