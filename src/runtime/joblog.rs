//! The log of commands: one line for each item and attempt, and what can be known from it later.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::exit::End;
use crate::time::SECOND;

const HEADER: &str = "seq\tstart\twait\truntime\tattempt\texit\tsignal\titem\n";

/// A file that commands are noted in, as tab-separated values.
pub struct JobLog {
    file: File,
}

/// What is noted of one item.
pub struct Entry<'a> {
    /// Its number, counted from 1.
    pub seq: u64,
    /// How long it waited, and then ran, in nanoseconds.
    pub wait: u64,
    /// How long its command ran, in nanoseconds.
    pub runtime: u64,
    /// How often it has been tried, this time included.
    pub attempt: u64,
    /// How its command ended.
    pub end: End,
    /// The item itself.
    pub item: &'a [u8],
}

impl JobLog {
    /// Opens a log to be added to, or a new one.
    ///
    /// # Errors
    /// It cannot be opened, is in use, or is something else.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = file.with_context(|| format!("cannot open {name}"))?;
        ensure!(file.try_lock().is_ok(), "{name} is in use by another run: give each run a log of its own");
        let length = whole_lines(&mut file).with_context(|| format!("cannot read {name}"))?;
        ensure!(starts_with_header(&file)?, "{name} is no log of throttle: name another file");
        // What a dying machine left of a line must not run into the next one.
        file.set_len(length).with_context(|| format!("cannot write to {name}"))?;
        let log = JobLog { file };
        if length == 0 {
            log.write(HEADER).with_context(|| format!("cannot write to {name}"))?;
        }
        Ok(log)
    }

    /// The items that are noted as completed with status 0.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn completed(&self) -> Result<Completed> {
        let mut items = HashMap::new();
        (&self.file).seek(SeekFrom::Start(0))?;
        for line in BufReader::new(&self.file).split(b'\n').skip(1) {
            let line = line.context("cannot read the log")?;
            let fields: Vec<_> = line.splitn(8, |&byte| byte == b'\t').collect();
            if let [_, _, _, _, _, b"0", b"0", item] = fields[..] {
                *items.entry(item.into()).or_default() += 1;
            }
        }
        Ok(Completed { items })
    }

    /// Notes an item whose command has just ended.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub fn note(&self, entry: &Entry) -> Result<()> {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let start = start.saturating_sub(entry.runtime.into());
        let exit = entry.end.code();
        let signal = if let End::Killed(signal) = entry.end { signal } else { 0 };
        let Entry { seq, wait, runtime, attempt, item, .. } = *entry;
        let line = format!(
            "{seq}\t{}\t{}\t{}\t{attempt}\t{exit}\t{signal}\t{}\n",
            seconds(start),
            seconds(wait.into()),
            seconds(runtime.into()),
            escape(item)
        );
        self.write(&line).context("cannot write to the log")
    }

    /// In one write, so that whoever reads along sees whole lines.
    fn write(&self, line: &str) -> io::Result<()> {
        (&self.file).write_all(line.as_bytes())
    }
}

/// The length of the file up to the end of its last whole line.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut byte = [0];
    while end > 0 {
        file.seek(SeekFrom::Start(end - 1))?;
        file.read_exact(&mut byte)?;
        if byte == *b"\n" {
            break;
        }
        end -= 1;
    }
    Ok(end)
}

/// Whether the file begins as a log does, or is empty. Of a new log, the header itself may be torn.
fn starts_with_header(mut file: &File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(HEADER.len() as u64).read_to_end(&mut start)?;
    Ok(HEADER.as_bytes().starts_with(&start))
}

fn seconds(nanos: u128) -> String {
    let second = u128::from(SECOND);
    format!("{}.{:03}", nanos / second, nanos % second / 1_000_000)
}

/// An item without tabs, newlines or anything else that does not print; two items never become the same.
fn escape(item: &[u8]) -> String {
    let mut text = String::with_capacity(item.len());
    for chunk in item.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Items that need not be run again.
#[derive(Debug, Default)]
pub struct Completed {
    /// How often each one was completed, by what it is in the log.
    items: HashMap<Box<[u8]>, u64>,
}

impl Completed {
    /// Whether this occurrence of an item has been completed. Each completion counts for one occurrence.
    pub fn take(&mut self, item: &[u8]) -> bool {
        let left = self.items.get_mut(escape(item).as_bytes()).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(item: &[u8], end: End) -> Entry<'_> {
        Entry { seq: 1, wait: 1_500_000, runtime: 0, attempt: 1, end, item }
    }

    #[test]
    fn what_is_completed_is_known_later_by_its_content_and_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = JobLog::open(&path).unwrap();
        for item in [&b"a"[..], b"a", b"b\tc", b"\xff"] {
            log.note(&entry(item, End::Exited(0))).unwrap();
        }
        log.note(&entry(b"failed", End::Exited(1))).unwrap();
        log.note(&entry(b"killed", End::Killed(9))).unwrap();
        drop(log);
        // A torn line, of an item that is the beginning of another.
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"7\t0.0\t0.0\t0.0\t1\t0\t0\ttor")
            .unwrap();
        let mut completed = JobLog::open(&path).unwrap().completed().unwrap();
        let items: [(&[u8], bool); 9] = [
            (b"a", true),
            (b"a", true),
            (b"a", false),
            (b"b\tc", true),
            (b"b\\tc", false),
            (b"\xff", true),
            (b"failed", false),
            (b"killed", false),
            (b"tor", false),
        ];
        for (item, is_completed) in items {
            assert_eq!(completed.take(item), is_completed, "{}", item.escape_ascii());
        }
    }

    #[test]
    fn other_files_and_other_runs_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for other in ["precious\n", "precious", "seq\tprecious"] {
            std::fs::write(&path, other).unwrap();
            assert!(format!("{:#}", JobLog::open(&path).err().unwrap()).contains("is no log of throttle"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        std::fs::write(&path, "").unwrap();
        let _first = JobLog::open(&path).unwrap();
        assert!(format!("{:#}", JobLog::open(&path).err().unwrap()).contains("in use"));
    }

    #[test]
    fn escaped_items_are_one_line_and_distinct() {
        let items: [&[u8]; 6] = [b"\t", b"\\t", b"\x1b", b"\\u{1b}", b"\xff", b"\\xff"];
        let escaped: Vec<_> = items.iter().map(|item| escape(item)).collect();
        assert_eq!(escaped, ["\\t", "\\\\t", "\\u{1b}", "\\\\u{1b}", "\\xff", "\\\\xff"]);
        assert_eq!(escape("é".as_bytes()), "é");
    }
}
