//! Cuts a stream of bytes into segments of whole records.

use std::io::{self, Read};

use anyhow::{Error, Result, anyhow, bail, ensure};

use super::csv::Scan;
use super::segment::{Buffer, Pool};
use super::{Delimiter, Segment};
use crate::config::{Cleaning, InputOptions, Table};
use crate::printable::excerpt;

/// The most bytes that one `read` asks for, unless a record is longer.
const CHUNK: usize = 128 << 10;

/// Reads segments of whole records, each as soon as its last byte has arrived.
///
/// Bytes after the last delimiter of a segment are carried over to the next, so memory is bounded by the longest record
/// allowed.
pub struct Reader<R> {
    input: R,
    delimiter: Delimiter,
    max_record: usize,
    /// The first `filled` bytes have been read but not handed out.
    buffer: Vec<u8>,
    filled: usize,
    /// How far these bytes were searched for a delimiter without finding one.
    scan: Scan,
    /// Takes the header, which has not been read.
    head: Option<Head>,
    /// What was handed out so far, and before what is left.
    passed: Passed,
    /// The error to return after the segment handed out last.
    failed: Option<Error>,
    ended: bool,
    /// True if bytes that were read ahead have not been looked at.
    has_unseen: bool,
    pool: Pool,
}

/// The numbers of records, and of all bytes and newlines.
#[derive(Default)]
struct Passed {
    records: u64,
    bytes: u64,
    newlines: u64,
}

/// Takes the first record, together with the bytes before it that are left out.
struct Head {
    cleaning: Cleaning,
    skipped: usize,
    take: Box<dyn FnOnce(usize, &[u8]) -> Result<()>>,
}

/// Ends with the input. Not to be called again after an error.
impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over() {
            if let Some(segment) = self.read_once().transpose() {
                return Some(segment);
            }
        }
        None
    }
}

impl<R: Read> Reader<R> {
    /// Reads from `input`. A record may be up to `max_record` bytes long, without its delimiter.
    pub fn new(input: R, delimiter: Delimiter, max_record: usize) -> Self {
        Reader {
            input,
            delimiter,
            max_record,
            buffer: vec![0; CHUNK],
            filled: 0,
            scan: Scan::default(),
            head: None,
            passed: Passed::default(),
            failed: None,
            ended: false,
            has_unseen: false,
            pool: Pool::default(),
        }
    }

    /// Reads the items of `input` as `options` say. `take` is given the header of a table, and the number of bytes
    /// before it that were left out.
    pub(crate) fn of(
        input: R,
        options: &InputOptions,
        take: impl FnOnce(usize, &[u8]) -> Result<()> + 'static,
    ) -> Self {
        let reader = Reader::new(input, Delimiter::of(options), options.max_record);
        let has_header = options.table().is_some_and(Table::has_header);
        let head = || Head { cleaning: options.cleaning, skipped: 0, take: Box::new(take) };
        Reader { head: has_header.then(head), ..reader }
    }

    pub(crate) fn input(&self) -> &R {
        &self.input
    }

