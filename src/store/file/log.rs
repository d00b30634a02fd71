//! Detects that the log of a state lacks some of what its index says was written: SQLite would take the rest for the
//! whole.
//!
//! The index survives processes that are killed. The first process that opens the state has SQLite rebuild it from the
//! good part of the log, so the index from before is compared with the one from after. Its format is that of
//! <https://sqlite.org/walformat.html>.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::files::companions;
use super::refusal::present;

const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// A header of 48 bytes and its copy.
type RawHeader = [u8; 96];

/// An open index, and the log that it belongs to.
///
/// Closing it releases the locks that SQLite has on it, whatever descriptor they were taken by.
pub(super) struct Index {
    file: File,
    log: PathBuf,
}

/// The claim of an index: how much was written to the log.
pub(super) struct IndexClaim {
    header: RawHeader,
    frames: u32,
    salt: [u8; 8],
    /// The length of the log, in bytes.
    length: u64,
}

impl Index {
    /// The index of the state at `path`, if there is one.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let [log, index] = companions(path);
        Ok(present(File::options().read(true).write(true).open(index))?.map(|file| Index { file, log }))
    }

    /// The claim; `None` if nothing was written, or if that is not known.
    pub(super) fn written(&self) -> Option<IndexClaim> {
        const VERSION: u32 = 3_007_000;
        let mut header = [0; size_of::<RawHeader>()];
        self.file.read_exact_at(&mut header, 0).ok()?;
        let number = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let page = u16::from_ne_bytes([header[14], header[15]]);
        let is_known = header[..48] == header[48..] && number(0) == VERSION && header[12] == 1;
        let frames = Some(number(16)).filter(|frames| is_known && *frames > 0)?;
        let length = LOG_HEADER + u64::from(frames) * (FRAME_HEADER + u64::from(page));
        Some(IndexClaim { header, frames, salt: *header[32..].first_chunk()?, length })
    }

    /// True if the log is shorter than the index claims.
    pub(super) fn is_cut(&self) -> bool {
        let length = || fs::symlink_metadata(&self.log).map_or(0, |log| log.len());
        self.written().is_some_and(|written| length() < written.length)
    }

    /// True if SQLite has not found all that was `written`. No one may have written meanwhile.
    pub(super) fn lacks(&self, written: &IndexClaim) -> bool {
        let is_all = |found: IndexClaim| found.salt == written.salt && found.frames >= written.frames;
        self.is_cut() || !self.written().is_some_and(is_all)
    }

    /// Puts back the claim from before, so that the next process that opens the state notices as well.
    pub(super) fn restore(&self, written: &IndexClaim) {
        // If that fails, the next process takes the rest for the whole.
        let _ = self.file.write_all_at(&written.header, 0);
    }

    /// True if it is still that of the state: the last process to close a state removes the index first, and then the
    /// log.
    pub(super) fn is_in_use(&self) -> bool {
        self.file.metadata().is_ok_and(|index| index.nlink() > 0)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A database that is in use, and its index.
    fn used(path: &Path) -> (Connection, Index) {
        let connection = Connection::open(path).expect("a database");
        let fill = "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; CREATE TABLE t(x)";
        connection.execute_batch(fill).expect("made");
        for number in 0..20 {
            connection.execute("INSERT INTO t VALUES (?1)", [number]).expect("inserted");
        }
        (connection, Index::open(path).expect("readable").expect("an index"))
    }

    #[test]
    fn a_log_is_torn_if_any_byte_of_it_was_changed_or_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let (original, copy) = (directory.path().join("state"), directory.path().join("copy"));
        let (_connection, index) = used(&original);
        let (whole, written) = (fs::read(&index.log).unwrap(), index.written().unwrap());
        fs::copy(&original, &copy).unwrap();
        let [log, copied_index] = companions(&copy);
        // Opens it as the first process does.
        let lacks = |bytes: &[u8]| {
            fs::write(&log, bytes).unwrap();
            fs::write(&copied_index, written.header).unwrap();
            let connection = Connection::open(&copy).unwrap();
            connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
            let _ = connection.query_row("SELECT count(*) FROM t", [], |_| Ok(()));
            let index = Index::open(&copy).unwrap().unwrap();
            let lacks = index.lacks(&written);
            // Otherwise, it would be written into the database and removed.
            fs::remove_file(&log).unwrap();
            lacks
        };
        assert!(!lacks(&whole) && !lacks(&[&whole[..], b"more"].concat()));
        for length in (0..whole.len()).step_by(101).chain([whole.len() - 1]) {
            assert!(lacks(&whole[..length]), "{length} bytes");
        }
        for byte in (0..32).chain((32..whole.len()).step_by(101)) {
            let mut changed = whole.clone();
            changed[byte] ^= 0x10;
            assert!(lacks(&changed), "byte {byte}");
        }
        for length in (0..whole.len()).step_by(101).chain([whole.len() - 1]) {
            fs::write(&index.log, &whole[..length]).unwrap();
            assert!(index.is_cut(), "{length} bytes");
        }
    }

    #[test]
    fn what_was_written_into_the_database_is_not_missed() {
        let directory = tempfile::tempdir().unwrap();
        let (connection, index) = used(&directory.path().join("state"));
        // A reader would keep the log from being restarted.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        assert_eq!(fs::metadata(&index.log).unwrap().len(), 0);
        assert!(index.written().is_none() && !index.is_cut() && index.is_in_use());
        drop(connection);
        assert!(!index.is_in_use());
    }
}
