//! Items that were read and have not joined a lane yet.
//!
//! Items that can never be released count in turn: once as many are done with as stand before them in the input. They
//! are found when they are read, however far ahead that is. Counted then, a few of them would be a large share of what
//! has ended so far, and end a run with `--halt`, depending on how the input was cut into blocks.

use std::collections::BTreeMap;

use super::{Notice, Stats};
use crate::config::{OnBad, Plan, Rate};
use crate::exit::Exit;
use crate::source::{Charger, Delimiter, Intake, Segment, SourceError};

/// As soon as this number waits for its turn to be rejected, no more are looked for.
const MOST_REJECTS: usize = 1024;

/// The items that come next, those of them that can never be released, and how the input ends.
pub(super) struct Supply {
    pub(super) intake: Intake,
    /// Items that can never be released, by the number of items that are to be done with before them, and their own.
    rejects: BTreeMap<(u64, u64), Reject>,
    on_bad: OnBad,
    separator: Option<Vec<u8>>,
    /// Items are lines, and it was not told yet that one ends in CR.
    tells_line_end: bool,
    /// The beginning of the input was not looked at yet for a byte order mark.
    looks_for_mark: bool,
    /// It was told which limits no item matched.
    unmatched_told: bool,
    /// Set if something else than its end ended the input.
    pub(super) bad_end: Option<SourceError>,
}

/// An item that can never be released.
pub(super) struct Reject {
    /// Its number.
    pub(super) item: u64,
    /// The number of bytes of the input before it.
    offset: u64,
    pub(super) notice: Notice,
    pub(super) exit: Exit,
}

pub(super) enum Next {
    /// An item, which is charged.
    Item,
    /// Nothing that was read.
    Nothing,
    /// An item that cannot be charged, and is skipped.
    Rejected,
    /// As before, but the input ends with it.
    End(SourceError),
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
            unmatched_told: false,
            bad_end: None,
        }
    }

    pub(super) fn look(&mut self) -> Next {
        match self.intake.look() {
            None => Next::Nothing,
            Some(Ok(())) => Next::Item,
            Some(Err(error)) if self.on_bad == OnBad::Skip => {
                self.reject(|_| Notice::BadItem(error), Exit::BadItem);
                Next::Rejected
            }
            Some(Err(error)) => {
                self.intake.clear();
                Next::End(error)
            }
        }
    }

    pub(super) fn recharge(&mut self, waiting: Vec<Segment>, rates: &[Rate]) {
        let mut charger = Charger::new(rates, self.separator.as_deref());
        charger.keep_matched(self.intake.charger());
        self.intake.put_back(waiting, charger);
    }

    /// The item in front, which was looked at, can never be released. Items that were passed over or left out count for
    /// nothing.
    pub(super) fn reject(&mut self, why: impl FnOnce(&Segment) -> Notice, exit: Exit) {
        let Some(segment) = self.intake.pass() else { return };
        let (item, offset, notice) = (segment.first(), segment.offset(), why(&segment));
        let before = item.saturating_sub(1 + self.intake.passed_over());
        self.rejects.insert((before, item), Reject { item, offset, notice, exit });
    }

    /// The next item that is rejected, if its turn has come with as many items done with.
    pub(super) fn take_rejected(&mut self, done: u64) -> Option<Reject> {
        Some(self.rejects.first_entry().filter(|first| first.key().0 <= done)?.remove())
    }

    /// True while no more items are looked at, as too many wait to be rejected.
    pub(super) fn is_full(&self) -> bool {
        self.rejects.len() >= MOST_REJECTS
    }

    /// The number of bytes of the input before the next item, rejected ones included.
    pub(super) fn offset(&self) -> u64 {
        self.rejects.values().next().map_or(u64::MAX, |reject| reject.offset).min(self.intake.offset())
    }

    /// The counters of the run, with what was read.
    pub(super) fn counted(&self, stats: &Stats) -> Stats {
        Stats { read: self.intake.read(), skipped: self.intake.skipped(), ..*stats }
    }

    /// The number of items that were read. Those that were done before and not looked at yet are among them.
    pub(super) fn items(&self) -> u64 {
        self.intake.read() - self.intake.skipped()
    }

    /// Lines from Windows end in CR, LF: few commands expect the CR in an argument. Told once, of the item in front.
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

    /// Text from Windows may begin with a byte order mark, which selectors and commands take for a part of the first
    /// item, or be in UTF-16, which they cannot read. Told once, before that item is looked at.
    pub(super) fn encoding_warning(&mut self, is_argument: bool) -> Option<Notice> {
        if !self.looks_for_mark || self.intake.is_empty() {
            return None;
        }
        self.looks_for_mark = false;
        let is_read = is_argument || self.intake.charger().uniform().is_none();
        let warning = match self.intake.beginning().filter(|_| is_read)? {
            [0xef, 0xbb, 0xbf, ..] => {
                "item 1 begins with a byte order mark, which is taken for a part of it: filter with tail -c +4"
            }
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                "the items are in UTF-16: filter with iconv -f UTF-16 -t UTF-8"
            }
            _ => return None,
        };
        Some(Notice::Warning(warning.to_owned()))
    }

    /// A limit for one key that never came is likely to be a mistake, if all items were looked at. Told once.
    pub(super) fn unmatched_warnings(&mut self) -> Vec<Notice> {
        let was_told = std::mem::replace(&mut self.unmatched_told, true);
        if self.items() == 0 || self.intake.skipped() > 0 || was_told {
            return Vec::new();
        }
        let warn = |limit| Notice::Warning(format!("no item matched the limit {limit}"));
        self.intake.charger().unmatched().map(warn).collect()
    }
}
