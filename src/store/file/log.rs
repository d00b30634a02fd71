//! The log of a state, and whether it is still what its index says was written: SQLite would take what is left of it for all
//! that there ever was.
//!
//! The index outlives whoever is killed; SQLite builds it anew when the first process opens the state. Both formats are
//! those of <https://sqlite.org/walformat.html>.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::files::{companions, present};

/// A header of 48 bytes, and a copy of it.
const INDEX_HEADER: usize = 48;
const INDEX_VERSION: u32 = 3_007_000;
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// An open index, with the log that it is of.
pub(super) struct Index {
    file: File,
    log: PathBuf,
}

/// What an index says was written.
struct Written {
    frames: usize,
    page: usize,
    salt: [u8; 8],
    sum: [u32; 2],
}

impl Index {
    /// The index of the state at `path`, if there is one.
    ///
    /// To close it takes away the locks that SQLite has on it, whatever descriptor they were taken by.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let [log, index] = companions(path);
        Ok(present(File::open(index))?.map(|file| Index { file, log }))
    }

    /// Whether the log is too short for what was written to it.
    pub(super) fn is_cut(&self) -> bool {
        let length = || fs::symlink_metadata(&self.log).map_or(0, |log| log.len());
        self.written().is_some_and(|written| length() < written.length() as u64)
    }

    /// Whether not all that was written can be read, while nobody writes.
    pub(super) fn is_torn(&self) -> io::Result<bool> {
        let Some(written) = self.written() else { return Ok(false) };
        let log = present(fs::read(&self.log))?.unwrap_or_default();
        // Whoever closes a state last removes the index first.
        Ok(!written.is_in(&log) && self.file.metadata()?.nlink() > 0)
    }

    /// Nothing, if nothing was written, or that is not known.
    fn written(&self) -> Option<Written> {
        let mut bytes = [0; 2 * INDEX_HEADER];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        Written::parse(&bytes)
    }
}

impl Written {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, copy) = bytes.split_at(INDEX_HEADER);
        let number = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let page = u16::from_ne_bytes([header[14], header[15]]);
        let is_known = header == copy && number(0) == INDEX_VERSION && header[12] == 1;
        let frames = usize::try_from(number(16)).ok().filter(|frames| is_known && *frames > 0)?;
        let sum = [number(24), number(28)];
        Some(Written { frames, page: page.into(), salt: *header[32..].first_chunk()?, sum })
    }

    fn length(&self) -> usize {
        LOG_HEADER + self.frames * (FRAME_HEADER + self.page)
    }

    /// Whether SQLite would find all of it in a log.
    fn is_in(&self, log: &[u8]) -> bool {
        let Some((header, frames)) =
            log.get(..self.length()).and_then(|log| log.split_at_checked(LOG_HEADER))
        else {
            return false;
        };
        let word = if header[3] & 1 == 1 { u32::from_be_bytes } else { u32::from_le_bytes };
        let is_noted = |sum: [u32; 2], at: &[u8]| *at == *sum.map(u32::to_be_bytes).as_flattened();
        let mut sum = add([0, 0], &header[..24], word);
        let is_begun = header[16..24] == self.salt && is_noted(sum, &header[24..]);
        let mut is_good = |frame: &[u8]| {
            sum = add(add(sum, &frame[..8], word), &frame[FRAME_HEADER..], word);
            frame[8..16] == self.salt && is_noted(sum, &frame[16..24])
        };
        is_begun && frames.chunks(FRAME_HEADER + self.page).all(&mut is_good) && sum == self.sum
    }
}

/// Goes on with the checksum of a log.
fn add(sum: [u32; 2], bytes: &[u8], word: fn([u8; 4]) -> u32) -> [u32; 2] {
    bytes.as_chunks().0.as_chunks().0.iter().fold(sum, |[first, second], [one, two]| {
        let first = first.wrapping_add(word(*one)).wrapping_add(second);
        [first, second.wrapping_add(word(*two)).wrapping_add(first)]
    })
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
        let (_connection, index) = used(&directory.path().join("state"));
        let whole = fs::read(&index.log).unwrap();
        let is_torn = |bytes: &[u8]| {
            fs::write(&index.log, bytes).unwrap();
            index.is_torn().unwrap()
        };
        assert!(!is_torn(&whole) && !is_torn(&[&whole[..], b"more"].concat()));
        for length in (0..whole.len()).step_by(101).chain([whole.len() - 1]) {
            assert!(is_torn(&whole[..length]), "{length} bytes");
            assert!(index.is_cut(), "{length} bytes");
        }
        for byte in (0..LOG_HEADER).chain((LOG_HEADER..whole.len()).step_by(101)) {
            let mut changed = whole.clone();
            changed[byte] ^= 0x10;
            assert!(is_torn(&changed), "byte {byte}");
            assert!(!index.is_cut(), "byte {byte}");
        }
    }

    #[test]
    fn what_was_written_into_the_database_is_not_missed() {
        let directory = tempfile::tempdir().unwrap();
        let (connection, index) = used(&directory.path().join("state"));
        // A reader would keep it from being begun anew.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        assert_eq!(fs::metadata(&index.log).unwrap().len(), 0);
        assert!(!index.is_torn().unwrap() && !index.is_cut());
        drop(connection);
        assert!(!index.is_torn().unwrap());
    }
}
