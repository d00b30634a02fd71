//! Items that wait their turn, first in, first out.

use std::collections::VecDeque;

use crate::sink::Load;
use crate::source::{Block, Delimiter};
use crate::time::Time;

/// How much may wait in the pump before reading stops.
const MOST_BYTES: usize = 256 << 10;
const MOST_BLOCKS: usize = 1024;

/// A queue of records, in blocks as they were read.
pub(super) struct Lane {
    delimiter: Delimiter,
    blocks: VecDeque<Block>,
    records: u64,
    bytes: usize,
    /// When the last release happened.
    previous: Time,
    /// How many records have left.
    released: u64,
    /// The bytes of a load that does not lie in one block.
    gathered: Vec<u8>,
}

impl Lane {
    pub(super) fn new(delimiter: Delimiter) -> Self {
        Lane {
            delimiter,
            blocks: VecDeque::new(),
            records: 0,
            bytes: 0,
            previous: Time::ZERO,
            released: 0,
            gathered: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, block: Block) {
        self.records += block.records();
        self.bytes += block.bytes().len();
        self.blocks.push_back(block);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether there is room for more, or more is needed to make up `wanted` records.
    pub(super) fn has_room(&self, wanted: u64) -> bool {
        self.records < wanted || (self.bytes < MOST_BYTES && self.blocks.len() < MOST_BLOCKS)
    }

    /// When the first record became next in line.
    pub(super) fn since(&self) -> Option<Time> {
        self.blocks.front().map(|block| block.arrival().max(self.previous))
    }

    /// When the `nth` record arrived, counted from 0.
    pub(super) fn arrival(&self, nth: u64) -> Option<Time> {
        let mut before = 0;
        let block = self.blocks.iter().find(|block| {
            before += block.records();
            before > nth
        });
        block.map(Block::arrival)
    }

    /// How many of the first `most` records had arrived by `at`.
    pub(super) fn arrived(&self, at: Time, most: u64) -> u64 {
        let arrived = self.blocks.iter().take_while(|block| block.arrival() <= at);
        arrived.map(Block::records).sum::<u64>().min(most)
    }

    /// Up to `records` of the records in front, as they lie in the first block.
    pub(super) fn front(&self, records: u64) -> Load<'_> {
        let Some(block) = self.blocks.front() else { return self.load(&[], 0) };
        if records >= block.records() {
            return self.load(block.bytes(), block.records());
        }
        let length = self.delimiter.length(block.bytes(), records);
        self.load(&block.bytes()[..length], records)
    }

    /// Exactly `records` of the records in front, or fewer where they would exceed `most` bytes.
    pub(super) fn gather(&mut self, records: u64, most: usize) -> Load<'_> {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        let all = self.blocks.iter().flat_map(|block| self.delimiter.split_inclusive(block.bytes()));
        let mut taken = 0;
        for record in all.take(usize::try_from(records).unwrap_or(usize::MAX)) {
            if taken > 0 && gathered.len() + record.len() > most {
                break;
            }
            gathered.extend_from_slice(record);
            taken += 1;
        }
        self.gathered = gathered;
        self.load(&self.gathered, taken)
    }

    fn load<'a>(&'a self, bytes: &'a [u8], records: u64) -> Load<'a> {
        Load { bytes, records, first: self.released + 1, delimiter: &self.delimiter }
    }

    /// Forgets the first `records` records, which left at `at`. Returns their length.
    pub(super) fn advance(&mut self, mut records: u64, at: Time) -> usize {
        self.previous = at;
        self.released += records;
        self.records -= records;
        let mut total = 0;
        while let Some(block) = self.blocks.front_mut().filter(|_| records > 0) {
            let taken = records.min(block.records());
            let length = match taken == block.records() {
                true => block.bytes().len(),
                false => self.delimiter.length(block.bytes(), taken),
            };
            block.advance(taken, length);
            if block.records() == 0 {
                self.blocks.pop_front();
            }
            records -= taken;
            total += length;
        }
        self.bytes -= total;
        total
    }
}
