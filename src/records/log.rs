//! The job log: a line for each command that ended, read back by later runs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::file::LogFile;
use super::row::Entry;
use super::{json, tsv};
use crate::config::LogFormat;
use crate::exit::End;

/// A file in which commands are noted.
pub struct JobLog {
    file: LogFile,
    format: LogFormat,
    /// True if commands run batches: JSON then has a list of items, even of one.
    lists: bool,
    /// Lines of commands that exited with 0 but whose output is not out yet, by the number of their first item.
    unprinted: HashMap<u64, String>,
    /// A line could not be written. For the others, the same error is not worth a message.
    has_failed: bool,
}

impl JobLog {
    /// Opens a log to append to, or creates it. An existing log keeps its format; `format`, if given, must be the same.
    /// With `lists`, commands may take several items each.
    ///
    /// # Errors
    /// The file cannot be opened or written to, is in use, or is not such a log.
    pub fn open(path: &Path, format: Option<LogFormat>, lists: bool) -> Result<Self> {
        let found = found(path);
        ensure!(
            format.is_none() || found.is_none() || format == found,
            "{} has another format: leave out --log-format, or name another file",
            path.display()
        );
        let format = found.or(format).unwrap_or_default();
        let file = LogFile::open(path, start(format))?;
        Ok(JobLog { file, format, lists, unprinted: HashMap::new(), has_failed: false })
    }

    /// Notes a command that has ended: in a whole line, or not at all. If it exited with 0, it is noted once its output
    /// is [`printed`](Self::printed).
    ///
    /// # Errors
    /// The file cannot be written to, and could be until now.
    pub fn note(&mut self, entry: &Entry) -> Result<()> {
        let line = match self.format {
            LogFormat::Tsv => tsv::line(entry),
            LogFormat::Json => json::line(entry, self.lists),
        };
        if entry.end == End::Exited(0) {
            self.unprinted.insert(entry.items.first().map_or(0, |(seq, _)| *seq), line);
            return Ok(());
        }
        self.append(&line)
    }

    /// Notes that the output of the command whose first item is `first` is out.
    ///
    /// # Errors
    /// The file cannot be written to, and could be until now.
    pub fn printed(&mut self, first: u64) -> Result<()> {
        self.unprinted.remove(&first).map_or(Ok(()), |line| self.append(&line))
    }

    fn append(&mut self, line: &str) -> Result<()> {
        match self.file.append(line) {
            Err(_) if std::mem::replace(&mut self.has_failed, true) => Ok(()),
            appended => appended.context("cannot write to the log"),
        }
    }
}

pub(super) fn start(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Tsv => tsv::HEADER,
        LogFormat::Json => json::START,
    }
}

/// The format of a log that exists and is not empty.
pub(super) fn found(path: &Path) -> Option<LogFormat> {
    // Opening anything but a file might block.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut first = [0];
    File::open(path).ok()?.read_exact(&mut first).ok()?;
    Some(if first == *b"{" { LogFormat::Json } else { LogFormat::Tsv })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::super::Completed;
    use super::*;
    use crate::config::Resume;
    use crate::time::Time;

    fn note(log: &mut JobLog, seq: u64, item: &[u8], end: End) {
        let (started, items) = (Time::ZERO, vec![(seq, item)]);
        let entry = Entry { started, wait: 1_500_000, runtime: 0, attempt: 1, end, items };
        log.note(&entry).unwrap();
    }

    #[test]
    fn what_is_completed_is_known_later_by_its_content_and_number() {
        for (format, torn) in [
            (LogFormat::Tsv, &b"7\t0.0\t0.0\t0.0\t1\t0\t0\ttor"[..]),
            (LogFormat::Json, b"{\"seq\":7,\"start\":0.0,\"exit\":0,\"signal\":0,\"item\":\"tor"),
        ] {
            check_completed(format, torn);
        }
    }

    fn check_completed(format: LogFormat, torn: &[u8]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = JobLog::open(&path, Some(format), false).unwrap();
        for (first, item) in (1..).zip([&b"a"[..], b"a", b"b\tc", b"\xff", b"unprinted"]) {
            note(&mut log, first, item, End::Exited(0));
        }
        (1..5).for_each(|first| log.printed(first).unwrap());
        note(&mut log, 6, b"failed", End::Exited(1));
        note(&mut log, 7, b"killed", End::Killed(9));
        drop(log);
        // A torn line, of an item that is the beginning of another.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(torn).unwrap();
        let other = if format == LogFormat::Tsv { LogFormat::Json } else { LogFormat::Tsv };
        assert!(JobLog::open(&path, Some(other), false).is_err());
        drop(JobLog::open(&path, None, false).unwrap());
        let mut completed = Completed::look(&path, Resume::Unfinished).unwrap();
        let items: [(&[u8], bool); 10] = [
            (b"a", true),
            (b"a", true),
            (b"a", false),
            (b"b\tc", true),
            (b"b\\tc", false),
            (b"\xff", true),
            (b"unprinted", false),
            (b"failed", false),
            (b"killed", false),
            (b"tor", false),
        ];
        for (item, is_completed) in items {
            assert_eq!(completed.take(item), is_completed, "{}", item.escape_ascii());
        }
        let mut known = Completed::look(&path, Resume::New).unwrap();
        let items: [(&[u8], bool); 5] =
            [(b"a", true), (b"failed", true), (b"failed", false), (b"killed", true), (b"unprinted", false)];
        for (item, is_known) in items {
            assert_eq!(known.take(item), is_known, "{}", item.escape_ascii());
        }
    }
}
