//! From blocks, as they were read, to items, as they wait.

use std::collections::VecDeque;

use super::{Block, Charger, Delimiter, Fields, Items, Segment, SourceError};
use crate::charge::{Charge, Draft};
use crate::config::Cleaning;
use crate::time::Time;

/// Tells of an item whether it is done with already and need not be taken.
pub type Done = Box<dyn FnMut(&[u8]) -> bool>;

/// What has been read and does not wait in a lane yet.
pub struct Intake {
    delimiter: Delimiter,
    charger: Charger,
    /// What each item has to have.
    needed: Fields,
    /// Items are told apart even if all are charged the same.
    singly: bool,
    segments: VecDeque<Segment>,
    /// The charge of the item in front, and its length, once it has been looked at.
    front: Option<usize>,
    draft: Draft,
    /// What the item taken last is charged, unless all are charged the same.
    last: Charge,
    filter: Filter,
    /// Items and bytes put in so far.
    items: u64,
    bytes: u64,
    /// When the newest of them arrived.
    newest: Time,
}

/// Which items are passed over, and how many were.
#[derive(Default)]
struct Filter {
    done: Option<Done>,
    skipped: u64,
    cleaning: Cleaning,
    blank: u64,
}

impl Filter {
    fn passes_over(&mut self, record: &[u8], attempt: u64) -> bool {
        if self.cleaning.skip_blank && is_blank(record) {
            self.blank += 1;
            return true;
        }
        let is_done = attempt == 1 && self.done.as_mut().is_some_and(|done| done(record));
        self.skipped += u64::from(is_done);
        is_done
    }
}

impl Intake {
    /// Empty. `singly`: each item is taken on its own.
    pub fn new(delimiter: Delimiter, charger: Charger, singly: bool) -> Self {
        Intake {
            delimiter,
            charger,
            needed: Fields::default(),
            singly,
            segments: VecDeque::new(),
            front: None,
            draft: Draft::default(),
            last: Charge::default(),
            filter: Filter::default(),
            items: 0,
            bytes: 0,
            newest: Time::ZERO,
        }
    }

    /// Passes over the items that are `done`.
    pub fn skip(&mut self, done: Done) {
        self.filter.done = Some(done);
        self.singly = true;
    }

    /// Leaves out what is not wanted of what was read.
    pub fn clean(mut self, cleaning: Cleaning) -> Self {
        self.singly |= cleaning != Cleaning::default();
        self.filter.cleaning = cleaning;
        self
    }

    /// Takes only items that have these parts.
    pub fn needing(mut self, fields: Fields) -> Self {
        self.needed = fields;
        self
    }

    /// Whether items may be used as they lie in their buffer.
    pub fn is_verbatim(&self) -> bool {
        !self.filter.cleaning.trim
    }

    /// How many blank items were left out.
    pub fn blank(&self) -> u64 {
        self.filter.blank
    }

    /// How many items were passed over.
    pub fn skipped(&self) -> u64 {
        self.filter.skipped
    }

    /// How items are charged.
    pub fn charger(&self) -> &Charger {
        &self.charger
    }

    /// Takes what was read.
    pub fn put(&mut self, block: Block) {
        let segment = Segment::new(block, self.items + 1, self.bytes);
        self.items += segment.items();
        self.bytes += segment.bytes().len() as u64;
        self.newest = segment.arrival();
        self.segments.push_back(segment);
    }

    /// Takes back what was taken before, in its order, to be charged by other limits.
    pub fn put_back(&mut self, segments: Vec<Segment>, charger: Charger) {
        segments.into_iter().rev().for_each(|segment| self.segments.push_front(segment));
        self.charger = charger;
        self.front = None;
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Drops all that has not been taken.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.front = None;
    }

    /// Whether items are taken one by one.
    pub fn is_single(&self) -> bool {
        self.singly || self.charger.uniform().is_none()
    }

    /// When what can be taken next arrived.
    pub fn arrival(&self) -> Option<Time> {
        self.segments.front().map(Segment::arrival)
    }

    /// When the newest of all that was put in arrived: what is still to come did so no earlier.
    pub fn newest(&self) -> Time {
        self.newest
    }

    /// How many items have been put in.
    pub fn total(&self) -> u64 {
        self.items
    }

    /// The number of the item that can be taken next, or of the next one that is put in.
    pub fn first(&self) -> u64 {
        self.segments.front().map_or(self.items + 1, Segment::first)
    }

