//! What was read and has not joined a lane yet.

use super::rejects::{Reject, Rejects};
use super::{Notice, Stats};
use crate::config::{OnBad, Plan, Rate};
use crate::exit::Exit;
use crate::source::{Charger, Delimiter, Fields, Intake, Segment, SourceError};

/// The items that come next, those of them that can never be released, and how the input ends.
pub(super) struct Supply {
    pub(super) intake: Intake,
    rejects: Rejects,
    on_bad: OnBad,
    separator: Option<Vec<u8>>,
    /// Items are lines.
    is_lines: bool,
    /// What ended the input, if not its end.
    bad_end: Option<SourceError>,
    told: ToldOnce,
}

/// What is told once.
#[derive(Default)]
struct ToldOnce {
    /// An item ends in CR.
    line_end: bool,
    /// Limits that no item matched.
    unmatched: bool,
}

pub(super) enum Next {
    /// An item, which is charged.
    Item,
    /// Nothing that was read.
    Nothing,
    /// An item that cannot be charged, and is skipped.
    Bad(SourceError),
    /// As before, but the input ends with it.
    End(SourceError),
}

impl Supply {
    pub(super) fn new(plan: &Plan, rates: &[Rate], delimiter: &Delimiter) -> Self {
        let separator = plan.separator.clone();
        let charger = Charger::new(rates, separator.as_deref());
        let needed = Fields::new(&plan.selectors, separator.as_deref());
        let intake = Intake::new(delimiter.clone(), charger, plan.goes_singly());
        Supply {
            intake: intake.clean(plan.cleaning).needing(needed),
            rejects: Rejects::default(),
            on_bad: plan.on_bad,
            separator,
            is_lines: delimiter.is(b"\n"),
            bad_end: None,
            told: ToldOnce::default(),
        }
    }

    pub(super) fn look(&mut self) -> Next {
        match self.intake.look() {
            None => Next::Nothing,
            Some(Ok(())) => Next::Item,
            Some(Err(error)) if self.on_bad == OnBad::Skip => Next::Bad(error),
            Some(Err(error)) => Next::End(error),
        }
    }

    /// The input is over, and why, if not for its end.
    pub(super) fn end(&mut self, error: Option<SourceError>) {
        self.bad_end = error;
    }

    pub(super) fn take_bad_end(&mut self) -> Option<SourceError> {
        self.bad_end.take()
    }

    /// What waits is charged by other limits.
    pub(super) fn recharge(&mut self, waiting: Vec<Segment>, rates: &[Rate]) {
        let mut charger = Charger::new(rates, self.separator.as_deref());
        charger.keep_matched(self.intake.charger());
        self.intake.put_back(waiting, charger);
    }

    /// The item in front, which was looked at, can never be released.
    pub(super) fn reject(&mut self, why: impl FnOnce(&Segment) -> Notice, exit: Exit) {
        let Some(segment) = self.intake.pass() else { return };
        let uncounted = self.intake.skipped() + self.intake.blank();
        let (item, offset, notice) = (segment.first(), segment.offset(), why(&segment));
        self.rejects.add(Reject { item, offset, notice, exit }, uncounted);
    }

    /// The next item that is rejected, if its turn has come with as many items done with.
    pub(super) fn take_rejected(&mut self, done: u64) -> Option<Reject> {
        self.rejects.take_due(done)
    }

    /// So many items wait to be rejected that no more are looked at.
    pub(super) fn is_full(&self) -> bool {
        self.rejects.are_full()
    }

    /// How many bytes of the input stand before what is next.
    pub(super) fn offset(&self) -> u64 {
        self.rejects.offset().into_iter().fold(self.intake.offset(), u64::min)
    }

    /// The counters of the run, with what was read.
    pub(super) fn counted(&self, stats: &Stats) -> Stats {
        let read = self.intake.total() - self.intake.blank();
        Stats { read, skipped: self.intake.skipped(), ..*stats }
    }

    /// The number of items that were read. Blank ones that were not looked at yet are among them.
    pub(super) fn items(&self) -> u64 {
        self.intake.total() - self.intake.blank() - self.intake.skipped()
    }

    /// Lines from Windows end in CR, LF: few commands expect the CR in an argument. Told once, of the item in front.
    pub(super) fn line_end_warning(&mut self, is_argument: bool) -> Option<Notice> {
        if self.told.line_end || !is_argument || !self.is_lines || !self.intake.record().ends_with(b"\r") {
            return None;
        }
        self.told.line_end = true;
        let item = self.intake.first();
        Some(Notice::Warning(format!(
            "item {item} ends in a carriage return, which COMMAND gets: add --trim, or filter with tr -d '\\r'"
        )))
    }

    /// A limit for one key that never came is likely to be a mistake, if all items were looked at. Told once.
    pub(super) fn unmatched_warnings(&mut self) -> Vec<Notice> {
        if self.items() == 0 || self.intake.skipped() > 0 || std::mem::replace(&mut self.told.unmatched, true)
        {
            return Vec::new();
        }
        let warn = |limit| Notice::Warning(format!("no item matched the limit {limit}"));
        self.intake.charger().unmatched().map(warn).collect()
    }
}
