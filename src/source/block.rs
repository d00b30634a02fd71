//! Blocks of whole records, as they pass from the reader to the pump.

use crossbeam_channel::Sender;

use crate::time::Time;

/// One or more whole records that arrived together.
#[derive(Debug)]
pub struct Block {
    buffer: Buffer,
    /// What is left lies in `start..end` of the buffer.
    start: usize,
    end: usize,
    records: u64,
    arrival: Time,
}

impl Block {
    /// The records in the first `end` bytes of `buffer`, of which there are `records`.
    pub(crate) fn new(buffer: Buffer, end: usize, records: u64) -> Self {
        Block { buffer, start: 0, end, records, arrival: Time::ZERO }
    }

    /// A block of the records in `bytes`, which there are `records` of.
    pub fn of(bytes: Vec<u8>, records: u64, arrival: Time) -> Self {
        let end = bytes.len();
        Block { arrival, ..Block::new(Buffer::from(bytes), end, records) }
    }

    /// The same, arrived at `arrival`.
    pub(crate) fn arrived(self, arrival: Time) -> Self {
        Block { arrival, ..self }
    }

    /// When the last byte of it had been read.
    pub fn arrival(&self) -> Time {
        self.arrival
    }

    /// How many records are left in it.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The records that are left, with their delimiters; the very last one of the input may have none.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes[self.start..self.end]
    }

    /// Forgets the first `records` records, which are `length` bytes together.
    pub(crate) fn advance(&mut self, records: u64, length: usize) {
        self.records -= records;
        self.start += length;
    }
}

/// A buffer that goes back to where it came from when it is dropped, to be filled again.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    home: Option<Sender<Vec<u8>>>,
}

impl Buffer {
    pub(crate) fn new(bytes: Vec<u8>, home: Sender<Vec<u8>>) -> Self {
        Buffer { bytes, home: Some(home) }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Buffer { bytes, home: None }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // With the shelf full, or the reader gone, it is simply freed.
            let _ = home.try_send(std::mem::take(&mut self.bytes));
        }
    }
}
