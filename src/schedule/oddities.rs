//! Items that are not what the options expect: each kind is told once.

use std::mem;

use super::Notice;
use crate::config::{Plan, Rate, Selector, Separator};
use crate::printable::excerpt;
use crate::source::{Charger, Fields, Intake, Keyless, cut_quotes};

/// The kinds of oddities that were not told yet.
pub(super) struct Oddities {
    /// Items are lines, and there was none yet that ends in CR.
    tells_line_end: bool,
    /// The input was not yet checked for a byte order mark.
    looks_for_mark: bool,
    /// The command has these texts in braces, which may be meant for members of JSON; none once an item was checked.
    members: Vec<Selector>,
    /// There was no item yet whose columns are cut inside of quotes.
    tells_quotes: bool,
    /// `None` once the warnings at the end were given.
    keyless: Option<Keyless>,
}

impl Oddities {
    pub(super) fn new(plan: &Plan, rates: &[Rate]) -> Self {
        Oddities {
            tells_line_end: plan.input.delimiter == b"\n",
            looks_for_mark: true,
            members: plan.members.clone(),
            tells_quotes: matches!(plan.input.separator, Some(Separator::Text(_))),
            keyless: Some(Keyless::new(rates)),
        }
    }

    /// The keys may be others from now on.
    pub(super) fn change_limits(&mut self, rates: &[Rate]) {
        self.keyless = self.keyless.take().map(|_| Keyless::new(rates));
    }

    /// Text from Windows, before its first item is looked at: it may begin with a byte order mark, which selectors and
    /// commands take for part of the item, or be in UTF-16, which they cannot read.
    pub(super) fn of_encoding(&mut self, intake: &Intake, is_argument: bool) -> Option<Notice> {
        if !self.looks_for_mark || intake.is_empty() {
            return None;
        }
        self.looks_for_mark = false;
        let is_read = is_argument || intake.charger.uniform().is_none();
        let warning = match intake.beginning().filter(|_| is_read)? {
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

    /// Those of the front item, which was looked at.
    pub(super) fn of_item(&mut self, intake: &Intake) -> impl Iterator<Item = Notice> + use<> {
        let all = [self.keyless(intake), self.member(intake), self.quotes(intake)];
        all.into_iter().flatten().map(Notice::Warning)
    }

    /// A line that ends in CR LF, as on Windows: few commands expect the CR in an argument.
    pub(super) fn line_end(&mut self, intake: &Intake, is_argument: bool) -> Option<Notice> {
        if !self.tells_line_end || !is_argument || !intake.record().ends_with(b"\r") {
            return None;
        }
        self.tells_line_end = false;
        let item = intake.first();
        Some(Notice::Warning(format!(
            "item {item} ends in a carriage return, which COMMAND gets: add --trim, or filter with tr -d '\\r'"
        )))
    }

    /// An item without a part that limits go by: all such items have the same key, so they wait for each other.
    fn keyless(&mut self, intake: &Intake) -> Option<String> {
        let key = self.keyless.as_mut()?.count(&intake.charger, intake.first())?;
        let record = intake.record();
        let (what, need) = match (key, record.trim_ascii_start().first()?) {
            (Selector::Host, _) => ("has no host".to_owned(), ": URLs need a scheme, such as https://"),
            (Selector::Path(_), first) if !b"{[".contains(first) => {
                ("is no JSON object or array".to_owned(), "")
            }
            _ => (format!("has no {key}"), ""),
        };
        let (item, record) = (intake.first(), excerpt(record));
        Some(format!("item {item} {record} {what}, so key={key} puts it under the empty key{need}"))
    }

    /// A member of the first item whose name is in braces in the command, without the dot.
    fn member(&mut self, intake: &Intake) -> Option<String> {
        if self.members.is_empty() {
            return None;
        }
        let members = mem::take(&mut self.members);
        let record = intake.record();
        if !record.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let fields = Fields::new(&members, None);
        let found = fields.select(record, record.len()).position(|part| part.is_some())?;
        let selector = members[found].to_string();
        let typed = selector.trim_start_matches('.');
        Some(format!("{{{typed}}} is passed on unchanged: for that member of the item, write {{{selector}}}"))
    }

    fn quotes(&mut self, intake: &Intake) -> Option<String> {
        if !self.tells_quotes || !intake.cuts_quotes() {
            return None;
        }
        self.tells_quotes = false;
        Some(cut_quotes(intake.first(), intake.record()))
    }

    /// What was missed among all items, or is a matter of several: limits for a key that never came, which are probably
    /// mistakes, if the run `has_looked_at_all` items; and the number of items without a key.
    pub(super) fn at_end(&mut self, charger: &Charger, has_looked_at_all: bool) -> Vec<Notice> {
        let Some(keyless) = self.keyless.take() else { return Vec::new() };
        let unmatched = charger.unmatched().filter(|_| has_looked_at_all);
        let unmatched = unmatched.map(|limit| format!("no item matched the limit {limit}"));
        unmatched.chain(keyless.told()).map(Notice::Warning).collect()
    }
}
