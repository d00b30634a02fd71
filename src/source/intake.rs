//! From blocks, as they were read, to parcels, as they wait.

use std::collections::VecDeque;

use super::{Block, Charger, Delimiter, SourceError};
use crate::charge::Charge;
use crate::runtime::joblog::Completed;
use crate::time::Time;

/// One or more records that arrived together and ask the same of the limits.
#[derive(Debug)]
pub struct Parcel {
    block: Block,
    class: Charge,
    first: u64,
    offset: u64,
    trial: Trial,
}

/// How often something has been sent, and what follows from that for the next time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    /// How often it will have been sent, the next time included.
    attempt: u64,
    /// The number of the first item that it was sent together with; 0 if it was not.
    batch: u64,
    /// When it may be sent again.
    not_before: Time,
}

impl Trial {
    const FIRST: Trial = Trial { attempt: 1, batch: 0, not_before: Time::ZERO };
}

impl Parcel {
    /// The records.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// What each of them asks of the limits.
    pub fn class(&self) -> &Charge {
        &self.class
    }

    /// The number of the first one, counted from 1.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many bytes of the input stand before it.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How often it will have been sent, the next time included.
    pub fn attempt(&self) -> u64 {
        self.trial.attempt
    }

    /// When it may be sent: at once, unless it is backing off.
    pub fn not_before(&self) -> Time {
        self.trial.not_before
    }

    /// Whether they may be in one batch. What was sent together stays together, apart from all else.
    pub(crate) fn may_join(&self, other: &Parcel) -> bool {
        let batch = |parcel: &Parcel| (parcel.trial.attempt, parcel.trial.batch);
        self.class.keys == other.class.keys && batch(self) == batch(other)
    }

    /// The same, to be sent once more, with those of the batch whose first item has this number.
    pub(crate) fn again(self, batch: u64, not_before: Time) -> Self {
        let attempt = self.trial.attempt + 1;
        Parcel { trial: Trial { attempt, batch, not_before }, ..self }
    }

    /// When it arrived.
    pub fn arrival(&self) -> Time {
        self.block.arrival()
    }

    /// How many records are left in it.
    pub fn records(&self) -> u64 {
        self.block.records()
    }

    /// Takes off the first `records` records, which are `length` bytes together.
    pub(crate) fn split_off(&mut self, records: u64, length: usize) -> Parcel {
        let bytes = self.block.bytes()[..length].to_vec();
        let block = Block::of(bytes, records, self.block.arrival());
        let front = Parcel { block, class: self.class.clone(), ..*self };
        self.advance(records, length);
        front
    }

    /// What each of its records asks of other limits, though they may not admit it.
    pub(crate) fn reclassified<'a>(
        &'a self,
        classifier: &'a Charger,
        delimiter: &'a Delimiter,
    ) -> impl Iterator<Item = Charge> + 'a {
        let records = delimiter.split_inclusive(self.block.bytes());
        records.map(|record| classifier.charge_leniently(delimiter.trim(record), record.len()))
    }

    /// Forgets the first `records` records, which are `length` bytes together.
    pub(crate) fn advance(&mut self, records: u64, length: usize) {
        self.block.advance(records, length);
        self.first += records;
        self.offset += length as u64;
    }
}

/// What has been read and does not wait in a lane yet.
pub struct Intake {
    delimiter: Delimiter,
    classifier: Charger,
    /// Records are told apart even if all ask the same.
    singly: bool,
    blocks: VecDeque<Raw>,
    /// What need not be taken.
    completed: Option<Completed>,
    skipped: u64,
    /// Records and bytes put in so far.
    records: u64,
    bytes: u64,
    /// When the newest of them arrived.
    newest: Time,
}

/// A block with its place in the input.
struct Raw {
    block: Block,
    first: u64,
    offset: u64,
    trial: Trial,
}

impl Intake {
    /// Empty.
    pub fn new(delimiter: Delimiter, classifier: Charger, singly: bool) -> Self {
        Intake {
            delimiter,
            classifier,
            singly,
            blocks: VecDeque::new(),
            completed: None,
            skipped: 0,
            records: 0,
            bytes: 0,
            newest: Time::ZERO,
        }
    }

    /// Passes over the items that are `completed`.
    pub fn skip(&mut self, completed: Completed) {
        self.completed = Some(completed);
        self.singly = true;
    }

    /// How many items were passed over.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Takes what was read.
    pub fn put(&mut self, block: Block) {
        let (first, offset) = (self.records + 1, self.bytes);
        self.records += block.records();
        self.bytes += block.bytes().len() as u64;
        self.newest = block.arrival();
        self.blocks.push_back(Raw { block, first, offset, trial: Trial::FIRST });
    }

    /// Takes back what was taken before, in its order, to be classified by other limits.
    pub fn put_back(&mut self, parcels: Vec<Parcel>, classifier: Charger) {
        for Parcel { block, first, offset, trial, .. } in parcels.into_iter().rev() {
            self.blocks.push_front(Raw { block, first, offset, trial });
        }
        self.classifier = classifier;
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Drops all that has not been taken.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Whether records are taken one by one.
    pub fn is_single(&self) -> bool {
        self.singly || self.classifier.uniform().is_none()
    }

    /// When what can be taken next arrived.
    pub fn arrival(&self) -> Option<Time> {
        self.blocks.front().map(|raw| raw.block.arrival())
    }

    /// When the newest of all that was put in arrived: what is still to come did so no earlier.
    pub fn newest(&self) -> Time {
        self.newest
    }

    /// The number of the item that can be taken next, or of the next one that is put in.
    pub fn first(&self) -> u64 {
        self.blocks.front().map_or(self.records + 1, |raw| raw.first)
    }

    /// How many bytes of the input stand before what can be taken next.
    pub fn offset(&self) -> u64 {
        self.blocks.front().map_or(self.bytes, |raw| raw.offset)
    }

    /// Takes the next record, or all of a block if they need not be told apart.
    pub fn take(&mut self) -> Option<Result<Parcel, SourceError>> {
        if self.is_single() {
            return self.take_record();
        }
        let class = self.classifier.uniform()?.clone();
        let Raw { block, first, offset, trial } = self.blocks.pop_front()?;
        Some(Ok(Parcel { block, class, first, offset, trial }))
    }

    fn take_record(&mut self) -> Option<Result<Parcel, SourceError>> {
        loop {
            let raw = self.blocks.front_mut()?;
            let Raw { first, offset, trial, .. } = *raw;
            let length = self.delimiter.length(raw.block.bytes(), 1);
            let block = Block::of(raw.block.bytes()[..length].to_vec(), 1, raw.block.arrival());
            raw.block.advance(1, length);
            (raw.first, raw.offset) = (first + 1, offset + length as u64);
            if raw.block.records() == 0 {
                self.blocks.pop_front();
            }
            let record = self.delimiter.trim(block.bytes());
            // What was taken before has been looked for.
            if trial == Trial::FIRST
                && self.completed.as_mut().is_some_and(|completed| completed.take(record))
            {
                self.skipped += 1;
                continue;
            }
            let class = self.classifier.charge(record, length);
            let parcel = class.map(|class| Parcel { block, class, first, offset, trial });
            return Some(parcel.map_err(|why| SourceError::Item { record: first, why: why.to_string() }));
        }
    }
}
