//! Whole records, as they lie in the buffer that they were read into.

use std::cell::RefCell;
use std::rc::Rc;

use crate::time::Time;

/// One or more whole records that arrived together. Cutting or cloning it copies no bytes.
#[derive(Clone, Debug)]
pub struct Block {
    buffer: Rc<Buffer>,
    /// The records lie in `start..end` of the buffer.
    start: usize,
    end: usize,
    records: u64,
    arrival: Time,
}

impl Block {
    /// The records in the first `end` bytes of `buffer`, of which there are `records`.
    pub(crate) fn new(buffer: Buffer, end: usize, records: u64) -> Self {
        Block { buffer: Rc::new(buffer), start: 0, end, records, arrival: Time::ZERO }
    }

    /// A block of the records in `bytes`, which there are `records` of.
    pub fn of(bytes: Vec<u8>, records: u64, arrival: Time) -> Self {
        let end = bytes.len();
        Block { arrival, ..Block::new(Buffer::from(bytes), end, records) }
    }

    pub(crate) fn arrived(self, arrival: Time) -> Self {
        Block { arrival, ..self }
    }

    /// The instant at which its last byte had been read.
    pub fn arrival(&self) -> Time {
        self.arrival
    }

    /// The number of records in [`Block::bytes`].
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The records with their delimiters; the very last one of the input may have none.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes[self.start..self.end]
    }

    /// Takes off the first `records` records, which are `length` bytes together.
    pub(crate) fn split_off(&mut self, records: u64, length: usize) -> Block {
        let middle = self.start + length;
        let front = Block { end: middle, records, ..self.clone() };
        self.start = middle;
        self.records -= records;
        front
    }

    /// Appends `next` if it lies right behind it in the same buffer, and returns whether it does.
    pub(crate) fn append(&mut self, next: &Block) -> bool {
        let is_next = Rc::ptr_eq(&self.buffer, &next.buffer) && self.end == next.start;
        if is_next {
            self.end = next.end;
            self.records += next.records;
        }
        is_next
    }

    /// A copy in its own memory, so that a long wait does not keep a large buffer alive.
    pub(crate) fn detached(&self) -> Block {
        Block::of(self.bytes().to_vec(), self.records, self.arrival)
    }
}

/// Buffers to be filled again.
pub(crate) type Pool = Rc<RefCell<Vec<Vec<u8>>>>;

const MOST_POOLED: usize = 4;

/// A buffer that goes back to its pool when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    pool: Option<Pool>,
}

impl Buffer {
    pub(crate) fn new(bytes: Vec<u8>, pool: Pool) -> Self {
        Buffer { bytes, pool: Some(pool) }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Buffer { bytes, pool: None }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            let mut pool = pool.borrow_mut();
            if pool.len() < MOST_POOLED {
                pool.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}
