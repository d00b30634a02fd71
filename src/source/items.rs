//! Items while they wait and when they leave.

use smallvec::SmallVec;

use super::{Delimiter, Segment};
use crate::charge::Charge;

/// Segments: nearly always one.
pub(crate) type Segments = SmallVec<[Segment; 1]>;

/// Waiting items that are all charged the same.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    pub(crate) segment: Segment,
    /// The charge of each item.
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
    segments: Segments,
    items: u64,
    bytes: usize,
    /// The number of items that each release carries; empty if each carries one.
    sizes: Vec<u64>,
}

impl Batch {
    /// Items that leave as one segment.
    pub(crate) fn of(segment: Segment) -> Self {
        let mut batch = Batch::default();
        batch.push(segment);
        batch
    }

    /// Adds items, each of them a release.
    pub(crate) fn push(&mut self, segment: Segment) {
        self.items += segment.items();
        self.bytes += segment.bytes().len();
        if !self.segments.last_mut().is_some_and(|last| last.append(&segment)) {
            self.segments.push(segment);
        }
    }

    /// Adds items that make up one release.
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

    /// The items, with a new segment wherever they are not contiguous in memory.
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

    /// The first item, without its delimiter.
    pub(crate) fn first_text(&self, delimiter: &Delimiter) -> Vec<u8> {
        self.segments.first().map_or_else(Vec::new, |segment| segment.first_text(delimiter))
    }

    /// The items, each with its delimiter, also where the input ends without one.
    pub(crate) fn complete(&self, delimiter: &Delimiter) -> Vec<u8> {
        self.records(delimiter).flat_map(|whole| delimiter.complete(whole).into_owned()).collect()
    }

    /// The number of this attempt at the first item, counted from 1.
    pub fn attempt(&self) -> u64 {
        self.segments.first().map_or(1, Segment::attempt)
    }

    /// The number of items in each release.
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
                return items + delimiter.whole(&bytes[..length]).0.min(segment.items() - 1);
            }
            items += segment.items();
            length -= bytes.len();
        }
        items
    }

    /// Removes and returns the first `items` items.
    pub(crate) fn take(&mut self, items: u64, delimiter: &Delimiter) -> Batch {
        let mut left = items;
        let is_whole = |segment: &&Segment| {
            let is_whole = segment.items() <= left;
            left -= if is_whole { segment.items() } else { 0 };
            is_whole
        };
        let whole = self.segments.iter().take_while(is_whole).count();
        let mut taken = Batch::default();
        self.segments.drain(..whole).for_each(|segment| taken.push(segment));
        if left > 0
            && let Some(front) = self.segments.first_mut()
        {
            taken.push(front.split_off(left, delimiter));
        }
        self.items -= taken.items;
        self.bytes -= taken.bytes;
        taken
    }

    /// Moves the items to memory of their own, as [`Segment::detached`].
    pub(crate) fn detach(&mut self) {
        self.segments.iter_mut().for_each(|segment| *segment = segment.detached());
    }

    /// Each item with its delimiter.
    pub fn records<'a>(&'a self, delimiter: &'a Delimiter) -> impl Iterator<Item = &'a [u8]> {
        self.segments.iter().flat_map(|segment| segment.records(delimiter))
    }

    /// Each item with its number and its delimiter.
    pub(crate) fn numbered<'a>(&'a self, delimiter: &'a Delimiter) -> impl Iterator<Item = (u64, &'a [u8])> {
        let records = |segment: &'a Segment| (segment.first()..).zip(segment.records(delimiter));
        self.segments.iter().flat_map(records)
    }
}
