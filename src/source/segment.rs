//! Whole records in the buffer that they were read into: the items of the input.

use std::cell::RefCell;
use std::rc::Rc;

use super::Delimiter;
use crate::time::Time;

/// Consecutive items that arrived together, with their place in the input. Splitting or cloning it copies no bytes.
#[derive(Clone, Default, Debug)]
pub struct Segment {
    buffer: Rc<Buffer>,
    /// The items are in `start..end` of the buffer.
    start: usize,
    end: usize,
    items: u64,
    arrival: Time,
    /// The number of the first item, and the bytes of the input before it; 0 until set by [`Segment::at`].
    first: u64,
    offset: u64,
    /// The number of attempts so far.
    attempts: u64,
    /// The number of the first item of the batch that it was last sent in; 0 if it has not been sent.
    batch: u64,
    /// The earliest instant of the next attempt.
    not_before: Time,
}

impl Segment {
    /// The `items` items in the first `end` bytes of `buffer`.
    pub(super) fn new(buffer: Buffer, end: usize, items: u64) -> Self {
        Segment { buffer: Rc::new(buffer), end, items, ..Segment::default() }
    }

    /// The `items` items in `bytes`.
    pub fn of(bytes: Vec<u8>, items: u64, arrival: Time) -> Self {
        let end = bytes.len();
        Segment::new(Buffer { bytes, pool: None }, end, items).arrived(arrival)
    }

    pub(crate) fn arrived(self, arrival: Time) -> Self {
        Segment { arrival, ..self }
    }

    /// The same, where the first item has the number `first` and starts `offset` bytes into the input.
    pub(crate) fn at(self, first: u64, offset: u64) -> Self {
        Segment { first, offset, ..self }
    }

    /// The items with their delimiters; the last one of the input may have none.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes[self.start..self.end]
    }

    /// The length of the first item with its delimiter. The last one is all that is left: once trimmed, it may form
    /// another delimiter with its own, as `a-` does with `--`.
    #[inline]
    pub(super) fn first_length(&self, delimiter: &Delimiter) -> usize {
        if self.items == 1 { self.bytes().len() } else { delimiter.first(self.bytes()) }
    }

    /// Each item with its delimiter.
    pub(crate) fn records<'a>(&'a self, delimiter: &'a Delimiter) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.clone();
        (0..self.items).map(move |_| {
            let (start, length) = (rest.start, rest.first_length(delimiter));
            rest.split_at(1, length);
            &self.buffer.bytes[start..start + length]
        })
    }

    /// The first item, without its delimiter.
    pub(crate) fn first_text(&self, delimiter: &Delimiter) -> Vec<u8> {
        delimiter.trim(&self.bytes()[..self.first_length(delimiter)]).to_vec()
    }

    /// True if its last item has a delimiter.
    pub(crate) fn is_complete(&self, delimiter: &Delimiter) -> bool {
        let ends = |bytes: &[u8]| bytes.ends_with(delimiter.bytes());
        let all = self.bytes();
        // A shorter last item may end in a delimiter together with the one before it, but not by itself.
        let is_sure = self.items == 1
            || (1..delimiter.len().min(all.len())).all(|length| !ends(&all[..all.len() - length]));
        ends(all) && (is_sure || self.records(delimiter).last().is_some_and(ends))
    }

    /// The number of items, all of them whole.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The number of the first item, counted from 1.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of bytes of the input before the first item.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The instant at which the last byte of their block had been read.
    pub fn arrival(&self) -> Time {
        self.arrival
    }

    /// The number of the next attempt, counted from 1.
    pub fn attempt(&self) -> u64 {
        self.attempts + 1
    }

    /// The earliest instant of the next attempt: zero, unless the items are backing off.
    pub(crate) fn not_before(&self) -> Time {
        self.not_before
    }

    /// True if both may be in one batch: items that were sent together stay together, apart from all others.
    pub(crate) fn was_sent_with(&self, other: &Segment) -> bool {
        (self.attempts, self.batch) == (other.attempts, other.batch)
    }

    /// The same items for another attempt, from `not_before` on, with the rest of the batch that began with `batch`.
    pub(crate) fn again(self, batch: u64, not_before: Time) -> Self {
        Segment { attempts: self.attempts + 1, batch, not_before, ..self }
    }

    /// Splits off the first `items` items.
    pub(crate) fn split_off(&mut self, items: u64, delimiter: &Delimiter) -> Segment {
        let length = match items {
            all if all == self.items => self.bytes().len(),
            _ => delimiter.length(self.bytes(), items),
        };
        self.split_at(items, length)
    }

    /// Like [`Segment::split_off`], for a caller that knows the length of these items in bytes.
    pub(crate) fn split_at(&mut self, items: u64, length: usize) -> Segment {
        let middle = self.start + length;
        let front = Segment { end: middle, items, ..self.clone() };
        self.start = middle;
        self.items -= items;
        self.first += items;
        self.offset += length as u64;
        front
    }

    /// Appends `next` if it follows directly in the same buffer, for the same attempt. Returns whether it does.
    pub(crate) fn append(&mut self, next: &Segment) -> bool {
        let is_next = self.was_sent_with(next)
            && self.not_before == next.not_before
            && Rc::ptr_eq(&self.buffer, &next.buffer)
            && self.end == next.start;
        if is_next {
            self.end = next.end;
            self.items += next.items;
        }
        is_next
    }

    /// The same place in the input, with `bytes` for its items.
    pub(super) fn replaced(&self, bytes: Vec<u8>) -> Segment {
        let end = bytes.len();
        Segment { buffer: Rc::new(Buffer { bytes, pool: None }), start: 0, end, ..*self }
    }

    /// A copy in memory of its own, which does not keep a large buffer alive during a long wait.
    pub(crate) fn detached(&self) -> Segment {
        self.replaced(self.bytes().to_vec())
    }
}

/// Buffers to reuse.
pub(super) type Pool = Rc<RefCell<Vec<Vec<u8>>>>;

const MAX_POOLED: usize = 4;

/// A buffer that returns to its pool, if it has one, when it is dropped.
#[derive(Default, Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    pub(super) pool: Option<Pool>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            let mut pool = pool.borrow_mut();
            if pool.len() < MAX_POOLED {
                pool.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}
