//! The ends of records.

use memchr::memmem::Finder;

use crate::config::Cleaning;

/// The end of a record: one byte or several.
///
/// If delimiters overlap, the first counts: records are cut from left to right.
#[derive(Clone, Debug)]
pub struct Delimiter {
    finder: Finder<'static>,
}

impl Delimiter {
    /// A delimiter of these bytes.
    ///
    /// # Panics
    /// If `bytes` is empty.
    pub fn new(bytes: &[u8]) -> Self {
        assert!(!bytes.is_empty(), "records cannot end at nothing");
        Delimiter { finder: Finder::new(bytes).into_owned() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.finder.needle()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The number of whole records at the start of `bytes`, and their total length.
    pub(crate) fn whole(&self, bytes: &[u8]) -> (u64, usize) {
        if let &[byte] = self.bytes() {
            let end = memchr::memrchr(byte, bytes).map_or(0, |at| at + 1);
            return (memchr::memchr_iter(byte, &bytes[..end]).count() as u64, end);
        }
        self.finder.find_iter(bytes).fold((0, 0), |(records, _), at| (records + 1, at + self.len()))
    }

    /// The length of the first record, delimiter included; all of `bytes` if it has none.
    pub(crate) fn first(&self, bytes: &[u8]) -> usize {
        let end = match self.bytes() {
            &[byte] => memchr::memchr(byte, bytes).map(|at| at + 1),
            _ => self.finder.find(bytes).map(|at| at + self.len()),
        };
        end.unwrap_or(bytes.len())
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
        record.strip_suffix(self.bytes()).unwrap_or(record)
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
