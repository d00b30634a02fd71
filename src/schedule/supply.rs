//! Items that were read but have not joined a lane yet.
//!
//! An item that can never be released is rejected in its turn: once as many items are done as precede it in the input.
//! Such items are found when they are read, which may be far ahead. Counted at once, a few of them would be a large
//! share of what has ended so far and might end a run with `--halt`, depending on how the input was cut into blocks.

use std::collections::BTreeMap;

use anyhow::Error;

use super::{Notice, Stats};
use crate::config::{OnBad, Plan, Rate, Selector, keys};
use crate::exit::Exit;
use crate::printable::excerpt;
use crate::source::{Charger, Delimiter, Intake, Segment};

/// The most items that may be waiting to be rejected; no further items are looked at.
const MOST_REJECTS: usize = 1024;

/// The items that come next, the rejected ones among them, and how the input ends.
pub(super) struct Supply {
    pub(super) intake: Intake,
    /// Items that can never be released, by the number of items that must be done before them, and their own number.
    rejects: BTreeMap<(u64, u64), Reject>,
    /// What to do about an item that cannot be charged.
    pub(super) on_bad: OnBad,
    separator: Option<Vec<u8>>,
    /// Items are lines, and there was no warning yet of one that ends in CR.
    tells_line_end: bool,
    /// The input was not yet checked for a byte order mark.
    looks_for_mark: bool,
    /// The index of a key of URLs or JSON, and its selector, until there was a warning of an item that is neither.
    format: Option<(usize, Selector)>,
    /// The warnings of limits that no item matched were given.
    unmatched_told: bool,
    /// The error that ended the input, if one did.
    pub(super) bad_end: Option<Error>,
}

/// An item that can never be released.
pub(super) struct Reject {
    /// Its number.
    pub(super) item: u64,
    /// The number of input bytes before it.
    offset: u64,
    pub(super) notice: Notice,
    pub(super) exit: Exit,
}

impl Supply {
    pub(super) fn new(plan: &Plan, rates: &[Rate], delimiter: &Delimiter) -> Self {
        let separator = plan.input.separator.clone();
        let charger = Charger::new(rates, separator.as_deref());
        Supply {
            intake: Intake::new(plan, delimiter.clone(), charger),
            rejects: BTreeMap::new(),
            on_bad: plan.input.on_bad,
            separator,
            tells_line_end: plan.input.delimiter == b"\n",
            looks_for_mark: true,
            format: format_of(rates),
            unmatched_told: false,
            bad_end: None,
        }
    }

    pub(super) fn recharge(&mut self, waiting: Vec<Segment>, rates: &[Rate]) {
        let mut charger = Charger::new(rates, self.separator.as_deref());
        charger.keep_matched(&self.intake.charger);
        self.format = format_of(rates).filter(|_| self.format.is_some());
        self.intake.put_back(waiting, charger);
    }

    /// Takes out the front item, which was looked at, as it can never be released. Items that were skipped or left out
    /// do not count towards its turn.
    pub(super) fn reject(&mut self, why: impl FnOnce(&Segment) -> Notice, exit: Exit) {
        let Some(segment) = self.intake.pass() else { return };
        let (item, offset, notice) = (segment.first(), segment.offset(), why(&segment));
        let before = item.saturating_sub(1 + self.intake.passed_over());
        self.rejects.insert((before, item), Reject { item, offset, notice, exit });
    }

    /// Takes out the next item to reject, if its turn has come now that `done` items are done.
    pub(super) fn take_rejected(&mut self, done: u64) -> Option<Reject> {
        Some(self.rejects.first_entry().filter(|first| first.key().0 <= done)?.remove())
    }

    /// True while no more items may be looked at, as too many wait to be rejected.
    pub(super) fn is_full(&self) -> bool {
        self.rejects.len() >= MOST_REJECTS
    }

    /// The number of input bytes before the next item, which may be one that waits to be rejected.
    pub(super) fn offset(&self) -> u64 {
        self.rejects.values().next().map_or(u64::MAX, |reject| reject.offset).min(self.intake.offset())
    }

    /// The counters of the run, completed with the items read and skipped.
    pub(super) fn counted(&self, stats: &Stats) -> Stats {
        Stats { read: self.intake.read(), skipped: self.intake.skipped(), ..*stats }
    }

    /// The number of items read, without skipped ones. May include some that will be skipped when they are looked at.
    pub(super) fn items(&self) -> u64 {
        self.intake.read() - self.intake.skipped()
    }

    /// Warns once of an item that ends in CR: lines from Windows end in CR LF, and few commands expect the CR in an
    /// argument.
    pub(super) fn line_end_warning(&mut self, is_argument: bool) -> Option<Notice> {
        if !self.tells_line_end || !is_argument || !self.intake.record().ends_with(b"\r") {
            return None;
        }
        self.tells_line_end = false;
        let item = self.intake.first();
        Some(Notice::Warning(format!(
            "item {item} ends in a carriage return, which COMMAND gets: add --trim, or filter with tr -d '\\r'"
        )))
    }

    /// Warns once of an item that is not of the kind whose part a limit goes by: all such items have the same key, so
    /// they wait for each other.
    pub(super) fn format_warning(&mut self) -> Option<Notice> {
        let (key, selector) = self.format.as_ref()?;
        if !self.intake.draft().keys.get(*key)?.is_empty() {
            return None;
        }
        let record = self.intake.record();
        let (what, need) = match (selector, record.trim_ascii_start().first()?) {
            (Selector::Host, _) => ("has no host", ": URLs need a scheme, such as https://"),
            // It may lack the part.
            (_, b'{' | b'[') => return None,
            _ => ("is no JSON object or array", ""),
        };
        let (item, record) = (self.intake.first(), excerpt(record));
        let warning =
            format!("item {item} {record} {what}, so key={selector} puts it under the empty key{need}");
        self.format = None;
        Some(Notice::Warning(warning))
    }

    /// Warns once, before the first item is looked at, of text from Windows that begins with a byte order mark, which
    /// selectors and commands take for part of the item, or that is in UTF-16, which they cannot read.
    pub(super) fn encoding_warning(&mut self, is_argument: bool) -> Option<Notice> {
        if !self.looks_for_mark || self.intake.is_empty() {
            return None;
        }
        self.looks_for_mark = false;
        let is_read = is_argument || self.intake.charger.uniform().is_none();
        let warning = match self.intake.beginning().filter(|_| is_read)? {
            [0xef, 0xbb, 0xbf, ..] => {
                "item 1 begins with a byte order mark, which becomes part of it: remove it with tail -c +4"
            }
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                "the items are in UTF-16: convert them with iconv -f UTF-16 -t UTF-8"
            }
            _ => return None,
        };
        Some(Notice::Warning(warning.to_owned()))
    }

    /// Warns once of limits for a key that never came, which are probably mistakes, if all items were looked at.
    pub(super) fn unmatched_warnings(&mut self) -> Vec<Notice> {
        let was_told = std::mem::replace(&mut self.unmatched_told, true);
        if self.items() == 0 || self.intake.skipped() > 0 || was_told {
            return Vec::new();
        }
        let warn = |limit| Notice::Warning(format!("no item matched the limit {limit}"));
        self.intake.charger.unmatched().map(warn).collect()
    }
}

/// The first key of these limits that is a part of URLs or JSON, with its index.
fn format_of(rates: &[Rate]) -> Option<(usize, Selector)> {
    let has_format = |key: &Selector| matches!(key, Selector::Host | Selector::Path(_));
    keys(rates).into_iter().cloned().enumerate().find(|(_, key)| has_format(key))
}