    /// True if everything has been handed out.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.filled == 0 && self.failed.is_none()
    }

    /// True if the next segment depends on bytes still to be read.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.ended && !self.has_unseen && self.failed.is_none()
    }

    /// True if bytes were read of a record that is not whole.
    pub(crate) fn has_begun_item(&self) -> bool {
        self.filled > 0 && self.head.is_none()
    }

    /// Reads once, ahead of the first segment. Returns true if the input is empty.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(crate) fn is_empty(&mut self) -> Result<bool> {
        self.fill()?;
        self.has_unseen = self.filled > 0;
        Ok(self.is_over())
    }

    /// Reads at most once. Returns the next segment if it is then complete; one without items comes with a header.
    ///
    /// # Errors
    /// The input cannot be read, a record is too long or its quotes are not closed, or the header cannot be used.
    pub(crate) fn read_once(&mut self) -> Result<Option<Segment>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.fill()?;
        let had_header = self.head.is_none();
        if !had_header && !self.take_head()? {
            return Ok(None);
        }
        let (mut records, mut length) =
            self.delimiter.whole_from(&self.buffer[..self.filled], &mut self.scan);
        if self.ended {
            self.check_quotes(records, length)?;
            (records, length) = (u64::from(self.filled > 0), self.filled);
        }
        let (records, length) = self.check_lengths(records, length);
        let has_news = records > 0 || !had_header;
        Ok(has_news.then(|| self.hand_out(records, length)))
    }

    /// Takes the header, if it is whole. Returns whether it was.
    fn take_head(&mut self) -> Result<bool> {
        while let Some(head) = &mut self.head {
            let bytes = &self.buffer[..self.filled];
            let end = self.delimiter.end(bytes, &mut self.scan);
            let is_whole = end.is_some();
            let Some(end) = end.or((self.ended && self.filled > 0).then_some(self.filled)) else {
                self.check_header_length(self.filled, self.delimiter.most_begun())?;
                return Ok(false);
            };
            let record = self.delimiter.trim(&bytes[..end]);
            if head.cleaning.skips(record) {
                head.skipped += end;
            } else {
                let length = record.len();
                if !is_whole {
                    self.check_quotes(0, 0)?;
                }
                self.check_header_length(length, 0)?;
                let Some(head) = self.head.take() else { break };
                (head.take)(head.skipped, &self.buffer[..end])?;
            }
            self.pass(end);
            self.buffer.copy_within(end..self.filled, 0);
            self.filled -= end;
        }
        Ok(true)
    }

    fn check_header_length(&self, length: usize, spare: usize) -> Result<()> {
        let max = self.max_record;
        match self.scan.open_quote(self.filled) {
            _ if length <= max.saturating_add(spare) => Ok(()),
            Some(quote) => bail!(self.not_closed(quote, &format!("within the {max} bytes of --max-record"))),
            None => bail!("the header is longer than {max} bytes: raise --max-record"),
        }
    }

    /// Checks that no quote is open at the end of the input, after so many records of this length.
    fn check_quotes(&self, records: u64, length: usize) -> Result<()> {
        let quote = self.scan.open_quote(self.filled - length).map(|quote| length + quote);
        let Some(quote) = quote.filter(|_| self.delimiter.is_csv()) else { return Ok(()) };
        let item = match self.head {
            None => format!(", in item {}", self.passed.records + records + 1),
            Some(_) => ", in the header".to_owned(),
        };
        bail!(self.not_closed(quote, "before the end of the input") + &item)
    }

    /// That the quote at this index of the buffer is not closed.
    fn not_closed(&self, quote: usize, by: &str) -> String {
        let line =
            self.passed.newlines + memchr::memchr_iter(b'\n', &self.buffer[..quote]).count() as u64 + 1;
        let text =
            excerpt(self.buffer[quote..self.filled].split(|&byte| byte == b'\n').next().unwrap_or_default());
        format!("line {line}: the quote before {text} is not closed {by}")
    }

    /// Notes that the first `length` bytes are done with.
    fn pass(&mut self, length: usize) {
        self.passed.bytes += length as u64;
        if self.delimiter.is_csv() {
            self.passed.newlines += memchr::memchr_iter(b'\n', &self.buffer[..length]).count() as u64;
        }
        self.scan = Scan::default();
    }

    /// Reads more, after making room for it. Never reads again after the end: a terminal would go on.
    ///
    /// If bytes were read ahead, they count as read now.
    fn fill(&mut self) -> Result<()> {
        if self.ended || std::mem::take(&mut self.has_unseen) {
            return Ok(());
        }
        if self.filled == self.buffer.len() {
            let length = self.buffer.len();
            // Everything else is small.
            let has_room = self.buffer.try_reserve_exact(length).is_ok();
            ensure!(has_room, "no memory for an item of more than {length} bytes");
            self.buffer.resize(2 * length, 0);
        }
        match self.input.read(&mut self.buffer[self.filled..]) {
            Ok(read) => {
                self.filled += read;
                self.ended = read == 0;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => bail!("cannot read the input: {error}"),
        }
        Ok(())
    }

    /// Notes the first record that is too long. Returns the number and length of the records before it.
    fn check_lengths(&mut self, records: u64, length: usize) -> (u64, usize) {
        if self.filled <= self.max_record {
            return (records, length);
        }
        let (mut good, mut start) = (0, 0);
        for record in self.delimiter.split_inclusive(&self.buffer[..self.filled]) {
            // The last bytes of an unfinished one may be the beginning of a delimiter.
            let spare = if start < length { 0 } else { self.delimiter.most_begun() };
            if self.delimiter.trim(record).len() > self.max_record.saturating_add(spare) {
                self.failed = Some(self.too_long(good, start));
                return (good, start);
            }
            good += 1;
            start += record.len();
        }
        (records, length)
    }

    fn too_long(&self, records: u64, length: usize) -> Error {
        let open = self.scan.open_quote(self.filled - length).filter(|_| self.delimiter.is_csv());
        if let Some(quote) = open {
            let by = format!("within the {} bytes of --max-record", self.max_record);
            return Error::msg(self.not_closed(length + quote, &by));
        }
        let (record, offset) = (self.passed.records + records + 1, self.passed.bytes + length as u64);
        let max = self.max_record;
        anyhow!(
            "item {record}, at byte {offset}, is longer than {max} bytes: raise --max-record, or check the \
             delimiter"
        )
    }

    /// Hands out the first `length` bytes and keeps the rest.
    fn hand_out(&mut self, records: u64, length: usize) -> Segment {
        self.passed.records += records;
        self.pass(length);
        let block = if length < CHUNK / 4 {
            // Slow input must not pin a large buffer for each line.
            let bytes = self.buffer[..length].to_vec();
            self.buffer.copy_within(length..self.filled, 0);
            Buffer { bytes, pool: None }
        } else {
            let next = self.next_buffer(length);
            let bytes = std::mem::replace(&mut self.buffer, next);
            Buffer { bytes, pool: Some(Pool::clone(&self.pool)) }
        };
        self.filled -= length;
        Segment::new(block, length, records)
    }

    /// A buffer that begins with what is left after the first `length` bytes.
    fn next_buffer(&self, length: usize) -> Vec<u8> {
        let rest = &self.buffer[length..self.filled];
        let mut next = self.pool.borrow_mut().pop().unwrap_or_default();
        // A buffer that grew for one long record is not reused.
        if next.len() != CHUNK || rest.len() >= CHUNK {
            next = vec![0; CHUNK.max(rest.len() + 1)];
        }
        next[..rest.len()].copy_from_slice(rest);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len()).min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn read_all(input: &[u8], step: usize, delimiter: &[u8], max: usize) -> (Vec<Vec<u8>>, Option<Error>) {
        let delimiter = Delimiter::new(delimiter);
        let mut reader = Reader::new(Trickle(input, step), delimiter.clone(), max);
        let mut records = Vec::new();
        loop {
            match reader.next() {
                Some(Ok(block)) => {
                    let before = records.len();
                    records.extend(delimiter.split(block.bytes()).map(<[u8]>::to_vec));
                    assert_eq!((records.len() - before) as u64, block.items());
                }
                None => return (records, None),
                Some(Err(error)) => return (records, Some(error)),
            }
        }
    }

    #[test]
    fn records_come_whole_however_they_trickle_in() {
        let table: [(&[u8], &[u8], &[&[u8]]); 5] = [
            (b"a\nbc\n\nd", b"\n", &[b"a", b"bc", b"", b"d"]),
            (b"", b"\n", &[]),
            (b"\n", b"\n", &[b""]),
            (b"a\r\nb\nc\r\n", b"\r\n", &[b"a", b"b\nc"]),
            (b"xaaay", b"aa", &[b"x", b"ay"]),
        ];
        for (input, delimiter, records) in table {
            for step in 1..=input.len().max(1) {
                let (read, error) = read_all(input, step, delimiter, 100);
                assert!(error.is_none());
                assert_eq!(read, records, "{} by {step}", input.escape_ascii());
            }
        }
    }

    #[test]
    fn a_record_too_long_is_an_error_with_its_place() {
        // Input, records before the error, its record and offset.
        let table: [(&[u8], usize, Option<(u64, u64)>); 5] = [
            (b"abc\nabc\n", 2, None),
            (b"abc\nabcd\nx\n", 1, Some((2, 4))),
            (b"abcd", 0, Some((1, 0))),
            (b"a\nb\nabcdefghijkl", 2, Some((3, 4))),
            (b"abc", 1, None),
        ];
        for (input, good, place) in table {
            for step in 1..=input.len() {
                let (read, error) = read_all(input, step, b"\n", 3);
                assert_eq!(read.len(), good, "{} by {step}", input.escape_ascii());
                let told =
                    |(record, offset)| format!("item {record}, at byte {offset}, is longer than 3 bytes");
                let error = error.map(|error| error.to_string());
                assert_eq!(error.is_some(), place.is_some(), "{error:?}");
                assert!(error.zip(place.map(told)).is_none_or(|(error, told)| error.starts_with(&told)));
            }
        }
    }

    #[test]
    fn long_records_and_large_blocks_come_through() {
        let mut input = vec![b'x'; 3 * CHUNK];
        for at in [10, CHUNK, CHUNK + 1, 2 * CHUNK + 5] {
            input[at] = b'\n';
        }
        let (records, error) = read_all(&input, usize::MAX, b"\n", 3 * CHUNK);
        assert!(error.is_none());
        assert_eq!(records.join(&b'\n'), input);
    }
}
