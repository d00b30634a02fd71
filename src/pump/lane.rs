//! Items that wait their turn, first in, first out.

use std::collections::VecDeque;

use crate::sink::Load;
use crate::source::{Delimiter, Parcel};
use crate::time::Time;

/// A queue of parcels. All its records go by the same keys, unless the order of the input is kept.
#[derive(Default)]
pub(super) struct Lane {
    parcels: VecDeque<Parcel>,
    /// When the last release happened.
    previous: Time,
}

impl Lane {
    pub(super) fn push(&mut self, parcel: Parcel) {
        self.parcels.push_back(parcel);
    }

    /// The parcel in front.
    pub(super) fn front(&self) -> Option<&Parcel> {
        self.parcels.front()
    }

    /// How many parcels wait.
    pub(super) fn len(&self) -> usize {
        self.parcels.len()
    }

    pub(super) fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        self.parcels.iter()
    }

    /// Gives up all that waits.
    pub(super) fn empty(&mut self) -> VecDeque<Parcel> {
        std::mem::take(&mut self.parcels)
    }

    /// When the last release happened.
    pub(super) fn previous(&self) -> Time {
        self.previous
    }

    /// Up to `records` of the records in front, as they lie in the first parcel.
    pub(super) fn load<'a>(&'a self, records: u64, delimiter: &'a Delimiter) -> Load<'a> {
        let Some(parcel) = self.front() else { return Load { bytes: &[], records: 0, first: 0, delimiter } };
        let bytes = parcel.block().bytes();
        let records = records.min(parcel.records());
        let length = if records == parcel.records() { bytes.len() } else { delimiter.length(bytes, records) };
        Load { bytes: &bytes[..length], records, first: parcel.first(), delimiter }
    }

    /// Exactly `records` of the records in front, copied to `gathered`, or fewer where they would exceed
    /// `most` bytes.
    pub(super) fn gather<'a>(
        &'a self,
        records: u64,
        most: usize,
        delimiter: &'a Delimiter,
        gathered: &'a mut Vec<u8>,
    ) -> Load<'a> {
        gathered.clear();
        let mut taken = 0;
        let all = self.parcels.iter().flat_map(|parcel| delimiter.split_inclusive(parcel.block().bytes()));
        for record in all.take(usize::try_from(records).unwrap_or(usize::MAX)) {
            if taken > 0 && gathered.len() + record.len() > most {
                break;
            }
            gathered.extend_from_slice(record);
            taken += 1;
        }
        Load { bytes: gathered, records: taken, first: self.front().map_or(0, Parcel::first), delimiter }
    }

    /// Forgets the first `records` records, which left at `at`. Returns their length.
    pub(super) fn advance(&mut self, mut records: u64, at: Time, delimiter: &Delimiter) -> usize {
        self.previous = at;
        let mut total = 0;
        while let Some(parcel) = self.parcels.front_mut().filter(|_| records > 0) {
            let taken = records.min(parcel.records());
            let bytes = parcel.block().bytes();
            let length = if taken == parcel.records() { bytes.len() } else { delimiter.length(bytes, taken) };
            parcel.advance(taken, length);
            if parcel.records() == 0 {
                self.parcels.pop_front();
            }
            records -= taken;
            total += length;
        }
        total
    }
}
