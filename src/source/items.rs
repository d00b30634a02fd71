//! Items, as they wait and as they leave.

use smallvec::SmallVec;

use super::{Block, Delimiter};
use crate::charge::Charge;
use crate::time::Time;

/// Consecutive items that arrived together, with their place in the input.
#[derive(Clone, Debug)]
pub struct Segment {
    block: Block,
    first: u64,
    offset: u64,
    attempt: RetryState,
}

/// The attempts at something, and what follows from them for the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RetryState {
    /// The next attempt, counted from 1.
    number: u64,
    /// The number of the first item that it was sent together with; 0 if it was not.
    batch: u64,
    /// The earliest instant of the next attempt.
    not_before: Time,
}

impl RetryState {
    const FIRST: RetryState = RetryState { number: 1, batch: 0, not_before: Time::ZERO };
}

impl Segment {
    /// The items of a block, of which the first has the number `first` and stands `offset` bytes into the input.
    pub(crate) fn new(block: Block, first: u64, offset: u64) -> Self {
        Segment { block, first, offset, attempt: RetryState::FIRST }
    }

    /// The items with their delimiters.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    /// The number of items, all of which are whole.
    pub fn items(&self) -> u64 {
        self.block.records()
    }

    /// The number of the first one, counted from 1.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Bytes of the input before the first one.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The instant at which the last byte of their block had been read.
    pub fn arrival(&self) -> Time {
        self.block.arrival()
    }

    /// The number of their next attempt, counted from 1.
    pub fn attempt(&self) -> u64 {
        self.attempt.number
    }

    /// The earliest instant of their next attempt: zero, unless they are backing off.
    pub(crate) fn not_before(&self) -> Time {
        self.attempt.not_before
    }

    /// They may be in one batch: what was sent together stays together, apart from all else.
    pub(crate) fn was_sent_with(&self, other: &Segment) -> bool {
        (self.attempt.number, self.attempt.batch) == (other.attempt.number, other.attempt.batch)
    }

    /// The same, to be sent once more, with those of the batch whose first item has this number.
    pub(crate) fn again(self, batch: u64, not_before: Time) -> Self {
        Segment { attempt: RetryState { number: self.attempt.number + 1, batch, not_before }, ..self }
    }

    pub(crate) fn split_off(&mut self, items: u64, delimiter: &Delimiter) -> Segment {
        let length = match items {
            all if all == self.items() => self.bytes().len(),
            _ => delimiter.length(self.bytes(), items),
        };
        self.split_at(items, length)
    }

    /// As [`Segment::split_off`], where it is known that the items are `length` bytes together.
    pub(crate) fn split_at(&mut self, items: u64, length: usize) -> Segment {
        let front = Segment { block: self.block.split_off(items, length), ..*self };
        self.first += items;
        self.offset += length as u64;
        front
    }

    /// Appends what stands right behind it in the same buffer. Returns whether it does.
    pub(crate) fn append(&mut self, next: &Segment) -> bool {
        self.attempt == next.attempt && self.block.append(&next.block)
    }

    /// The same place in the input, with one item that is now `bytes`.
    pub(crate) fn replaced(&self, bytes: Vec<u8>) -> Segment {
        Segment { block: Block::of(bytes, 1, self.arrival()), ..*self }
    }

    /// The same in memory of its own.
    pub(crate) fn detached(&self) -> Segment {
        Segment { block: self.block.detached(), ..*self }
    }
}

/// Some segments: nearly always one.
pub(crate) type Segments = SmallVec<[Segment; 1]>;

/// Items that are charged the same, as they wait.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    pub(crate) segment: Segment,
    /// Of each of them.
    pub(crate) charge: Charge,
}

impl Items {
    pub(crate) fn may_join(&self, other: &Items) -> bool {
        self.charge.keys == other.charge.keys && self.segment.was_sent_with(&other.segment)
    }
}

/// Items that leave together, in the order of the input, as one release or as several.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    segments: Vec<Segment>,
    items: u64,
    bytes: usize,
    /// The number of items that each release carries; empty if each carries one.
    sizes: Vec<u64>,
}

impl Batch {
    /// Adds items, each of which is a release.
    pub(crate) fn push(&mut self, segment: Segment) {
        self.items += segment.items();
        self.bytes += segment.bytes().len();
        if !self.segments.last_mut().is_some_and(|last| last.append(&segment)) {
            self.segments.push(segment);
        }
    }

    /// Adds items that are one release together.
    pub(crate) fn push_release(&mut self, segments: impl IntoIterator<Item = Segment>) {
        let before = self.items;
        segments.into_iter().for_each(|segment| self.push(segment));
        self.sizes.push(self.items - before);
    }

    pub(crate) fn clear(&mut self) {
        self.segments.clear();
        self.sizes.clear();
        (self.items, self.bytes) = (0, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// The items, cut where they do not lie next to each other.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The number of items in all releases.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The length of all items, with delimiters.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the first item.
    pub fn first(&self) -> u64 {
        self.segments.first().map_or(0, Segment::first)
    }

    /// The number of this attempt at the first item, counted from 1.
    pub fn attempt(&self) -> u64 {
        self.segments.first().map_or(1, Segment::attempt)
    }

    /// The number of items that each release carries.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        let singles = if self.sizes.is_empty() { self.items } else { 0 };
        self.sizes.iter().copied().chain((0..singles).map(|_| 1))
    }

    /// The number of releases that have begun once the first `items` items have left.
    pub(crate) fn releases_of(&self, items: u64) -> u64 {
        if self.sizes.is_empty() {
            return items;
        }
        let mut begun = 0;
        let begins = self.sizes.iter().take_while(|&&size| {
            begun += size;
            begun - size < items
        });
        begins.count() as u64
    }

    /// The number of whole items in the first `length` bytes.
    pub(crate) fn items_in(&self, mut length: usize, delimiter: &Delimiter) -> u64 {
        let mut items = 0;
        for segment in &self.segments {
            let bytes = segment.bytes();
            if length < bytes.len() {
                return items + delimiter.whole(&bytes[..length]).0;
            }
            items += segment.items();
            length -= bytes.len();
        }
        items
    }

    /// Takes off the first `items` items.
    pub(crate) fn take(&mut self, items: u64, delimiter: &Delimiter) -> Vec<Segment> {
        let mut left = items;
        let is_whole = |segment: &&Segment| {
            let is_whole = segment.items() <= left;
            left -= if is_whole { segment.items() } else { 0 };
            is_whole
        };
        let whole = self.segments.iter().take_while(is_whole).count();
        let mut taken: Vec<_> = self.segments.drain(..whole).collect();
        if left > 0
            && let Some(front) = self.segments.first_mut()
        {
            taken.push(front.split_off(left, delimiter));
        }
        self.items -= taken.iter().map(Segment::items).sum::<u64>();
        self.bytes -= taken.iter().map(|segment| segment.bytes().len()).sum::<usize>();
        taken
    }

    /// Each item with its delimiter.
    pub fn records<'a>(&'a self, delimiter: &'a Delimiter) -> impl Iterator<Item = &'a [u8]> {
        self.segments.iter().flat_map(|segment| delimiter.split_inclusive(segment.bytes()))
    }

    /// Each item with its number and its delimiter.
    pub(crate) fn numbered<'a>(&'a self, delimiter: &'a Delimiter) -> impl Iterator<Item = (u64, &'a [u8])> {
        let records =
            |segment: &'a Segment| (segment.first()..).zip(delimiter.split_inclusive(segment.bytes()));
        self.segments.iter().flat_map(records)
    }
}