    /// How many bytes of the input stand before what can be taken next.
    pub fn offset(&self) -> u64 {
        self.segments.front().map_or(self.bytes, Segment::offset)
    }

    /// Takes all that arrived together, where all items are charged the same and need not be told apart.
    pub fn take_alike(&mut self) -> Option<Items> {
        let charge = self.charger.uniform().filter(|_| !self.singly)?.clone();
        Some(Items { segment: self.segments.pop_front()?, charge })
    }

    /// Looks at the item in front: its charge is then in [`Intake::draft`]. Items that are done with are passed over.
    ///
    /// # Errors
    /// It does not say what it should; [`Intake::pass`] takes it all the same.
    pub fn look(&mut self) -> Option<Result<(), SourceError>> {
        while self.front.is_none() {
            let segment = self.segments.front()?;
            let length = self.delimiter.first(segment.bytes());
            let whole = self.delimiter.trim(&segment.bytes()[..length]);
            let record = trim(self.filter.cleaning, whole);
            let charged = length - (whole.len() - record.len());
            self.front = Some(length);
            if self.filter.passes_over(record, segment.attempt()) {
                self.pass();
            } else if let Err(bad) = self
                .charger
                .charge_into(record, charged, &mut self.draft)
                .and_then(|()| self.needed.check(record, charged))
            {
                return Some(Err(SourceError::Item { record: segment.first(), why: bad.to_string() }));
            }
        }
        Some(Ok(()))
    }

    /// The charge of the item in front, which has been looked at.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// The item in front, which has been looked at, without its delimiter.
    pub fn record(&self) -> &[u8] {
        let (Some(segment), Some(length)) = (self.segments.front(), self.front) else { return &[] };
        trim(self.filter.cleaning, self.delimiter.trim(&segment.bytes()[..length]))
    }

    /// Takes the item in front, which has been looked at, as it lies in its buffer.
    pub fn pass(&mut self) -> Option<Segment> {
        let length = self.front.take()?;
        let segment = self.segments.front_mut()?;
        if segment.items() == 1 {
            return self.segments.pop_front();
        }
        Some(segment.split_at(1, length))
    }

    /// Takes the item in front, which has been looked at, in memory of its own and with its charge.
    pub fn take(&mut self) -> Option<Items> {
        let segment = self.pass()?;
        let segment = if self.filter.cleaning.trim { self.trimmed(&segment) } else { segment.detached() };
        if let Some(charge) = self.charger.uniform() {
            return Some(Items { segment, charge: charge.clone() });
        }
        self.last = self.draft.charge_like(&self.last);
        Some(Items { segment, charge: self.last.clone() })
    }

    /// One item without the white space around it.
    fn trimmed(&self, segment: &Segment) -> Segment {
        let record = self.delimiter.trim(segment.bytes());
        let (trimmed, delimiter) = (record.trim_ascii(), &segment.bytes()[record.len()..]);
        // With neither text nor delimiter it would be no item at all.
        let delimiter = if trimmed.is_empty() { self.delimiter.bytes() } else { delimiter };
        segment.replaced([trimmed, delimiter].concat())
    }

    /// Items that were taken before, each with its charge, though the limits may not admit it any more.
    pub fn recharge(&self, mut segment: Segment) -> Vec<Items> {
        if let Some(charge) = self.charger.uniform().filter(|_| !self.singly) {
            return vec![Items { segment, charge: charge.clone() }];
        }
        let mut items = Vec::new();
        while segment.items() > 0 {
            let one = segment.split_off(1, &self.delimiter);
            let charge = self.recharged(&one);
            items.push(Items { segment: one.detached(), charge });
        }
        items
    }

    /// The charge of an item that cannot be refused any more.
    fn recharged(&self, item: &Segment) -> Charge {
        self.charger.charge_leniently(self.delimiter.trim(item.bytes()), item.bytes().len())
    }
}

/// Whether there is nothing but white space, as C has it: also vertical tabs.
pub(crate) fn is_blank(record: &[u8]) -> bool {
    record.iter().all(|&byte| byte.is_ascii_whitespace() || byte == b'\x0b')
}

fn trim(cleaning: Cleaning, record: &[u8]) -> &[u8] {
    if cleaning.trim { record.trim_ascii() } else { record }
}
