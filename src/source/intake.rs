//! Turns the segments that were read into the items that wait in lanes.

use std::collections::VecDeque;

use anyhow::Result;

use super::{Charger, Delimiter, Fields, Items, Segment, bad_item};
use crate::charge::{Charge, Draft};
use crate::config::{Cleaning, Plan};
use crate::time::Time;

/// Returns true if an item is already done and need not be taken.
pub type Done = Box<dyn FnMut(&[u8]) -> bool>;

/// Items that have been read but are not in a lane yet.
pub(crate) struct Intake {
    delimiter: Delimiter,
    pub(crate) charger: Charger,
    /// Parts that each item must have.
    needed: Fields,
    /// True if items are taken one by one even if all are charged the same.
    singly: bool,
    cleaning: Cleaning,
    done: Option<Done>,
    segments: VecDeque<Segment>,
    /// The length of the front item once it has been looked at; its charge is then in `draft`.
    front: Option<usize>,
    draft: Draft,
    /// The charge of the item taken last, shared by the next one if it is the same.
    last: Charge,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    /// Of what was put in.
    items: u64,
    bytes: u64,
    /// The number of these items that are blank and left out.
    blank: u64,
    /// The arrival of the newest item.
    newest: Time,
    /// The numbers of items passed over: those already done, and blank ones.
    skipped: u64,
    left_out: u64,
    /// The number of bytes before the item with which the rest was dropped.
    dropped_from: Option<u64>,
}

impl Intake {
    /// An empty intake, which takes items as `plan` says.
    pub(crate) fn new(plan: &Plan, delimiter: Delimiter, charger: Charger) -> Self {
        Intake {
            delimiter,
            charger,
            needed: Fields::new(&plan.selectors, plan.input.separator.as_ref()),
            singly: plan.goes_singly(),
            cleaning: plan.input.cleaning,
            done: None,
            segments: VecDeque::new(),
            front: None,
            draft: Draft::default(),
            last: Charge::default(),
            totals: Totals::default(),
        }
    }

    /// Passes over the items that are `done`.
    pub(crate) fn skip(&mut self, done: Done) {
        self.done = Some(done);
        self.singly = true;
    }

    /// True if items may be used as they are in their buffer.
    pub(crate) fn is_verbatim(&self) -> bool {
        !self.cleaning.trim
    }

    /// The number of items passed over so far.
    pub(crate) fn passed_over(&self) -> u64 {
        self.totals.skipped + self.totals.left_out
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.totals.skipped
    }

    pub(crate) fn put(&mut self, segment: Segment) {
        let totals = &mut self.totals;
        let segment = segment.at(totals.items + 1, totals.bytes);
        totals.items += segment.items();
        totals.bytes += segment.bytes().len() as u64;
        totals.blank += self.delimiter.left_out(segment.bytes(), self.cleaning);
        totals.newest = segment.arrival();
        self.segments.push_back(segment);
    }

