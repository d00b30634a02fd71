//! Turns the segments that were read into the items that wait in lanes.

use std::collections::VecDeque;

use anyhow::{Error, Result};

use super::rejects::{Rejects, Unfit};
use super::{Advice, Charger, Delimiter, Fields, Items, Segment, bad_item};
use crate::charge::{Charge, Draft};
use crate::config::{Cleaning, Config, Feed, OnLimit, Rate, Template, members};
use crate::time::Time;

/// Returns true if an item is already done and need not be taken.
pub type Done = Box<dyn FnMut(&[u8]) -> bool>;

/// Items that have been read but are not in a lane yet.
pub(crate) struct Input {
    delimiter: Delimiter,
    charger: Charger,
    needed: Needed,
    /// True if items are taken one by one even if all are charged the same.
    singly: bool,
    cleaning: Cleaning,
    done: Option<Done>,
    advice: Advice,
    segments: VecDeque<Segment>,
    front: Front,
    rejects: Rejects,
    totals: Totals,
    end: InputEnd,
}

/// What a command needs of its items.
struct Needed {
    /// Parts that each must have.
    parts: Fields,
    /// It takes the items themselves, too.
    items: bool,
}

/// The front item.
#[derive(Default)]
struct Front {
    /// Its length once it has been looked at; its charge is then in `draft`.
    length: Option<usize>,
    draft: Draft,
    /// The charge of the item taken last, shared by this one if it is the same.
    last: Charge,
}

#[derive(Default)]
struct InputEnd {
    /// True if no more will come.
    has_come: bool,
    /// The error that ended it, if one did.
    error: Option<Error>,
}

#[derive(Default)]
struct Totals {
    /// Of what was put in.
    items: u64,
    bytes: u64,
    /// The number of these items that are blank and left out.
    blank: u64,
    /// 1 if only a part of another item was read, and no more will be.
    begun: u64,
    /// The arrival of the newest item.
    newest: Time,
    /// The numbers of items passed over: those already done, and blank ones.
    skipped: u64,
    left_out: u64,
    /// The number of bytes before the item with which the rest was dropped.
    dropped_from: Option<u64>,
}

impl Input {
    /// An empty input, which takes items as `config` says and charges them under these limits.
    pub(crate) fn new(config: &Config, rates: &[Rate]) -> Self {
        let Config { input, queue, command, .. } = config;
        let template = command.as_ref().map(|run| &run.template);
        // What each command needs of its item, and parts of JSON that texts in braces may be meant for.
        let selectors = template.map_or(&[][..], |template| template.selectors());
        let members = template.map_or_else(Vec::new, members);
        let are_arguments = command.as_ref().is_some_and(|run| run.stdin != Feed::Items);
        let separator = input.separator.as_ref();
        Input {
            delimiter: Delimiter::of(input),
            charger: Charger::new(rates, separator),
            needed: Needed {
                parts: Fields::new(selectors, separator),
                items: template.is_some_and(Template::takes_items),
            },
            singly: queue.jitter.is_some()
                || queue.on_limit != OnLimit::Wait
                || are_arguments
                || !(selectors.is_empty() && members.is_empty())
                || input.cleaning != Cleaning::default(),
            cleaning: input.cleaning,
            done: None,
            advice: Advice::new(input, &members, rates),
            segments: VecDeque::new(),
            front: Front::default(),
            rejects: Rejects::new(input.on_bad),
            totals: Totals::default(),
            end: InputEnd::default(),
        }
    }

    pub(crate) fn delimiter(&self) -> &Delimiter {
        &self.delimiter
    }

    /// Passes over the items that are `done`.
    pub(crate) fn skip(&mut self, done: Done) {
        self.done = Some(done);
        self.singly = true;
    }

    /// Rejects what costs more than slots of each limit may.
    pub(crate) fn bound(&mut self, most: &[u64]) {
        self.charger.bound(most);
    }

    /// The charge of every item, if all have the same.
    pub(crate) fn uniform(&self) -> Option<&Charge> {
        self.charger.uniform()
    }

