//! Reads a part of a file without moving its position.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

pub(crate) struct FileRange<'a> {
    pub(crate) file: &'a File,
    /// The part left to read.
    pub(crate) range: Range<u64>,
}

impl Read for FileRange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end.saturating_sub(self.range.start);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..most], self.range.start)?;
        self.range.start += read as u64;
        Ok(read)
    }
}