    /// Takes back segments that were taken before, in order, to be charged under other limits.
    pub(crate) fn put_back(&mut self, segments: Vec<Segment>, charger: Charger) {
        segments.into_iter().rev().for_each(|segment| self.segments.push_front(segment));
        self.charger = charger;
        self.front = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Drops everything that has not been taken.
    pub(crate) fn clear(&mut self) {
        self.totals.dropped_from = Some(self.offset());
        self.segments.clear();
        self.front = None;
    }

    /// True if items are taken one by one: their charges differ, or an option looks at each.
    pub(crate) fn is_single(&self) -> bool {
        self.singly || self.charger.uniform().is_none()
    }

    /// The arrival of the next item to take.
    pub(crate) fn arrival(&self) -> Option<Time> {
        self.segments.front().map(Segment::arrival)
    }

    /// The arrival of the newest item put in; later ones are no older.
    pub(crate) fn newest(&self) -> Time {
        self.totals.newest
    }

    /// The number of items put in.
    pub(crate) fn total(&self) -> u64 {
        self.totals.items
    }

    /// The number of items put in, without blank ones that are left out.
    pub(crate) fn read(&self) -> u64 {
        self.totals.items - self.totals.blank
    }

    /// The number of the next item to take, or else of the next one to be put in.
    pub(crate) fn first(&self) -> u64 {
        self.segments.front().map_or(self.totals.items + 1, Segment::first)
    }

    /// The number of bytes of the input before the next item to take, or before the first that was dropped.
    pub(crate) fn offset(&self) -> u64 {
        let end = self.totals.dropped_from.unwrap_or(self.totals.bytes);
        self.segments.front().map_or(end, Segment::offset)
    }

    /// The bytes of the first segment, if nothing of the input has been taken yet.
    pub(crate) fn beginning(&self) -> Option<&[u8]> {
        self.segments.front().filter(|front| front.offset() == 0).map(Segment::bytes)
    }

    /// Takes a whole segment, if all items are charged the same and need not be told apart.
    pub(crate) fn take_alike(&mut self) -> Option<Items> {
        let charge = self.charger.uniform().filter(|_| !self.singly)?.clone();
        Some(Items { segment: self.segments.pop_front()?, charge })
    }

    /// Looks at the front item, and leaves its charge in [`Intake::draft`]. Passes over items that are done or blank.
    ///
    /// # Errors
    /// A part of the item is missing or invalid; [`Intake::pass`] still takes it.
    pub(crate) fn look(&mut self) -> Option<Result<()>> {
        while self.front.is_none() {
            let segment = self.segments.front()?;
            let length = segment.first_length(&self.delimiter);
            let whole = self.delimiter.trim(&segment.bytes()[..length]);
            let record = self.cleaning.trim(whole);
            let charged = length - (whole.len() - record.len());
            self.front = Some(length);
            if self.cleaning.skips(record) {
                self.totals.left_out += 1;
                self.pass();
            } else if segment.attempt() == 1 && self.done.as_mut().is_some_and(|done| done(record)) {
                self.totals.skipped += 1;
                self.pass();
            } else if let Err(why) = self
                .charger
                .charge_into(record, charged, &mut self.draft)
                .and_then(|()| self.needed.check(record, charged))
            {
                return Some(Err(bad_item(segment.first(), &why)));
            }
        }
        Some(Ok(()))
    }

    /// True if some of the items that have not been looked at may already be done.
    pub(crate) fn may_skip(&self) -> bool {
        self.done.is_some() && !self.is_empty()
    }

    /// The charge of the front item, which has been looked at.
    pub(crate) fn draft(&self) -> &Draft {
        &self.draft
    }

    /// The front item, which has been looked at, without its delimiter.
    pub(crate) fn record(&self) -> &[u8] {
        let (Some(segment), Some(length)) = (self.segments.front(), self.front) else { return &[] };
        self.cleaning.trim(self.delimiter.trim(&segment.bytes()[..length]))
    }

    /// True if a column of the front item, which has been looked at, is looked for without regard to its quotes.
    pub(crate) fn cuts_quotes(&self) -> bool {
        self.charger.cuts_quotes(self.record()) || self.needed.cuts_quotes(self.record())
    }

    /// Takes the front item, which has been looked at, as it is in its buffer.
    pub(crate) fn pass(&mut self) -> Option<Segment> {
        let length = self.front.take()?;
        let segment = self.segments.front_mut()?;
        if segment.items() == 1 {
            return self.segments.pop_front();
        }
        Some(segment.split_at(1, length))
    }

    /// Takes the front item, which has been looked at, with its charge, in memory of its own.
    pub(crate) fn take(&mut self) -> Option<Items> {
        let segment = self.pass()?;
        let segment = if self.cleaning.trim { self.trimmed(&segment) } else { segment.detached() };
        if let Some(charge) = self.charger.uniform() {
            return Some(Items { segment, charge: charge.clone() });
        }
        self.last = self.draft.charge_like(&self.last);
        Some(Items { segment, charge: self.last.clone() })
    }

    /// One item without the white space around it.
    fn trimmed(&self, segment: &Segment) -> Segment {
        let record = self.delimiter.trim(segment.bytes());
        let (trimmed, delimiter) = (self.cleaning.trim(record), &segment.bytes()[record.len()..]);
        // With neither text nor delimiter, it would not be an item.
        let delimiter = if trimmed.is_empty() { self.delimiter.bytes() } else { delimiter };
        segment.replaced([trimmed, delimiter].concat())
    }

    /// Charges items that were taken before, even if the limits no longer admit them.
    pub(crate) fn recharge(&mut self, mut segment: Segment) -> Vec<Items> {
        if let Some(charge) = self.charger.uniform().filter(|_| !self.singly) {
            return vec![Items { segment, charge: charge.clone() }];
        }
        let mut items = Vec::new();
        while segment.items() > 0 {
            let one = segment.split_off(1, &self.delimiter);
            let record = self.delimiter.trim(one.bytes());
            let mut draft = Draft::default();
            let _ = self.charger.charge_into(record, one.bytes().len(), &mut draft);
            items.push(Items { segment: one.detached(), charge: draft.charge() });
        }
        items
    }
}