    /// True if items may be used as they are in their buffer.
    pub(crate) fn is_verbatim(&self) -> bool {
        !self.cleaning.trim
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

    /// Takes back segments that were taken before, in order, to be charged under other limits, with slots that are
    /// bound to cost no more than `most`.
    pub(crate) fn change_limits(&mut self, waiting: Vec<Segment>, rates: &[Rate], most: &[u64]) {
        waiting.into_iter().rev().for_each(|segment| self.segments.push_front(segment));
        self.charger.change_limits(rates);
        self.charger.bound(most);
        self.advice.change_limits(rates);
        self.front.length = None;
    }

    /// No more will come; with an error if that is not the end.
    pub(crate) fn end(&mut self, error: Option<Error>) {
        self.end = InputEnd { has_come: true, error };
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.has_come
    }

    /// Takes out the error that ended it.
    pub(crate) fn take_bad_end(&mut self) -> Option<Error> {
        self.end.error.take()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
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

    /// The number of items put in, without blank ones that are left out, and of one that is left in its middle.
    pub(crate) fn read(&self) -> u64 {
        self.totals.items - self.totals.blank + self.totals.begun
    }

    /// Counts an item of which only a part was read, and no more will be.
    pub(crate) fn leave_begun_item(&mut self) {
        self.totals.begun = 1;
    }

    /// The number of the next item to take, or else of the next one to be put in.
    pub(crate) fn first(&self) -> u64 {
        self.segments.front().map_or(self.totals.items + 1, Segment::first)
    }

    /// The number of items put in, without skipped ones. May include some that will be skipped when they are looked at.
    pub(crate) fn items(&self) -> u64 {
        self.read() - self.skipped()
    }

    /// The number of bytes of the input before the next item to take, or before the first that was dropped.
    fn offset(&self) -> u64 {
        let end = self.totals.dropped_from.unwrap_or(self.totals.bytes);
        self.segments.front().map_or(end, Segment::offset)
    }

    /// The number of bytes of the input before the first item that has neither been taken nor rejected.
    pub(crate) fn done_until(&self) -> u64 {
        self.rejects.offset().unwrap_or(u64::MAX).min(self.offset())
    }

    /// Takes a whole segment, if all items are charged the same and need not be told apart.
    pub(crate) fn take_alike(&mut self) -> Option<Items> {
        let charge = self.charger.uniform().filter(|_| !self.singly)?.clone();
        Some(Items { segment: self.segments.pop_front()?, charge })
    }

    /// Looks at the front item, for a command that may take it as an argument, and leaves its charge in
    /// [`Input::draft`]. Passes over items that are done or blank. Has advice on it `told`.
    ///
    /// # Errors
    /// A part of the item is missing or invalid; [`Input::pass`] still takes it.
    pub(crate) fn look(&mut self, is_argument: bool, mut told: impl FnMut(String)) -> Option<Result<()>> {
        let beginning = self.segments.front()?;
        let beginning = Some(beginning).filter(|front| front.offset() == 0).map(Segment::bytes);
        self.advice.on_encoding(beginning, is_argument || self.uniform().is_none()).map(&mut told);
        while self.front.length.is_none() {
            let segment = self.segments.front()?;
            let length = segment.first_length(&self.delimiter);
            let whole = self.delimiter.trim(&segment.bytes()[..length]);
            let record = self.cleaning.trim(whole);
            let charged = length - (whole.len() - record.len());
            self.front.length = Some(length);
            if self.cleaning.skips(record) {
                self.totals.left_out += 1;
                self.pass();
            } else if segment.attempt() == 1 && self.done.as_mut().is_some_and(|done| done(record)) {
                self.totals.skipped += 1;
                self.pass();
            } else if let Err(why) = self
                .charger
                .charge_into(record, charged, &mut self.front.draft)
                .and_then(|()| self.needed.parts.check(record, charged))
            {
                return Some(Err(bad_item(segment.first(), &why)));
            }
        }
        let (segment, length) = (self.segments.front()?, self.front.length?);
        let record = record_of(segment, length, &self.delimiter, self.cleaning);
        let cuts = || self.charger.cuts_quotes(record) || self.needed.parts.cuts_quotes(record);
        let takes_line_end = is_argument && self.advice.is_first_line_end(record) && {
            let mut parts = self.needed.parts.select(record, length).flatten();
            self.needed.items || parts.any(|part| part.ends_with(b"\r"))
        };
        self.advice.on_item(segment.first(), record, &self.charger, &cuts, takes_line_end).for_each(told);
        Some(Ok(()))
    }

    /// Rejects the front item, which was looked at and is invalid.
    ///
    /// # Errors
    /// The item ends the input. What has not been taken is dropped.
    pub(crate) fn reject_invalid(&mut self, why: Error) -> Result<()> {
        if !self.rejects.ends_the_input() {
            self.reject(Unfit::Uncharged(why));
            return Ok(());
        }
        self.totals.dropped_from = Some(self.offset());
        self.segments.clear();
        self.front.length = None;
        Err(why)
    }

    /// Takes out the front item, which was looked at, as it can never be released. Items that were skipped or left out
    /// do not count towards its turn.
    pub(crate) fn reject(&mut self, why: Unfit) {
        let Some(segment) = self.pass() else { return };
        let before = segment.first().saturating_sub(1 + self.totals.skipped + self.totals.left_out);
        self.rejects.add(before, &segment, why);
    }

    /// Takes the next item to reject, if its turn has come now that `done` items are done.
    pub(crate) fn take_rejected(&mut self, done: u64) -> Option<(Segment, Unfit)> {
        self.rejects.take_due(done)
    }

    /// True while no more items may be looked at, as too many wait to be rejected.
    pub(crate) fn is_full(&self) -> bool {
        self.rejects.is_full()
    }

    /// The advice on all items together, once they were all looked at.
    pub(crate) fn last_advice(&mut self) -> Vec<String> {
        let has_looked_at_all = self.items() > 0 && self.skipped() == 0;
        self.advice.at_end(&self.charger, has_looked_at_all)
    }

    /// True if some of the items that have not been looked at may already be done.
    pub(crate) fn may_skip(&self) -> bool {
        self.done.is_some() && !self.is_empty()
    }

    /// The charge of the front item, which has been looked at.
    pub(crate) fn draft(&self) -> &Draft {
        &self.front.draft
    }

    /// The front item, which has been looked at, without its delimiter.
    pub(crate) fn record(&self) -> &[u8] {
        let looked_at = self.segments.front().zip(self.front.length);
        looked_at.map_or(&[], |(front, length)| record_of(front, length, &self.delimiter, self.cleaning))
    }

    /// Takes the front item, which has been looked at, as it is in its buffer.
    pub(crate) fn pass(&mut self) -> Option<Segment> {
        let length = self.front.length.take()?;
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
        let Front { draft, last, .. } = &mut self.front;
        *last = draft.charge_like(last);
        Some(Items { segment, charge: last.clone() })
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

/// The first item of a segment, which is this long, without its delimiter.
fn record_of<'a>(front: &'a Segment, length: usize, delimiter: &Delimiter, cleaning: Cleaning) -> &'a [u8] {
    cleaning.trim(delimiter.trim(&front.bytes()[..length]))
}
