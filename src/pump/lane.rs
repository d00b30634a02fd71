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
    /// It is backing off until then.
    not_before: Time,
}

impl Lane {
    pub(super) fn push(&mut self, parcel: Parcel) {
        self.not_before = self.not_before.max(parcel.not_before());
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

    /// How many records from the front on ask the same of the limits, up to `most`.
    pub(super) fn alike(&self, most: u64) -> u64 {
        let Some(front) = self.front() else { return 0 };
        let mut records = 0;
        for parcel in self.parcels.iter().take_while(|parcel| parcel.class() == front.class()) {
            records += parcel.records();
            if records >= most {
                return most;
            }
        }
        records
    }

    pub(super) fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        self.parcels.iter()
    }

    /// Gives up all that waits.
    pub(super) fn empty(&mut self) -> VecDeque<Parcel> {
        std::mem::take(&mut self.parcels)
    }

    /// Gives up what waits to be sent for the first time.
    pub(super) fn take_fresh(&mut self) -> Vec<Parcel> {
        let (fresh, again): (Vec<_>, _) = self.parcels.drain(..).partition(|parcel| parcel.attempt() == 1);
        self.parcels = again.into();
        fresh
    }

    /// When its front became next in line, having arrived at `arrival`.
    pub(super) fn since(&self, arrival: Time) -> Time {
        arrival.max(self.previous).max(self.not_before)
    }

    /// When the last release happened.
    pub(super) fn previous(&self) -> Time {
        self.previous
    }

    /// Up to `records` of the records in front, as they lie in the first parcel.
    pub(super) fn load<'a>(&'a self, records: u64, delimiter: &'a Delimiter) -> Load<'a> {
        let Some(parcel) = self.front() else {
            return Load { bytes: &[], records: 0, first: 0, attempt: 0, delimiter };
        };
        let bytes = parcel.block().bytes();
        let records = records.min(parcel.records());
        let length = if records == parcel.records() { bytes.len() } else { delimiter.length(bytes, records) };
        Load { bytes: &bytes[..length], records, first: parcel.first(), attempt: parcel.attempt(), delimiter }
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
        let (first, attempt) = self.front().map_or((0, 0), |parcel| (parcel.first(), parcel.attempt()));
        Load { bytes: gathered, records: taken, first, attempt, delimiter }
    }

    /// Forgets the first `records` records, which left at `at`. Returns their length.
    pub(super) fn advance(&mut self, records: u64, at: Time, delimiter: &Delimiter) -> usize {
        let mut total = 0;
        self.each_part(records, at, delimiter, |parcel, taken, length| {
            parcel.advance(taken, length);
            total += length;
        });
        total
    }

    /// Takes out the first `records` records, which left at `at`.
    pub(super) fn take(&mut self, records: u64, at: Time, delimiter: &Delimiter) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        self.each_part(records, at, delimiter, |parcel, taken, length| {
            parcels.push(parcel.split_off(taken, length));
        });
        parcels
    }

    /// Calls `part` with each parcel that holds some of the first `records` records, their number and length in it.
    fn each_part(
        &mut self,
        mut records: u64,
        at: Time,
        delimiter: &Delimiter,
        mut part: impl FnMut(&mut Parcel, u64, usize),
    ) {
        self.previous = at;
        while let Some(parcel) = self.parcels.front_mut().filter(|_| records > 0) {
            let taken = records.min(parcel.records());
            let bytes = parcel.block().bytes();
            let length = if taken == parcel.records() { bytes.len() } else { delimiter.length(bytes, taken) };
            part(parcel, taken, length);
            if parcel.records() == 0 {
                self.parcels.pop_front();
            }
            records -= taken;
        }
    }

    /// Puts a parcel back in its place. Until it may go, nothing else does.
    pub(super) fn put_back(&mut self, parcel: Parcel) {
        self.not_before = self.not_before.max(parcel.not_before());
        let at = self.parcels.partition_point(|other| other.first() < parcel.first());
        self.parcels.insert(at, parcel);
    }
}
