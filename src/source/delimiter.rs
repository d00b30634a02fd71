//! The ends of records.

use std::borrow::Cow;

use memchr::memmem::Finder;

use super::csv::{self, Scan};
use crate::config::{Cleaning, InputOptions, Table};

/// The end of a record: one byte or several; in a table, a newline outside quotes, perhaps after a CR.
///
/// If delimiters overlap, the first counts: records are cut from left to right.
#[derive(Clone, Debug)]
pub struct Delimiter {
    finder: Finder<'static>,
    /// The separator of the fields of a table.
    csv: Option<u8>,
}

impl Delimiter {
    /// A delimiter of these bytes.
    ///
    /// # Panics
    /// If `bytes` is empty.
    pub fn new(bytes: &[u8]) -> Self {
        assert!(!bytes.is_empty(), "records cannot end at nothing");
        Delimiter { finder: Finder::new(bytes).into_owned(), csv: None }
    }

    /// The delimiter of the items of an input.
    pub fn of(input: &InputOptions) -> Self {
        Delimiter { csv: input.table().map(Table::separator), ..Delimiter::new(&input.delimiter) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.finder.needle()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The most bytes at the end of an unfinished record that may belong to its delimiter.
    pub(super) fn most_begun(&self) -> usize {
        if self.csv.is_some() { 1 } else { self.len() - 1 }
    }

    /// True if records are those of a table.
    pub(super) fn is_csv(&self) -> bool {
        self.csv.is_some()
    }

    /// The number of whole records at the start of `bytes`, and their total length.
    pub(crate) fn whole(&self, bytes: &[u8]) -> (u64, usize) {
        self.whole_from(bytes, &mut Scan::default())
    }

    /// Like [`Delimiter::whole`], where the end of the first record was already looked for as far as `scan` says. If
    /// there is none, the search may go on from there once more bytes are known.
    pub(super) fn whole_from(&self, bytes: &[u8], scan: &mut Scan) -> (u64, usize) {
        let rest = &bytes[scan.at..];
        match self.bytes() {
            &[byte] if self.csv.is_none() || csv::is_plain(bytes, scan) => {
                let end = memchr::memrchr(byte, rest).map_or(0, |at| at + 1);
                let records = memchr::memchr_iter(byte, &rest[..end]).count() as u64;
                let before = std::mem::replace(&mut scan.at, bytes.len());
                (records, if records > 0 { before + end } else { 0 })
            }
            _ => {
                let (mut records, mut whole) = (0, 0);
                while let Some(length) = self.end(&bytes[whole..], scan) {
                    (records, whole) = (records + 1, whole + length);
                }
                (records, whole)
            }
        }
    }

    /// The length of the first record, delimiter included, if it is whole. `scan` is as for [`Delimiter::whole_from`].
    pub(super) fn end(&self, bytes: &[u8], scan: &mut Scan) -> Option<usize> {
        if let Some(separator) = self.csv {
            return csv::end_of_record(bytes, separator, scan);
        }
        let rest = &bytes[scan.at..];
        let found = match self.bytes() {
            &[byte] => memchr::memchr(byte, rest),
            _ => self.finder.find(rest),
        };
        if let Some(found) = found {
            return Some(std::mem::take(scan).at + found + self.len());
        }
        // The last bytes may be the beginning of a delimiter.
        scan.at = (bytes.len() + 1).saturating_sub(self.len()).max(scan.at);
        None
    }

    /// The length of the first record, delimiter included; all of `bytes` if it has none.
    pub(crate) fn first(&self, bytes: &[u8]) -> usize {
        self.end(bytes, &mut Scan::default()).unwrap_or(bytes.len())
    }

    /// The length of the first `records` records, delimiters included; all of `bytes` if it has fewer.
    pub(crate) fn length(&self, bytes: &[u8], records: u64) -> usize {
        (0..records).zip(self.split_inclusive(bytes)).map(|(_, record)| record.len()).sum()
    }

    pub(crate) fn split_inclusive<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let (record, tail) = rest.split_at(self.first(rest));
            rest = tail;
            Some(record).filter(|record| !record.is_empty())
        })
    }

    /// The records in `bytes` without their delimiters.
    pub fn split<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.split_inclusive(bytes).map(|record| self.trim(record))
    }

    /// The number of records in `bytes` that `cleaning` leaves out.
    pub(crate) fn left_out(&self, bytes: &[u8], cleaning: Cleaning) -> u64 {
        if !cleaning.skip_blank {
            return 0;
        }
        self.split(bytes).filter(|record| cleaning.skips(record)).count() as u64
    }

    /// A record without its delimiter, if it has one.
    pub(crate) fn trim<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        match record.strip_suffix(self.bytes()) {
            Some(record) if self.csv.is_some() => record.strip_suffix(b"\r").unwrap_or(record),
            trimmed => trimmed.unwrap_or(record),
        }
    }

    /// A record with its delimiter, even if it has none at the end of the input.
    pub(crate) fn complete<'a>(&self, record: &'a [u8]) -> Cow<'a, [u8]> {
        match self.trim(record).len() == record.len() {
            true => [record, self.bytes()].concat().into(),
            false => record.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_from_left_to_right() {
        let table: [(&[u8], &[u8], &[&[u8]]); 6] = [
            (b"\n", b"a\nb\n", &[b"a", b"b"]),
            (b"\n", b"a\n\nb", &[b"a", b"", b"b"]),
            (b"\n", b"", &[]),
            (b"aa", b"xaaay", &[b"x", b"ay"]),
            (b"\r\n", b"a\r\n\nb\r\n", &[b"a", b"\nb"]),
            (b"\0", b"\0\0", &[b"", b""]),
        ];
        for (delimiter, bytes, records) in table {
            let delimiter = Delimiter::new(delimiter);
            assert_eq!(delimiter.split(bytes).collect::<Vec<_>>(), records, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn whole_records_and_lengths() {
        let table: [(&[u8], &[u8], u64, usize); 5] = [
            (b"\n", b"a\nbb\nc", 2, 5),
            (b"\n", b"abc", 0, 0),
            (b"aa", b"xaaaay", 2, 5),
            (b"aa", b"xaaay", 1, 3),
            (b"--", b"-", 0, 0),
        ];
        for (delimiter, bytes, records, length) in table {
            let delimiter = Delimiter::new(delimiter);
            assert_eq!(delimiter.whole(bytes), (records, length), "{}", bytes.escape_ascii());
            assert_eq!(delimiter.length(bytes, records), length);
            assert_eq!(delimiter.length(bytes, records + 1), bytes.len());
        }
    }
}
